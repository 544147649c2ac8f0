"""The target machine of the advice: the properties that decide which releases fit. Unknown properties are no limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tfgpu_doctor.knowledge import Knowledge, version
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.python import Target

SYSTEMS = ("linux", "windows", "macos", "wsl")
ARCHITECTURES = ("x86_64", "aarch64", "arm64")
_OS = {"Linux": "linux", "Windows": "windows", "Darwin": "macos"}
_ARCHITECTURE = {"AMD64": "x86_64", "amd64": "x86_64"}
_REJECTED = (803, 804)  # CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE
# what a target without the Python of this machine has
NEW_PYTHON: dict[str, Any] = {"interpreter": "", "install": "", "base": ""}


@dataclass(frozen=True)
class Gpu:
    """A GPU: its name and compute capability ("8.6")."""

    name: str
    compute_capability: str


@dataclass(frozen=True)
class TargetSpec:
    """A machine and a Python. Empty values are unknown."""

    os: str = "linux"
    architecture: str = "x86_64"
    python: str = ""  # "3.12"
    driver: str = ""
    module: str = ""  # the kernel module's version, if libcuda is newer
    glibc: str = ""
    other_libc: bool = False  # Linux with a C library other than glibc
    gpu: Gpu | None = None
    lowest_capability: str = ""  # of all GPUs, if there are several
    board: str = ""  # the model of a single-board computer, for example a Jetson
    interpreter: str = ""  # the Python to install into; empty to create a new environment
    install: str = ""  # the command that installs packages into it; empty for its pip
    base: str = ""  # a Python of that version which rejects pip, to create an environment with

    @property
    def wheels_os(self) -> str:
        """The system whose wheels pip installs: in WSL, that is Linux."""
        return "linux" if self.os == "wsl" else self.os

    @property
    def driver_os(self) -> str:
        """The system whose driver is in use, as `platform.system()` names it: for WSL, that is Windows."""
        return "Windows" if self.os in ("windows", "wsl") else "Linux"


def spec_of(facts: Facts, knowledge: Knowledge) -> TargetSpec:
    """Return the target for an examined machine. Of several GPUs, the one with the highest compute capability counts.

    The doctor's own environment is no target, and its Python no limit: nobody's program runs there. Nor is a Python of another
    kind than TensorFlow's wheels are for.
    """
    system, target = facts.system, facts.target if facts.target and _takes_wheels(facts.target) else None
    os = ("wsl" if system.wsl else _OS.get(system.os, system.os)) if system else "linux"
    architecture = _ARCHITECTURE.get(system.architecture, system.architecture) if system else "x86_64"
    answered = target is not None and target.attempt.answered
    managed = target is not None and answered and target.rejects_pip
    usable = target is not None and answered and not managed
    driver = _driver(facts, "Windows" if os in ("windows", "wsl") else "Linux", knowledge)
    module = _module(facts)
    gpus = sorted(gpus_of(facts, knowledge), key=lambda gpu: version(gpu.compute_capability), reverse=True)
    return TargetSpec(
        os=os,
        architecture=architecture,
        python=".".join(target.version.split(".")[:2]) if target and answered else "",
        driver=driver,
        module=module if module != driver else "",
        glibc=system.glibc if system else "",
        other_libc=bool(system and system.os == "Linux" and not system.glibc),
        gpu=gpus[0] if gpus else None,
        lowest_capability=gpus[-1].compute_capability if len(gpus) > 1 else "",
        board=system.board if system else "",
        interpreter=target.lasting_python if target and usable else "",
        install=_install_into(target) if target and usable else "",
        base=target.lasting_python if target and managed else "",
    )


def _takes_wheels(target: Target) -> bool:
    """Return whether TensorFlow could be installed into the target if its version fits."""
    return not target.is_doctors_own and not target.free_threaded and target.implementation in ("", "cpython")


def _install_into(target: Target) -> str:
    """Return the command that installs packages into the target: with uv where it made the environment, which has no pip.

    Where Python's own copy of pip is to be installed first, that is a part of it.
    """
    from tfgpu_doctor.checks.commands import pip

    return " && ".join(pip(target, "install"))


def gpus_of(facts: Facts, knowledge: Knowledge) -> list[Gpu]:
    """Return the GPUs that the driver lists with their compute capability, from NVML first; if no driver responds, those
    whose PCI ids are in the table."""
    for source in (facts.nvml, facts.cuda_driver):
        found = [Gpu(gpu.name, gpu.compute_capability) for gpu in (source.gpus if source else ())]
        if any(gpu.compute_capability for gpu in found):
            return [gpu for gpu in found if gpu.compute_capability]
    return gpus_on_bus(facts, knowledge)


def gpus_on_bus(facts: Facts, knowledge: Knowledge) -> list[Gpu]:
    """Return the GPUs on the PCI bus whose ids determine the compute capability; one id may have several names."""
    found = []
    for device in facts.pci.nvidia_gpus if facts.pci else ():
        models = knowledge.gpus_with_id(device.device)
        if len({model.compute_capability for model in models}) == 1:
            found.append(Gpu(knowledge.name_for_id(device.device), models[0].compute_capability))
    return found


def _driver(facts: Facts, os: str, knowledge: Knowledge) -> str:
    """Return the driver's version. If libcuda supports a newer CUDA (by the forward-compatibility package), or the version
    is unknown, return the driver that was released with that CUDA; not if the GPU or the kernel module rejects that libcuda."""
    module, cuda = _module(facts), facts.cuda_driver
    if cuda is None or not cuda.cuda_version or cuda.init_code in _REJECTED or (module and not cuda.works):
        return module
    row = knowledge.ptx_driver(cuda.cuda_version, os)
    return max(module, row.driver(os) if row else "", key=version)


def _module(facts: Facts) -> str:
    return (facts.nvml.driver_version if facts.nvml else "") or (facts.driver.version if facts.driver else "")
