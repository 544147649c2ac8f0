"""Acme's requirements for its GPU machines, as checks of tfgpu-doctor."""

from __future__ import annotations

from tfgpu_doctor.model import CannotTell, Evidence, Finding, Fix, Skip, Yielded, check
from tfgpu_doctor.model.facts.machine import Environment
from tfgpu_doctor.model.facts.nvidia import Driver, Nvml

_APPROVED = ("535", "550", "570")  # driver branches: the part of the version before the first dot
_LEAST_GIB = 16


@check(
    "ACME001",
    "the driver is from a branch that Acme supports",
    after=("DRV001",),
    causes=("driver_too_old",),
    sources=("https://docs.nvidia.com/datacenter/tesla/drivers/",),
)
def driver_is_of_an_approved_branch(driver: Driver) -> Yielded:
    """Acme tests its models only with the driver's long-term branches.

    Fix: install a driver from one of them, from Acme's package mirror.
    """
    branch = driver.version.partition(".")[0]
    if branch in _APPROVED:
        yield Evidence(f"driver {driver.version}")
        return
    yield Finding(
        f"driver {driver.version} is from branch {branch}, but Acme supports only {', '.join(_APPROVED)}",
        cause="driver_too_old",
        evidence=(f"the driver reports version {driver.version}",),
        fix=Fix("Install the driver from branch 570 from Acme's package mirror, and reboot."),
    )


@check("ACME002", "every GPU has the memory that Acme's models need", after=("DRV007",))
def gpus_have_enough_memory(nvml: Nvml) -> Yielded:
    """The smallest of Acme's models needs 16 GiB.

    Fix: give the job a larger GPU.
    """
    known = [gpu for gpu in nvml.gpus if gpu.memory_total_bytes]
    if not known:
        raise CannotTell("NVML reports no memory size for any GPU")
    for gpu in known:
        gib = (gpu.memory_total_bytes or 0) / (1 << 30)
        if gib < _LEAST_GIB:
            yield Finding(
                f"GPU {gpu.index} ({gpu.name}) has {gib:.0f} GiB, but Acme's smallest model needs {_LEAST_GIB}",
                fix=Fix("Run the job on a machine from the pool `large`."),
            )
        else:
            yield Evidence(f"GPU {gpu.index}: {gib:.0f} GiB")


@check("ACME003", "TensorFlow uses its own allocator, which Acme's scheduler monitors")
def own_allocator_is_used(environment: Environment) -> Yielded:
    """Acme's scheduler only counts memory from TensorFlow's own allocator.

    Fix: unset TF_GPU_ALLOCATOR.
    """
    chosen = environment.variables.get("TF_GPU_ALLOCATOR", "")
    if not chosen:
        raise Skip("TF_GPU_ALLOCATOR is not set")
    yield Finding(
        f"TF_GPU_ALLOCATOR is {chosen}, which Acme's scheduler does not monitor",
        severity="warning",
        fix=Fix("Unset it for this job.", ("unset TF_GPU_ALLOCATOR",)),
    )


CHECKS = (driver_is_of_an_approved_branch, gpus_have_enough_memory, own_allocator_is_used)
