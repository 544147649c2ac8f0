"""The obstacles between a machine and a release, each with the requirement that would remove it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tfgpu_doctor.advise.target_spec import TargetSpec
from tfgpu_doctor.knowledge import Knowledge, version
from tfgpu_doctor.knowledge.compute_capability import Kernels, kernels_for
from tfgpu_doctor.knowledge.driver_branches import is_newer_than_branch, last_branch
from tfgpu_doctor.knowledge.schema import Boundary, CudaDriverRow, TensorFlowRelease, Wheels

Kind = Literal["system", "python", "glibc", "gpu", "driver"]
# The first public branch with CUDA for WSL 2 (https://docs.nvidia.com/cuda/archive/11.4.4/wsl-user-guide/index.html); before
# it, only previews had it, and the usual drivers failed: https://github.com/microsoft/WSL/issues/6014
_FIRST_DRIVER_FOR_WSL = "470.76"
_NAMES = {"linux": "Linux", "windows": "Windows", "macos": "macOS"}


@dataclass(frozen=True)
class Obstacle:
    """The reason why a release does not work on a machine. `needs`: the driver, Python or glibc that it requires."""

    kind: Kind
    text: str
    needs: str = ""


def obstacles(release: TensorFlowRelease, spec: TargetSpec, knowledge: Knowledge) -> list[Obstacle]:
    """Return everything that keeps this release from using this machine's GPU; empty if it works."""
    wheels = release.wheels_for(spec.wheels_os, spec.architecture)
    name = f"{_NAMES.get(spec.wheels_os, spec.wheels_os)} on {spec.architecture}"
    if wheels is None:
        return [Obstacle("system", f"no wheel for {name}")]
    if not wheels.cuda:
        return [Obstacle("system", f"the wheels for {name} are built without CUDA")]
    found = [
        _python(wheels, spec),
        _glibc(wheels, spec),
        _kernels(wheels, spec, knowledge),
        _driver(wheels, spec, knowledge),
    ]
    return [each for each in found if each]


def kernels_of(wheels: Wheels, spec: TargetSpec) -> Kernels:
    """Return how the GPU would run these wheels; "unknown" if no GPU is given."""
    gpu = spec.gpu
    return kernels_for(gpu.compute_capability, wheels.compute_capabilities) if gpu else "unknown"


def needed_driver(wheels: Wheels, spec: TargetSpec, knowledge: Knowledge) -> CudaDriverRow | None:
    """Return the oldest driver for these wheels on this GPU: PTX requires the driver of its toolkit, machine code that of
    its major version. None if the tables do not list the CUDA version."""
    if kernels_of(wheels, spec) == "ptx":
        return knowledge.ptx_driver(wheels.cuda, spec.driver_os)
    return knowledge.minimum_driver(wheels.cuda, spec.driver_os)


def oldest_driver(wheels: Wheels, spec: TargetSpec, knowledge: Knowledge) -> str:
    """Return the oldest driver with which these wheels use this GPU on the target's system; empty if the tables tell none."""
    row = needed_driver(wheels, spec, knowledge)
    driver = row.driver(spec.driver_os) if row else ""
    return max(driver, _FIRST_DRIVER_FOR_WSL, key=version) if driver and spec.os == "wsl" else driver


def last_branch_of(spec: TargetSpec, knowledge: Knowledge) -> Boundary | None:
    """Return the last driver branch that supports the GPU; None if no GPU is given, or if current branches do."""
    return last_branch(spec.gpu.compute_capability, knowledge) if spec.gpu else None


def spoken(versions: Sequence[str]) -> str:
    """Return the first and the last version: 3.10 to 3.13."""
    return versions[0] if len(versions) == 1 else f"{versions[0]} to {versions[-1]}"


def _python(wheels: Wheels, spec: TargetSpec) -> Obstacle | None:
    if not spec.python or spec.python in wheels.pythons:
        return None
    pythons = spoken(wheels.pythons)
    return Obstacle("python", f"no wheel for Python {spec.python}, only for {pythons}", f"Python {pythons}")


def _glibc(wheels: Wheels, spec: TargetSpec) -> Obstacle | None:
    if not wheels.glibc or (not spec.other_libc and not spec.glibc):
        return None
    if spec.other_libc:
        return Obstacle("glibc", f"requires glibc {wheels.glibc}; this system has another C library", "glibc")
    if version(spec.glibc) >= version(wheels.glibc):
        return None
    return Obstacle("glibc", f"requires glibc {wheels.glibc}, this system has {spec.glibc}", wheels.glibc)


def _kernels(wheels: Wheels, spec: TargetSpec, knowledge: Knowledge) -> Obstacle | None:
    kernels, gpu = kernels_of(wheels, spec), spec.gpu
    if gpu is None or kernels == "native":
        return None
    built = " ".join(wheels.compute_capabilities)
    if kernels == "ptx":
        limit = knowledge.boundaries["first_capability_where_ptx_fails"]
        if version(gpu.compute_capability) < version(limit.value):
            return None
        return Obstacle(
            "gpu",
            f"no machine code for compute capability {gpu.compute_capability} (built for {built}), and its PTX fails "
            f"on this GPU ({limit.source})",
        )
    return Obstacle("gpu", f"no code for compute capability {gpu.compute_capability} (built for {built})")


def _driver(wheels: Wheels, spec: TargetSpec, knowledge: Knowledge) -> Obstacle | None:
    last, installed = last_branch_of(spec, knowledge), spec.module or spec.driver
    if last and is_newer_than_branch(installed, last, spec.driver_os):
        return Obstacle(
            "driver",
            f"driver {installed} no longer supports this GPU: branch {last.value} is the last that supports it "
            f"({last.source})",
            last.value,
        )
    row = needed_driver(wheels, spec, knowledge)
    if row is None or not spec.driver:
        return None
    needed = oldest_driver(wheels, spec, knowledge)
    if version(spec.driver) >= version(needed):
        return None
    if needed != row.driver(spec.driver_os):
        return Obstacle("driver", f"CUDA in WSL 2 requires driver {needed} or newer, this is {spec.driver}", needed)
    what = "to compile PTX of CUDA" if kernels_of(wheels, spec) == "ptx" else "for CUDA"
    return Obstacle("driver", f"requires driver {needed} or newer {what} {row.cuda}, this is {spec.driver}", needed)
