"""GPU, DRV: is there a GPU that nobody switched on, or that the driver does not take?"""

from __future__ import annotations

from collections.abc import Sequence

from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import Evidence, Finding, Fix, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.machine import Pci, PciDevice
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Driver, Nvml


@check(
    "GPU006",
    "the NVIDIA GPU of a laptop is not switched off",
    stage=Stage.MACHINE,
    after=("SYS001",),
    causes=("optimus_gpu_powered_off",),
    sources=("https://github.com/canonical/nvidia-prime", "https://github.com/Bumblebee-Project/bbswitch"),
)
def gpu_is_switched_on(driver: Driver, cuda_driver: CudaDriver | None = None, nvml: Nvml | None = None) -> Yielded:
    """A laptop with two GPUs can do without NVIDIA's to save power. `prime-select intel` takes it off the PCI bus, so that
    it seems not to be there at all; bbswitch cuts its power.

    Fix: `sudo prime-select on-demand`, then a reboot; with Bumblebee `optirun` before the command.
    """
    if not driver.prime and not driver.bbswitch:
        raise Skip("nothing here switches GPUs off")
    states = [f"/etc/prime-discrete says {driver.prime}"] if driver.prime else []
    states += [f"/proc/acpi/bbswitch says {driver.bbswitch}"] if driver.bbswitch else []
    in_use = bool(driver.version or (cuda_driver and cuda_driver.gpus) or (nvml and nvml.gpus))
    if in_use or (driver.prime != "off" and driver.bbswitch != "OFF"):
        yield Evidence(", ".join(states) + (", and the driver is loaded" if in_use else ""))
    else:
        by_prime = driver.prime == "off"
        yield Finding(
            "the laptop's NVIDIA GPU is switched off" + (" by prime-select" if by_prime else " by bbswitch"),
            cause="optimus_gpu_powered_off",
            evidence=(*states, "NVIDIA's kernel module is not loaded"),
            fix=Fix(
                "As root run `prime-select on-demand` (or `nvidia`), then reboot."
                if by_prime
                else "Start the program with `optirun`, or remove Bumblebee and bbswitch, and reboot."
            ),
        )


@check(
    "DRV009",
    "the loaded driver takes the NVIDIA GPU",
    stage=Stage.DRIVER,
    after=("GPU001", "CNT001", "DRV001", "DRV003", "DRV010"),
    causes=("driver_does_not_support_gpu",),
    sources=(
        "https://www.nvidia.com/en-us/drivers/unix/legacy-gpu/",
        "https://github.com/NVIDIA/open-gpu-kernel-modules",
    ),
)
def driver_takes_gpu(
    driver: Driver, pci: Pci, knowledge: Knowledge, cuda_driver: CudaDriver | None = None, nvml: Nvml | None = None
) -> Yielded:
    """Each branch of the driver supports some generations of GPUs: newer ones drop the old, older ones do not know the
    new, and the open kernel modules need Turing or newer. The module is then loaded and holds no GPU.

    Fix: install the branch that supports the GPU, or the proprietary modules in place of the open ones.
    """
    if not driver.version and "nvidia" not in driver.modules:
        raise Skip("NVIDIA's module is not loaded")
    free = [gpu for gpu in pci.nvidia_gpus if not gpu.driver and gpu.address not in driver.gpus]
    if (cuda_driver and cuda_driver.gpus) or (nvml and nvml.gpus):
        yield Evidence("the driver lists a GPU")
    elif not free or len(free) < len(pci.nvidia_gpus) or driver.gpus:
        yield Evidence("the GPUs on the PCI bus are bound to a driver")
    else:
        yield Finding(
            f"driver {driver.version or 'of unknown version'} is loaded, and takes none of the NVIDIA GPUs on the PCI bus",
            cause="driver_does_not_support_gpu",
            confidence="medium",
            evidence=(
                "/proc/driver/nvidia/gpus holds no GPU",
                *(
                    f"{knowledge.name_for_id(gpu.device) or 'the GPU'}, {gpu.vendor}:{gpu.device} at {gpu.address}, is bound "
                    "to no driver"
                    for gpu in free
                ),
                *(["it is the open kernel module, which needs Turing or newer"] if driver.flavour == "open" else ()),
            ),
            fix=Fix(
                _last_branch(free, driver, knowledge)
                + "`sudo dmesg | grep NVRM` says which branch of the driver supports this GPU, as NVIDIA's list of legacy GPUs "
                "does: install that one, or the proprietary modules in place of the open ones."
            ),
        )


def _last_branch(free: Sequence[PciDevice], driver: Driver, knowledge: Knowledge) -> str:
    """The branch to install, where NVIDIA dropped the GPU's generation after it and the loaded driver is of a newer one."""
    models = [model for gpu in free for model in knowledge.gpus_with_id(gpu.device)]
    rows = (knowledge.boundaries.get(f"last_driver_of_{model.architecture.lower()}") for model in models)
    last = next((row.value for row in rows if row), "")
    branch = driver.version.partition(".")[0]
    if not last or not branch.isdigit() or int(branch) <= int(last):
        return ""
    return f"Install the driver's branch {last}, the last for this GPU. "
