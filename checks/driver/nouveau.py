"""DRV003: has another driver taken the GPU?"""

from __future__ import annotations

from tfgpu_doctor.checks.devices import device_of
from tfgpu_doctor.checks.driver.kernel_module import INSTALL
from tfgpu_doctor.model import Evidence, Finding, Fix, NotMeasured, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.kernel import KernelLog
from tfgpu_doctor.model.facts.machine import Pci
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Driver, Nvml

_BLACKLIST = (
    "Install NVIDIA's driver with the distribution's own tool. If it is already installed, add `blacklist nouveau` and "
    "`options nouveau modeset=0` to /etc/modprobe.d/, rebuild the initramfs, and reboot."
)
_OPEN_SOURCE = ("nouveau", "nova_core", "nova", "NovaCore")  # nova is nouveau's successor in the kernel


@check(
    "DRV003",
    "the GPU is not bound to the nouveau driver",
    family="Driver",
    stage=Stage.DRIVER,
    after=("GPU001", "CNT001"),
    causes=("nouveau_loaded",),
    sources=(f"{INSTALL}#disabling-nouveau-driver", "https://nouveau.freedesktop.org/"),
)
def nouveau_is_not_loaded(
    driver: Driver | None = None,
    pci: Pci | None = None,
    kernel_log: KernelLog | None = None,
    cuda_driver: CudaDriver | None = None,
    nvml: Nvml | None = None,
) -> Yielded:
    """NVIDIA's driver cannot use a GPU that is bound to the open-source nouveau driver, and nouveau does not support CUDA.

    Fix: install NVIDIA's driver, which blacklists nouveau, rebuild the initramfs and reboot.
    """
    if pci is None:
        yield _taken(kernel_log, bool((cuda_driver and cuda_driver.gpus) or (nvml and nvml.gpus)))
        return
    modules = driver.modules if driver else ()
    held = [gpu for gpu in pci.nvidia_gpus if gpu.driver in _OPEN_SOURCE]
    others_work = len(held) < len(pci.nvidia_gpus) and "nvidia" in modules
    if not pci.nvidia_gpus:
        raise Skip("no NVIDIA GPU on the PCI bus")
    for gpu in held:
        yield Finding(
            f"the GPU at {gpu.address} is bound to the {gpu.driver} driver, which does not support CUDA",
            cause="nouveau_loaded",
            severity="info" if others_work else "error",
            evidence=(
                f"/sys/bus/pci/devices/{gpu.address}/driver is {gpu.driver}",
                f"NVIDIA's own module is {'also loaded' if 'nvidia' in modules else 'not loaded'}",
            ),
            fix=Fix(_BLACKLIST),
            devices=(device_of(gpu),),
        )
    if not held or others_work:
        yield Evidence(", ".join(f"{gpu.address} is bound to {gpu.driver or 'no driver'}" for gpu in pci.nvidia_gpus))


def _taken(kernel_log: KernelLog | None, works: bool) -> Finding | Evidence:
    """Return what the kernel log says where the bus, which shows the driver of each GPU, cannot be read."""
    loads = kernel_log.of_kind("driver_loaded") if kernel_log else ()
    said = [
        each
        for each in (kernel_log.of_kind("taken_by_another") if kernel_log else ())
        if not any((load.last_age_s or 0.0) < (each.last_age_s or 0.0) for load in loads)
    ]
    if works:
        return Evidence("NVIDIA's driver lists a GPU")
    if not said:
        raise NotMeasured("neither the PCI bus nor the kernel log shows which driver the GPU is bound to")
    return Finding(
        "another kernel driver, most likely nouveau, has taken the GPU from NVIDIA's driver",
        cause="nouveau_loaded",
        confidence="medium",
        evidence=(said[0].text, "the PCI bus, which names the driver of each GPU, cannot be read"),
        fix=Fix(
            f"`lspci -k` names the driver. If it is nouveau: {_BLACKLIST} If it is vfio-pci, the GPU is reserved for a "
            "virtual machine."
        ),
    )
