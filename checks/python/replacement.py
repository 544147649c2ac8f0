"""The fix that replaces what owns the package tensorflow with one build with CUDA, of the release that is there."""

from __future__ import annotations

from collections.abc import Mapping

from tfgpu_doctor.checks.commands import bring_cuda_libraries, pip, requirement
from tfgpu_doctor.knowledge import Knowledge, version
from tfgpu_doctor.knowledge.release_needs import needs_of
from tfgpu_doctor.model import Fix
from tfgpu_doctor.model.facts.machine import System
from tfgpu_doctor.model.facts.nvidia import CudaDriver
from tfgpu_doctor.model.facts.python import Target, TensorFlow


def replace_with_cuda_build(
    target: Target,
    owners: Mapping[str, str],
    knowledge: Knowledge,
    why: str,
    system: System | None = None,
    cuda_driver: CudaDriver | None = None,
) -> Fix:
    """Return the fix that uninstalls the owners (name to version), and installs their release of tensorflow.

    The newest of several releases counts. If none is a release (tf-nightly), it is the newest known one for this Python.
    """
    requires = next((each for each in owners if not each.startswith("tf-nightly")), "tensorflow")
    number = _release_of(owners, knowledge)
    installation = install_cuda_build(target, number, knowledge, why, system, cuda_driver, requires_of=requires)
    if not installation.commands:
        return installation
    names = [each for each in owners if each]  # no distribution lists the files of some builds
    removed = pip(target, "uninstall", "-y", *names) if names else ()
    return Fix(installation.text, tuple(dict.fromkeys((*removed, *installation.commands))))


def install_cuda_build(
    target: Target,
    number: str,
    knowledge: Knowledge,
    why: str,
    system: System | None = None,
    cuda_driver: CudaDriver | None = None,
    *,
    requires_of: str = "tensorflow",
) -> Fix:
    """Return the fix that installs a release of tensorflow; without a number, the newest known one for this Python.

    `requires_of` is the distribution whose metadata says what the release requires.
    """
    on_linux = system is None or system.os == "Linux"
    number = number or (_newest_for(target, system, knowledge) if on_linux else "")
    if target.rejects_pip:
        return Fix(f"{why} This Python rejects pip: create a virtual environment first, `python3 -m venv`.")
    if not number or not on_linux:
        plain = f"{requirement(system)}=={number}" if number else requirement(system)
        return Fix(why, pip(target, "install", plain))
    needs = needs_of(knowledge, number, "linux", system.architecture if system else "x86_64")
    tensorflow = TensorFlow(version=number, distribution=requires_of)
    libraries = bring_cuda_libraries(target, tensorflow, knowledge, why, cuda_driver)
    if libraries.commands:
        return libraries
    package, needed = "tensorflow", ""
    if needs and needs.gpu_package:
        package = needs.gpu_package
        needed = f" It needs the CUDA {needs.cuda} and cuDNN {needs.cudnn} libraries, which pip cannot install for it."
    return Fix(f"{why}{needed}", pip(target, "install", f"{package}=={number}"))


def _release_of(owners: Mapping[str, str], knowledge: Knowledge) -> str:
    """Return the newest release among the owners; empty if none of them is one.

    A version that only another distribution has (intel-tensorflow 2.15.0.1) stands for the last release of its minor version.
    """
    numbers = [each.partition("+")[0] for each in owners.values()]
    released = [each for each in numbers if version(each) > version("0") and not version(each).is_devrelease]
    if not released:
        return ""
    number = max(released, key=version)
    known = [each.version for each in knowledge.tensorflow_releases]
    later = [
        each
        for each in known
        if version(each).release[:2] == version(number).release[:2] and version(each) > version(number)
    ]
    return number if number in known or not later else later[-1]


def _newest_for(target: Target, system: System | None, knowledge: Knowledge) -> str:
    python = ".".join(target.version.split(".")[:2])
    architecture = system.architecture if system else "x86_64"
    fitting = [
        each.version
        for each in knowledge.tensorflow_releases
        if (wheels := each.wheels_for("linux", architecture)) and python in wheels.pythons
    ]
    return fitting[-1] if fitting else ""
