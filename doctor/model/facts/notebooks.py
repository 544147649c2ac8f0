"""The fact of what notebooks and editors run Python with."""

from __future__ import annotations

from tfgpu_doctor.model.facts.attempt import Fact
from tfgpu_doctor.model.redaction import FilePath, Text, Variable


class Interpreter(Fact, frozen=True):
    """A Python that some file or process names."""

    path: FilePath
    prefix: FilePath = ""  # of its virtual or conda environment; empty for a plain installation
    exists: bool = True
    is_target: bool | None = None  # whether it is the environment that is examined; None where that is not known


class Kernel(Fact, frozen=True):
    """A Jupyter kernel: its folder, the Python that it starts, and the variables that it sets of those that matter."""

    name: FilePath
    folder: FilePath
    interpreter: Interpreter
    variables: dict[Variable, Text] = {}


class EditorSetting(Fact, frozen=True):
    """A Python that an editor was told to use, and the file that says so."""

    file: FilePath
    interpreter: Interpreter


class Notebooks(Fact, frozen=True):
    """Kernels of Jupyter for Python, settings of editors in the working folder, and the notebook that this runs in."""

    kernels: tuple[Kernel, ...] = ()
    settings: tuple[EditorSetting, ...] = ()
    inside: Text = ""  # "Jupyter", "VS Code", "PyCharm"; empty where this process was started by none of them
    running: Interpreter | None = None  # of the kernel that started this process, or that it is
    shell: Interpreter | None = None  # that a shell started from the kernel finds; None where this is no kernel
    shell_has_tensorflow: bool | None = None
    target_was_named: bool = False  # the user said which Python to examine
