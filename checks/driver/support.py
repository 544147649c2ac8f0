"""DRV: does the installed driver support the GPU at all?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tfgpu_doctor.checks.devices import devices_of
from tfgpu_doctor.checks.kernel_log.xids import same_place
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import Evidence, Finding, Fix, NotMeasured, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.kernel import KernelLog, KernelMessage, ModuleFiles
from tfgpu_doctor.model.facts.machine import Pci, PciDevice
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Driver, Libraries, Nvml
from tfgpu_doctor.model.tags import GPU_LOST

_REFUSALS = ("legacy_gpu", "unsupported_gpu", "open_module_cannot", "open_module_needed")
_NAMED = re.compile(r"The NVIDIA (?:NVIDIA )?(\w.{1,60}?) GPU installed in this system")
_ID = re.compile(r"\(PCI ID: 10de:([0-9a-f]{4})\)")
_OPEN = (
    "Install the driver with NVIDIA's open kernel modules instead of the proprietary ones (Ubuntu: the package "
    "nvidia-driver-BRANCH-open; NVIDIA's installer: `--kernel-module-type=open`, before 560 `-m=kernel-open`), and reboot."
)
_PROPRIETARY = (
    "Install the driver with the proprietary kernel modules instead of the open ones, which need Turing or newer (use "
    "branch 580 or older: later ones no longer support such GPUs), and reboot."
)


@check(
    "DRV010",
    "the installed driver supports the NVIDIA GPU",
    family="Driver",
    tags=(GPU_LOST,),
    stage=Stage.DRIVER,
    after=("GPU001", "CNT001", "DRV003"),
    causes=("driver_does_not_support_gpu",),
    sources=(
        "https://developer.nvidia.com/blog/nvidia-transitions-fully-towards-open-source-gpu-kernel-modules/",
        "https://www.nvidia.com/en-us/drivers/unix/legacy-gpu/",
    ),
)
def driver_supports_gpu(
    knowledge: Knowledge,
    pci: Pci | None = None,
    driver: Driver | None = None,
    driver_libraries: Libraries | None = None,
    module_files: ModuleFiles | None = None,
    kernel_log: KernelLog | None = None,
    cuda_driver: CudaDriver | None = None,
    nvml: Nvml | None = None,
) -> Yielded:
    """Blackwell needs the open kernel modules, GPUs before Turing need the proprietary ones, and each driver branch drops
    support for old generations. The module then does not load, or drives no GPU. Only the kernel log gives the reason,
    which also follows from the GPU's PCI device ID.

    Fix: install the module flavour or the driver branch that the GPU needs.
    """
    if pci and not pci.nvidia_gpus:
        raise Skip("no NVIDIA GPU on the PCI bus")
    if (cuda_driver and cuda_driver.gpus) or (nvml and nvml.gpus):
        yield Evidence("the driver lists a GPU")
        return
    flavour, installed = _installed(driver, module_files, driver_libraries)
    gpus = pci.nvidia_gpus if pci else ()
    refused = _refusals(kernel_log, gpus, flavour)
    unfit = [why for gpu in gpus if (why := _unfit(gpu, flavour, installed, knowledge))]
    if refused or (gpus and len(unfit) == len(gpus)):
        reason, fix = _said(refused[0].kind, refused[0].text) if refused else unfit[0]
        names = _names(gpus, refused, knowledge)
        yield Finding(
            f"{reason}: {', '.join(dict.fromkeys(names))}",
            cause="driver_does_not_support_gpu",
            confidence="high"
            if (refused and pci) or (driver and driver.version)
            else "medium",  # else only the library's version is known, or not whether there are other GPUs
            evidence=(
                *(each.text for each in refused[:2]),
                *(f"10de:{gpu.device} at {gpu.address} is {text}" for gpu, text in _generations(gpus[:2], knowledge)),
                _driver_in_words(installed, flavour),
            ),
            fix=Fix(fix),
            devices=devices_of(gpus) or tuple(each.pci_address for each in refused),
        )
    elif installed or flavour:
        known = [f"{gpu.address} is {text}" for gpu, text in _generations(gpus, knowledge)]
        if not known and not (kernel_log and kernel_log.source):
            raise NotMeasured("the kernel log cannot be read, and the GPU is newer than the doctor's table")
        yield Evidence("; ".join(["nothing indicates that the driver rejects the GPU", *known]))
    else:
        raise Skip(_absence(driver, driver_libraries))


def _absence(driver: Driver | None, driver_libraries: Libraries | None) -> str:
    """Return what is known where no driver was found: nothing, if it was not looked for."""
    if driver is None or driver_libraries is None:
        return "whether an NVIDIA driver is installed was not examined"
    return "no NVIDIA driver is installed"


def _driver_in_words(installed: str, flavour: str) -> str:
    return (
        f"the installed driver is {installed or 'of unknown version'}, its module is {flavour or 'of unknown flavour'}"
    )


def _names(gpus: Sequence[PciDevice], refused: Sequence[KernelMessage], knowledge: Knowledge) -> list[str]:
    """Return the models: by their ids, or as the kernel log names them."""
    known = [knowledge.name_for_id(gpu.device) or (f"10de:{gpu.device}" if gpu.device else "") for gpu in gpus]
    said = [found for each in refused for found in _NAMED.findall(each.text)]
    said += [knowledge.name_for_id(id) or f"10de:{id}" for each in refused for id in _ID.findall(each.text)]
    return [name for name in known if name] or said or ["its model is unknown"]


def _installed(driver: Driver | None, files: ModuleFiles | None, libraries: Libraries | None) -> tuple[str, str]:
    """Return the driver's flavour and version: of the loaded module, else of the one on disk, else of its libcuda."""
    file = files.file if files else None
    flavour = (driver.flavour if driver else "") or (file.flavour if file else "")
    copies = libraries.named("libcuda.so.1") if libraries else ()
    of_library = next((copy.version for copy in copies if copy.kind == "driver" and copy.version), "")
    return flavour, (driver.version if driver else "") or (file.version if file else "") or of_library


def _refusals(kernel_log: KernelLog | None, gpus: Sequence[PciDevice], flavour: str) -> list[KernelMessage]:
    """Return the messages in which the driver rejects every GPU; empty if it accepted one, or if another flavour is loaded."""
    stale = {"open": "open_module_needed", "proprietary": "open_module_cannot"}.get(flavour)
    found = [each for each in (kernel_log.of_kind(*_REFUSALS) if kernel_log else ()) if each.kind != stale]

    def refuses(message: KernelMessage, gpu: PciDevice) -> bool:
        if message.kind == "open_module_needed":  # the GPU is bound to the driver nevertheless
            return same_place(message.pci_address, gpu.address)
        return not gpu.driver and (not message.pci_address or same_place(message.pci_address, gpu.address))

    return found if all(any(refuses(each, gpu) for each in found) for gpu in gpus) else []


def _unfit(gpu: PciDevice, flavour: str, installed: str, knowledge: Knowledge) -> tuple[str, str] | None:
    """Return why the installed driver cannot drive a GPU, and the fix; None if nothing indicates that."""
    row = knowledge.pci_generation(gpu.device)
    if row is None or gpu.physical_function:
        return None
    if row.modules == "open" and flavour == "proprietary":
        return f"{row.generation} GPUs need NVIDIA's open kernel modules, but the proprietary ones are installed", _OPEN
    if row.modules == "proprietary" and flavour == "open":
        return f"NVIDIA's open kernel modules do not support {row.generation} GPUs", _PROPRIETARY
    last = knowledge.boundaries.get(f"last_driver_of_{row.generation.lower()}")
    branch = installed.partition(".")[0]
    if last and branch.isdecimal() and int(branch) > int(last.value):
        fix = f"Install driver branch {last.value}, the last one for {row.generation} GPUs, and reboot ({last.source})."
        return (
            f"driver {installed} no longer supports {row.generation} GPUs; branch {last.value} is the last one that does",
            fix,
        )
    return None


def _said(kind: str, text: str) -> tuple[str, str]:
    """Return the reason that the kernel log gives, and the fix."""
    if kind == "open_module_needed":
        return "the GPU needs NVIDIA's open kernel modules, but the proprietary ones are installed", _OPEN
    if kind == "open_module_cannot":
        return "NVIDIA's open kernel modules do not support the GPU", _PROPRIETARY
    branch = re.search(r"supported through the NVIDIA (\d+)", text)
    if branch:
        fix = f"Install driver branch {branch.group(1)}, which the kernel log names, and reboot."
        return (
            f"the installed driver no longer supports the GPU; branch {branch.group(1)} is the last one that does",
            fix,
        )
    return (
        "the installed driver does not support the GPU",
        "Install the newest driver for it, as listed on NVIDIA's driver page.",
    )


def _generations(gpus: Sequence[PciDevice], knowledge: Knowledge) -> Iterator[tuple[PciDevice, str]]:
    for gpu in gpus:
        if row := knowledge.pci_generation(gpu.device):
            modules = {
                "open": "the open modules",
                "proprietary": "the proprietary modules",
                "either": "either kind of module",
            }
            yield gpu, f"of generation {row.generation}, which {modules[row.modules]} can drive"
