"""NBK: do notebooks, their shells and editors use the examined environment?"""

from __future__ import annotations

import os
import shlex

from tfgpu_doctor.checks.commands import pip
from tfgpu_doctor.checks.unseen import tell_missing
from tfgpu_doctor.model import Evidence, Finding, Fix, NotMeasured, Skip, Stage, Yielded, check
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts.machine import Environment
from tfgpu_doctor.model.facts.notebooks import Interpreter, Kernel, Notebooks
from tfgpu_doctor.model.facts.python import Target
from tfgpu_doctor.model.facts.resolution import Resolution

_KERNELS = "https://ipython.readthedocs.io/en/stable/install/kernel_install.html"
_VARIABLE = "LD_LIBRARY_PATH"


@check(
    "NBK001",
    "the current notebook uses the examined Python",
    family="Notebooks and editors",
    stage=Stage.PYTHON,
    after=("PKG001",),
    causes=("wrong_python_environment",),
    sources=(_KERNELS,),
)
def notebook_runs_target(notebooks: Notebooks, target: Target) -> Yielded:
    """`!tfgpu-doctor` in a notebook cell runs the command that the shell finds, which may belong to a different Python
    than the notebook's kernel; the same applies to `!pip install`.

    Fix: use `!tfgpu-doctor --python` with the kernel's Python, and `%pip install` instead of `!pip install`.
    """
    running = notebooks.running
    if not running:
        raise Skip("this process was not started by a notebook kernel")
    if running.is_target is None:
        raise NotMeasured(f"the kernel runs {running.path}; whether that is {target.executable} is unknown")
    if running.is_target:
        yield Evidence(f"the kernel runs {running.path}")
        return
    yield Finding(
        f"this notebook runs {running.path}, but {target.executable} was examined",
        cause="wrong_python_environment",
        severity="info" if notebooks.target_was_named else "warning" if target.tensorflow_file else "error",
        evidence=(
            "the notebook's kernel is a parent of this process",
            *([] if target.tensorflow_file else [f"TensorFlow is not installed in {target.prefix}"]),
        ),
        fix=Fix(
            "Examine the notebook's own Python; install packages into it with `%pip install`.",
            (shlex.join(["tfgpu-doctor", "--python", running.path]),),
        ),
    )
    yield Evidence(f"the kernel runs {running.path}")


@check(
    "NBK002",
    "a Jupyter kernel runs the examined Python",
    family="Notebooks and editors",
    stage=Stage.ADVICE,
    after=("PKG001",),
    sources=(_KERNELS,),
    causes=("wrong_python_environment",),
)
def kernel_runs_target(notebooks: Notebooks, target: Target) -> Yielded:
    """A notebook runs the Python named in its kernel's kernel.json, regardless of the server's environment.

    Fix: run `python -m ipykernel install --user --name NAME` in the environment, then select that kernel in the notebook.
    """
    if not notebooks.kernels:
        raise Skip("no Jupyter kernel for Python was found")
    is_ones_own = not target.is_doctors_own  # a notebook has no use for the doctor's own environment
    gone = [kernel for kernel in notebooks.kernels if not kernel.interpreter.exists]
    for kernel in gone:
        yield Finding(
            f"the kernel {kernel.name!r} starts {kernel.interpreter.path}, which does not exist",
            cause="wrong_python_environment",
            severity="info",
            evidence=(f"{kernel.folder}/kernel.json",),
            fix=Fix(f"Remove it: `jupyter kernelspec remove {kernel.name}`."),
        )
    rest = [kernel for kernel in notebooks.kernels if kernel not in gone]
    fitting = [kernel.name for kernel in rest if kernel.interpreter.is_target is not False]
    unknown = [kernel for kernel in rest if kernel.interpreter.is_target is None]
    if len(unknown) == len(fitting) > 0 and not gone and not notebooks.running:
        raise NotMeasured(f"{', '.join(map(_said, unknown[:5]))}; whether that is {target.executable} is unknown")
    if is_ones_own and not fitting and not notebooks.running:
        name = os.path.basename(target.prefix) or "tensorflow"
        yield Finding(
            "no Jupyter kernel runs the examined Python: a notebook would use a different one",
            cause="wrong_python_environment",
            severity="info",
            evidence=tuple(_said(kernel) for kernel in rest[:5]) or ("there is no other kernel",),
            fix=Fix(
                "Create a kernel for this environment, and select it in the notebook.",
                (*pip(target, "install", "ipykernel"), *_install_kernel(target, name)),
            ),
        )
    yield Evidence(", ".join(_said(kernel) for kernel in rest[:5]) or "no kernel has an existing Python")


def _install_kernel(target: Target, name: str) -> tuple[str, ...]:
    if target.rejects_pip:
        return ()
    return (shlex.join([target.lasting_python, "-m", "ipykernel", "install", "--user", "--name", name]),)


def _said(kernel: Kernel) -> str:
    return f"kernel {kernel.name!r} starts {kernel.interpreter.path}"


@check("NBK003", "the editor uses the examined Python", family="Notebooks and editors", stage=Stage.ADVICE, after=("PKG001",),
       causes=("wrong_python_environment",), sources=("https://code.visualstudio.com/docs/python/environments",))  # fmt: skip
def editor_runs_target(notebooks: Notebooks, target: Target) -> Yielded:
    """An editor stores an interpreter for each folder and runs programs with it, whatever is active in a shell.

    Fix: select the interpreter in the editor (VS Code: "Python: Select Interpreter").
    """
    if not notebooks.settings:
        raise Skip("no editor settings in the working folder name a Python")
    for setting in notebooks.settings:
        if setting.interpreter.is_target is False:
            yield Finding(
                f"the editor runs {setting.interpreter.path}, but {target.executable} was examined",
                cause="wrong_python_environment",
                severity="info",
                evidence=(setting.file, *([] if setting.interpreter.exists else ["that Python does not exist"])),
                fix=Fix(
                    'In VS Code, select the interpreter that has TensorFlow ("Python: Select Interpreter"), or examine the '
                    "editor's interpreter.",
                    (shlex.join(["tfgpu-doctor", "--python", setting.interpreter.path]),),
                ),
            )
        yield Evidence(f"{setting.file} names {setting.interpreter.path}")
    unknown = [each.interpreter.path for each in notebooks.settings if each.interpreter.is_target is None]
    missing = f"whether {', '.join(unknown)} is {target.executable} is unknown" if unknown else ""
    yield from tell_missing(missing, found=any(each.interpreter.is_target is False for each in notebooks.settings))


@check(
    "NBK004",
    "notebooks get the library path that TensorFlow needs",
    family="Notebooks and editors",
    stage=Stage.ADVICE,
    after=("PKG001", "TFB001"),
    causes=("env_vars_not_inherited_by_ide_or_notebook",),
    sources=("https://jupyter-client.readthedocs.io/en/stable/kernels.html#kernel-specs",),
)
def kernels_have_library_path(notebooks: Notebooks, environment: Environment, resolution: Resolution) -> Yielded:
    """If TensorFlow finds its libraries only through LD_LIBRARY_PATH, a notebook finds them only if its server was started
    from a shell with that variable, or if its kernel.json sets the variable.

    Fix: set the variable under "env" in kernel.json.
    """
    own = [kernel for kernel in notebooks.kernels if kernel.interpreter.is_target]
    needed = [each for each in resolution.libraries if each.found_by == _VARIABLE and each.needed_by_tensorflow]
    path = environment.get(_VARIABLE)
    if not own or notebooks.inside or not path:
        raise Skip(
            "there is no notebook kernel to compare with" if not own or notebooks.inside else f"{_VARIABLE} is not set"
        )
    lacking = [kernel for kernel in own if _VARIABLE not in kernel.variables]
    if needed and lacking:
        yield Finding(
            f"TensorFlow finds {amount(len(needed), 'library')} through {_VARIABLE}, which the kernel "
            f"{lacking[0].name!r} does not set",
            cause="env_vars_not_inherited_by_ide_or_notebook",
            severity="info",
            evidence=(f"{needed[0].soname} is loaded from {needed[0].path}", f"{lacking[0].folder}/kernel.json"),
            fix=Fix(
                f'Add "env": {{"{_VARIABLE}": "{path}"}} to {lacking[0].folder}/kernel.json, or start Jupyter from a shell '
                "that has it."
            ),
        )
    yield Evidence(
        f"{_VARIABLE} is needed for {amount(len(needed), 'library')}; kernels: {', '.join(each.name for each in own)}"
    )


@check(
    "NBK005",
    "a shell that the notebook's kernel starts finds the kernel's Python",
    family="Notebooks and editors",
    stage=Stage.PYTHON,
    after=("PKG001", "NBK001"),
    causes=("wrong_python_environment",),
    sources=("https://ipython.readthedocs.io/en/stable/interactive/magics.html#magic-pip",),
)
def shell_finds_kernels_python(notebooks: Notebooks, target: Target) -> Yielded:
    """`!pip install` and `!python` in a cell run the first match on PATH, which may belong to a different Python than the
    kernel. The notebook cannot import packages that are installed there.

    Fix: use `%pip install` instead of `!pip install`, or a kernel for the other environment if that is the intended one.
    """
    running, shell = notebooks.running, notebooks.shell
    if not running or not shell:
        raise Skip("the doctor does not run in a notebook kernel")
    if running.is_target is False or shell.is_target is None:
        raise Skip(
            f"{target.executable} was examined"
            if shell.is_target is not None
            else f"it is unknown which Python {shell.path} is"
        )
    if not shell.is_target:
        misplaced = bool(notebooks.shell_has_tensorflow and not target.tensorflow_file)
        yield Finding(
            f"the notebook's kernel runs {running.path}, but its shell finds {shell.path}",
            cause="wrong_python_environment",
            severity="error" if misplaced else "info",
            evidence=(
                f"{shell.path} comes first on the kernel's PATH: `!pip` and `!python` use it",
                *([f"TensorFlow is installed in {shell.prefix}, not in {target.prefix}"] if misplaced else []),
            ),
            fix=Fix(
                "Install packages with `%pip install`, which uses the kernel's own Python"
                + (", or select a kernel for the shell's environment." if misplaced else "."),
                _install_kernel_of(shell) if misplaced else (),
            ),
        )
    yield Evidence(f"the kernel runs {running.path}, its shell finds {shell.path}")


def _install_kernel_of(shell: Interpreter) -> tuple[str, ...]:
    name = os.path.basename(shell.prefix) or "tensorflow"
    return (
        shlex.join([shell.path, "-m", "pip", "install", "ipykernel"]),
        shlex.join([shell.path, "-m", "ipykernel", "install", "--user", "--name", name]),
    )
