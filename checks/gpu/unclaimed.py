"""GPU, DRV: is there a GPU that is switched off, or that the driver does not use?"""

from __future__ import annotations

from collections.abc import Sequence

from tfgpu_doctor.checks.devices import devices_of
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import Evidence, Finding, Fix, Skip, Stage, Yielded, check
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts.machine import Pci, PciDevice
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Driver, Nvml
from tfgpu_doctor.model.tags import GPU_LOST


@check(
    "GPU006",
    "the NVIDIA GPU of a laptop is not switched off",
    family="GPU",
    stage=Stage.MACHINE,
    after=("SYS001",),
    causes=("optimus_gpu_powered_off",),
    sources=(
        "https://github.com/canonical/nvidia-prime",
        "https://github.com/Bumblebee-Project/bbswitch",
        "https://github.com/bayasdev/envycontrol",
        "https://gitlab.com/asus-linux/supergfxctl",
    ),
)
def gpu_is_switched_on(
    driver: Driver, pci: Pci | None = None, cuda_driver: CudaDriver | None = None, nvml: Nvml | None = None
) -> Yielded:
    """A laptop with two GPUs can switch off NVIDIA's to save power. `prime-select intel`, EnvyControl and supergfxd remove it
    from the PCI bus, so that it appears not to exist; bbswitch cuts its power.

    Fix: `sudo prime-select on-demand`, `sudo envycontrol -s hybrid` or `supergfxctl -m Hybrid`, then reboot; with Bumblebee,
    put `optirun` before the command.
    """
    states = [f"/etc/prime-discrete says {driver.prime}"] if driver.prime else []
    states += [f"/proc/acpi/bbswitch says {driver.bbswitch}"] if driver.bbswitch else []
    states += [f"{driver.removed_by} takes NVIDIA's GPU off the PCI bus"] if driver.removed_by else []
    if not states:
        raise Skip("nothing on this system switches GPUs off")
    in_use = bool(driver.version or (cuda_driver and cuda_driver.gpus) or (nvml and nvml.gpus))
    by, how = _switched_off_by(driver, pci)
    if in_use or not by:
        yield Evidence(", ".join(states) + (", and the driver is loaded" if in_use else ""))
    else:
        yield Finding(
            f"the laptop's NVIDIA GPU is switched off by {by}",
            cause="optimus_gpu_powered_off",
            evidence=(*states, "NVIDIA's kernel module is not loaded"),
            fix=Fix(how),
        )


def _switched_off_by(driver: Driver, pci: Pci | None) -> tuple[str, str]:
    """Return the program that switched the GPU off, and how to switch it on; empty if none did.

    A file that takes the GPU off the bus counts only if the bus has no NVIDIA GPU.
    """
    if driver.prime == "off":
        return "prime-select", "As root, run `prime-select on-demand` (or `nvidia`), then reboot."
    if driver.bbswitch == "OFF":
        return "bbswitch", "Start the program with `optirun`, or remove Bumblebee and bbswitch, and reboot."
    if not driver.removed_by or pci is None or pci.nvidia_gpus:
        return "", ""
    if driver.removed_by.endswith("supergfxd.conf"):
        return "supergfxd", "Run `supergfxctl -m Hybrid`, then reboot."
    return "EnvyControl", (
        f"As root, run `envycontrol -s hybrid`, then reboot. If EnvyControl is no longer installed, remove {driver.removed_by} "
        "and /etc/modprobe.d/blacklist-nvidia.conf."
    )


@check(
    "DRV009",
    "the loaded driver is bound to the NVIDIA GPU",
    family="Driver",
    tags=(GPU_LOST,),
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
    """Each driver branch supports some GPU generations: newer branches drop old GPUs, older ones do not support new GPUs,
    and the open kernel modules need Turing or newer. The module is then loaded, but drives no GPU.

    Fix: install the branch that supports the GPU, or the proprietary modules instead of the open ones.
    """
    if not driver.version and "nvidia" not in driver.modules:
        raise Skip("NVIDIA's module is not loaded")
    free = [gpu for gpu in pci.nvidia_gpus if not gpu.driver and gpu.address not in driver.gpus]
    if (cuda_driver and cuda_driver.gpus) or (nvml and nvml.gpus):
        yield Evidence("the driver lists a GPU")
    elif not pci.nvidia_gpus:
        raise Skip("no NVIDIA GPU on the PCI bus")
    elif not driver.gpus and (others := _of_others(pci)):
        raise Skip(f"the GPUs on the PCI bus are bound to {', '.join(others)}")
    elif len(free) < len(pci.nvidia_gpus) or driver.gpus:
        bound = len(pci.nvidia_gpus) - len(free)
        yield Evidence(
            f"{bound} of {amount(len(pci.nvidia_gpus), 'GPU')} on the PCI bus {'is' if bound == 1 else 'are'} bound"
        )
    else:
        yield Finding(
            f"driver {driver.version or 'of unknown version'} is loaded, but is bound to none of the NVIDIA GPUs on the PCI bus",
            cause="driver_does_not_support_gpu",
            confidence="medium",
            evidence=(
                "/proc/driver/nvidia/gpus lists no GPU",
                *(
                    f"{knowledge.name_for_id(gpu.device) or 'the GPU'}, {gpu.vendor}:{gpu.device} at {gpu.address}, is bound "
                    "to no driver"
                    for gpu in free
                ),
                *(
                    ["the loaded module is the open kernel module, which needs Turing or newer"]
                    if driver.flavour == "open"
                    else ()
                ),
            ),
            fix=Fix(
                _last_branch(free, driver, knowledge)
                + "`sudo dmesg | grep NVRM` and NVIDIA's list of legacy GPUs say which driver branch supports this GPU: install "
                "that branch, or the proprietary modules instead of the open ones."
            ),
            devices=devices_of(free),
        )


def _of_others(pci: Pci) -> list[str]:
    """Return the drivers that have the GPUs, if each is bound, and none to NVIDIA's."""
    bound = [gpu.driver for gpu in pci.nvidia_gpus]
    return list(dict.fromkeys(bound)) if all(bound) and "nvidia" not in bound else []


def _last_branch(free: Sequence[PciDevice], driver: Driver, knowledge: Knowledge) -> str:
    """Return the branch to install, if NVIDIA dropped the GPU's generation after it and the loaded driver is newer."""
    models = [model for gpu in free for model in knowledge.gpus_with_id(gpu.device)]
    rows = (knowledge.boundaries.get(f"last_driver_of_{model.architecture.lower()}") for model in models)
    last = next((row.value for row in rows if row), "")
    branch = driver.version.partition(".")[0]
    if not last or not branch.isdigit() or int(branch) <= int(last):
        return ""
    return f"Install driver branch {last}, the last one for this GPU. "
