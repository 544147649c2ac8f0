"""PKG: is this the right Python, with exactly one TensorFlow?"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from tfgpu_doctor.checks.commands import NOT_FROM_PIP, cudnn_caps_for, has_no_cuda_wheel, pip, requirement
from tfgpu_doctor.checks.python.owners import (
    CPU_ONLY,
    bring_back,
    files_are_missing,
    owners_of,
    owners_of_the_imported,
)
from tfgpu_doctor.checks.python.replacement import replace_with_cuda_build
from tfgpu_doctor.checks.python.without_wheels import ANY_PYTHON, OddMachine, odd_machine, odd_python, older_python
from tfgpu_doctor.checks.tensorflow.runs import still_imports
from tfgpu_doctor.knowledge import Knowledge, version
from tfgpu_doctor.knowledge.release_needs import NEW_ENVIRONMENT, with_another_python
from tfgpu_doctor.knowledge.schema import TensorFlowRelease
from tfgpu_doctor.model import CannotTell, Evidence, Finding, Fix, NotMeasured, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.machine import Environment, System
from tfgpu_doctor.model.facts.notebooks import Notebooks
from tfgpu_doctor.model.facts.nvidia import CudaDriver
from tfgpu_doctor.model.facts.python import Runtime, Target, TensorFlow
from tfgpu_doctor.model.tags import version_of

_PIP = "https://www.tensorflow.org/install/pip"
# Right under pytest and in the GitHub action too, which have no such option.
_ANOTHER = "Use the Python that has TensorFlow (`tfgpu-doctor --python PATH` examines it)"
_UV = "uv (https://docs.astral.sh/uv)"
_NO_MEMORY = ("Cannot allocate memory", "failed to map segment", "MemoryError")
# strerror of EAGAIN, EMFILE, ENFILE and ENOMEM: this process may start no other, whatever its program is
_NOT_STARTED = ("Resource temporarily unavailable", "Too many open files", _NO_MEMORY[0])
CONDA_TENSORFLOW = ("tensorflow", "tensorflow-base", "tensorflow-gpu", "tensorflow-cpu", "_tflow_select")


@check(
    "PKG001",
    "the target's Python responds",
    family="Python and packages",
    stage=Stage.MACHINE,
    causes=("wrong_python_environment", "unsupported_python_version"),
    sources=("https://docs.python.org/3/library/venv.html",),
)
def python_answers(
    target: Target,
    knowledge: Knowledge,
    runtime: Runtime | None = None,
    system: System | None = None,
    cuda_driver: CudaDriver | None = None,
) -> Yielded:
    """All information about packages and TensorFlow comes from the interpreter to diagnose, which must be Python 3.7 or newer.

    Fix: use a working interpreter (`tfgpu-doctor --python PATH` examines it); recreate a virtual environment whose base
    Python was removed or upgraded.
    """
    if _lacks_resources(target.attempt):
        raise CannotTell(f"the Python {target.executable} {target.attempt.ending}")  # LIM002, LIM004 and LIM005 say why
    if target.attempt.outcome == "timed_out" and runtime and (runtime.version or still_imports(runtime)):
        did = f"TensorFlow {runtime.version} ran in it" if runtime.version else "it was importing TensorFlow meanwhile"
        raise NotMeasured(f"reading its packages {target.attempt.ending}, but {did}: a slow file system?")
    if older := older_python(target.attempt):
        newest = knowledge.tensorflow_releases[-1]
        by_nvidia = has_no_cuda_wheel(system, knowledge)
        caps = cudnn_caps_for(newest, system, cuda_driver, knowledge)
        yield _too_old(target, older, _newer_python(newest, system, caps, by_nvidia=by_nvidia), knowledge)
    elif not target.attempt.answered:
        yield Finding(
            f"the Python {target.executable} {target.attempt.ending}",
            cause="wrong_python_environment",
            evidence=target.attempt.stderr[-5:] or (f"it was started as {target.executable}",),
            fix=Fix(
                "Use a working interpreter (`tfgpu-doctor --python PATH` examines it). Recreate a virtual environment whose "
                "base Python was removed."
            ),
        )
    else:
        yield Evidence(f"Python {target.version} at {target.executable}")


def _too_old(target: Target, older: str, fix: Fix, knowledge: Knowledge) -> Finding:
    last = [each.version for each in knowledge.tensorflow_releases if older.removeprefix("Python ") in each.pythons]
    newest = knowledge.tensorflow_releases[-1]
    return Finding(
        f"{target.executable} is {older}: too old for tfgpu-doctor to examine, and for newer releases of TensorFlow",
        cause="unsupported_python_version",
        confidence="medium",
        evidence=(
            target.attempt.error,
            *([f"TensorFlow {last[-1]} is the last release with wheels for {older}"] if last else ()),
            _pythons_of(newest),
        ),
        fix=fix,
    )


def _pythons_of(release: TensorFlowRelease) -> str:
    return f"TensorFlow {release.version} has wheels for Python {', '.join(release.pythons)} ({release.source})"


def _newer_python(newest: TensorFlowRelease, system: System | None, caps: Sequence[str], *, by_nvidia: bool) -> Fix:
    if by_nvidia:
        return Fix(f"{_ANOTHER}; it must be Python 3.7 or newer. {NOT_FROM_PIP}")
    return Fix(
        f"{_ANOTHER}; it must be Python 3.7 or newer. Or create an environment with one: {_UV} downloads it if this machine "
        "has none.",
        _new_environment(newest, system, caps),
    )


def _lacks_resources(attempt: Attempt) -> bool:
    """Return whether a limit of this process or a full memory ended it, which says nothing of the interpreter."""
    words = {"not_started": _NOT_STARTED, "failed": _NO_MEMORY}.get(attempt.outcome, ())
    return any(each in attempt.error for each in words)


@check(
    "PKG002",
    "TensorFlow is installed in the target",
    family="Python and packages",
    tags=(version_of("python"),),
    stage=Stage.PYTHON,
    after=("PKG001", "PKG004", "PKG010", "NBK001", "NBK005", "CNT005", "CNT006", "CNT007"),
    causes=("wrong_python_environment", "unsupported_python_version", "externally_managed_python"),
    sources=(_PIP,),
)
def tensorflow_is_installed(
    target: Target,
    environment: Environment,
    knowledge: Knowledge,
    system: System | None = None,
    notebooks: Notebooks | None = None,
    cuda_driver: CudaDriver | None = None,
) -> Yielded:
    """The most common reason for an unused GPU: the Python in use is not the one that pip installed TensorFlow into.

    Fix: use the right interpreter (`tfgpu-doctor --python PATH` examines it), or install TensorFlow into this one; where
    TensorFlow has no wheel for this Python, or it is tfgpu-doctor's own, create an environment with another one. Where a
    removed package took the files of another along, install that again.
    """
    if not target.attempt.answered:
        raise NotMeasured("the packages of the target could not be read")
    newest = knowledge.tensorflow_releases[-1]
    python = ".".join(target.version.split(".")[:2])
    by_nvidia = has_no_cuda_wheel(system, knowledge)  # its builds have Pythons of their own
    caps = cudnn_caps_for(newest, system, cuda_driver, knowledge)
    has_wheels = by_nvidia or any(
        python in release.pythons for release in knowledge.tensorflow_releases if release.cuda_extra
    )
    own, odd = target.is_doctors_own, odd_python(target)
    active = environment.other_than(target.prefix)
    meant = notebooks is not None and notebooks.target_was_named and not own
    rather = "" if meant else active
    if target.tensorflow_file:
        yield Evidence(target.tensorflow_file)
    elif not rather and (lost := owners_of(target)):
        fix = bring_back(target, lost, knowledge, system, cuda_driver, by_nvidia=by_nvidia)
        yield files_are_missing(lost[0], active, fix)
    elif not rather and not by_nvidia and (machine := odd_machine(system, knowledge)):
        yield _no_wheel_here(machine)
    elif not own and (odd or (python and not has_wheels)):
        fix = _another_python(newest, system, caps, odd.use if odd else ANY_PYTHON, by_nvidia=by_nvidia)
        yield _no_wheel(target, odd.what if odd else "", newest, fix)
    else:
        if rather:
            fix = Fix("Diagnose the active environment.", (_diagnose(rather),))
        elif own and target.beside:
            fix = Fix("Diagnose the environment in the working folder.", (_diagnose(target.beside),))
        else:
            fix = _where_it_may_be(target, active, newest, system, caps, by_nvidia=by_nvidia)
        yield _not_installed(target, active, fix, refuses=target.rejects_pip and not rather)


def _no_wheel_here(machine: OddMachine) -> Finding:
    return Finding(
        f"TensorFlow is not installed and has no wheel for {machine.what}",
        cause="unsupported_python_version",
        confidence="high" if machine.is_certain else "medium",
        evidence=(machine.evidence,),
        fix=Fix(machine.advice),
    )


def _no_wheel(target: Target, odd: str, newest: TensorFlowRelease, fix: Fix) -> Finding:
    python = ".".join(target.version.split(".")[:2])
    known = bool(odd) or version(python) < version(newest.pythons[-1])
    return Finding(
        f"TensorFlow is not installed and {'has' if known else 'may have'} no wheel for "
        + (odd or f"Python {target.version} in the releases with [and-cuda]"),
        cause="unsupported_python_version",
        confidence="high" if known else "medium",
        evidence=(_pythons_of(newest),),
        fix=fix,
    )


def _not_installed(target: Target, active: str, fix: Fix, *, refuses: bool) -> Finding:
    reason = ", which rejects pip installations" if refuses else ""
    return Finding(
        "TensorFlow is not installed in this Python"
        + (", which is tfgpu-doctor's own" if target.is_doctors_own else reason),
        cause="externally_managed_python" if refuses else "wrong_python_environment",
        confidence="medium" if refuses else "high",
        evidence=(
            f"no tensorflow on the search path of {target.executable}",
            *(["its standard library contains the file EXTERNALLY-MANAGED (PEP 668)"] if refuses else ()),
            *([f"another environment is active: {active}"] if active else ()),
            *([f"another environment is in the working folder: {target.beside}"] if target.beside else ()),
        ),
        fix=fix,
    )


def _another_python(
    newest: TensorFlowRelease, system: System | None, caps: Sequence[str], use: str, *, by_nvidia: bool
) -> Fix:
    if by_nvidia:
        return Fix(f"Use {use.replace(' {}', '')} for TensorFlow. {NOT_FROM_PIP}")
    fitting = use.format(f"{newest.pythons[-2]} or {newest.pythons[-1]}")
    return Fix(
        f"Use {fitting} for TensorFlow. {_UV} downloads one if this machine has none.",
        _new_environment(newest, system, caps),
    )


def _new_environment(newest: TensorFlowRelease, system: System | None, caps: Sequence[str]) -> tuple[str, ...]:
    install = with_another_python(newest, *caps, cuda=system is None or system.os == "Linux")
    return (*install, f"tfgpu-doctor --python {NEW_ENVIRONMENT}")


def _diagnose(environment: str) -> str:
    return shlex.join(["tfgpu-doctor", "--python", environment])


def _where_it_may_be(
    target: Target,
    active: str,
    newest: TensorFlowRelease,
    system: System | None,
    caps: Sequence[str],
    *,
    by_nvidia: bool,
) -> Fix:
    other = f" `{_diagnose(active)}` examines the active one." if active else ""
    if by_nvidia:
        return Fix(f"{_ANOTHER}. {NOT_FROM_PIP}{other}")
    if target.is_doctors_own:
        text = f"{_ANOTHER}, or create an environment for it: {_UV} downloads that Python if this machine has none."
        return Fix(text, _new_environment(newest, system, caps))
    if target.rejects_pip:
        return Fix(
            f"{_ANOTHER}. This Python rejects pip: to install TensorFlow, first create a virtual environment "
            f"(`python3 -m venv`).{other}"
        )
    return Fix(
        f"{_ANOTHER}, or install TensorFlow into this one.{other}",
        pip(target, "install", requirement(system), *caps),
    )


@check(
    "PKG003",
    "exactly one distribution owns the package tensorflow",
    family="Python and packages",
    stage=Stage.WHEEL,
    after=("PKG002",),
    causes=("cpu_package_shadows_gpu_package",),
    sources=(_PIP,),
)
def one_distribution_owns_tensorflow(
    target: Target,
    knowledge: Knowledge,
    runtime: Runtime | None = None,
    system: System | None = None,
    cuda_driver: CudaDriver | None = None,
) -> Yielded:
    """tensorflow, tensorflow-cpu, tensorflow-gpu, tf-nightly and intel-tensorflow all install into the same folder. The
    last one installed overwrites files of the others, with unpredictable results. One in another folder is hidden as a whole.

    Fix: uninstall all of them, then install one, of the same release.
    """
    owners, hidden = owners_of_the_imported(target)
    if not owners:
        raise Skip("no distribution lists the files of tensorflow (conda and system packages list none)")
    if len(owners) > 1:
        rest = [f"{name} {number}" for name, number in owners.items() if number]
        yield Finding(
            f"{len(owners)} distributions installed the same package: {', '.join(rest)}",
            cause="cpu_package_shadows_gpu_package",
            severity="warning" if runtime and runtime.gpus else "error",
            confidence="high" if owners.keys() & set(CPU_ONLY) else "medium",
            evidence=(f"each lists tensorflow/__init__.py in its RECORD: {', '.join(owners)}",),
            fix=_install_one(target, owners, system, knowledge, cuda_driver),
        )
    else:
        yield Evidence(f"{next(iter(owners))} owns it")
        for each in hidden:
            yield Evidence(f"it hides {each.name} {each.version} in {each.folder}")


def _install_one(
    target: Target,
    owners: Mapping[str, str],
    system: System | None,
    knowledge: Knowledge,
    cuda_driver: CudaDriver | None,
) -> Fix:
    text = "Uninstall all of them, then install one."
    if has_no_cuda_wheel(system, knowledge):
        return Fix(f"{text} {NOT_FROM_PIP}")
    return replace_with_cuda_build(target, owners, knowledge, text, system, cuda_driver)


@check(
    "PKG008",
    "TensorFlow's parts come from one installer",
    family="Python and packages",
    stage=Stage.PYTHON,
    after=("PKG002",),
    causes=("mixed_conda_pip_install",),
    sources=("https://docs.conda.io/projects/conda/en/stable/user-guide/tasks/manage-environments.html",),
)
def one_installer(target: Target, tensorflow: TensorFlow, runtime: Runtime | None = None) -> Yielded:
    """Conda and pip do not track each other's packages; TensorFlow from both leaves files of two builds in one folder.

    Fix: create a new environment, and install TensorFlow with only one of them.
    """
    from_conda = {name: build for name, build in target.conda_packages.items() if name in CONDA_TENSORFLOW}
    if not target.conda_packages:
        raise Skip("this is not a conda environment with TensorFlow or CUDA")
    installer = next((each.installer for each in target.distributions if each.name == tensorflow.distribution), "")
    if from_conda and installer == "pip":
        yield Finding(
            f"pip installed TensorFlow {tensorflow.version} over conda's {', '.join(from_conda)}",
            cause="mixed_conda_pip_install",
            severity="warning" if runtime and runtime.gpus else "error",
            confidence="medium",
            evidence=tuple(f"conda-meta lists {name} {build}" for name, build in from_conda.items()),
            fix=Fix("Create a new environment, and install TensorFlow into it only with pip: " + _PIP),
        )
    elif not (installer or from_conda):
        raise NotMeasured(
            f"nothing in {target.prefix} says whether pip or conda installed {tensorflow.distribution or 'TensorFlow'}"
        )
    else:
        yield Evidence(f"TensorFlow was installed by {installer or 'conda'}")
