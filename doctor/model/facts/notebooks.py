"""The fact of which Python notebooks and editors run."""

from __future__ import annotations

from tfgpu_doctor.model.facts.attempt import Fact
from tfgpu_doctor.model.redaction import FilePath, Text, Variable


class Interpreter(Fact, frozen=True):
    """A Python that a file or process names."""

    path: FilePath
    prefix: FilePath = ""  # of its virtual or conda environment; empty for a plain installation
    exists: bool = True
    is_target: bool | None = None  # whether it is the environment that is examined; None if unknown


class Kernel(Fact, frozen=True):
    """A Jupyter kernel: its folder, the Python that it starts, and the relevant variables that it sets."""

    name: FilePath
    folder: FilePath
    interpreter: Interpreter
    variables: dict[Variable, Text] = {}


class EditorSetting(Fact, frozen=True):
    """A Python that an editor is configured to use, and the file that says so."""

    file: FilePath
    interpreter: Interpreter


class Notebooks(Fact, frozen=True):
    """Jupyter kernels for Python, settings of editors in the working folder, and the notebook that this runs in."""

    kernels: tuple[Kernel, ...] = ()
    settings: tuple[EditorSetting, ...] = ()
    inside: Text = ""  # "Jupyter", "VS Code", "PyCharm"; empty if none of them started this process
    running: Interpreter | None = None  # of the kernel that started this process, or that is this process
    shell: Interpreter | None = None  # that a shell started from the kernel finds; None if this is no kernel
    shell_has_tensorflow: bool | None = None
    target_was_named: bool = False  # the user specified which Python to examine
