"""What is wrong with a GPU that NVML cannot read."""

from __future__ import annotations

from collections.abc import Sequence

from tfgpu_doctor.checks.devices import device_of, figures_of
from tfgpu_doctor.checks.gpu.in_use import chosen, place, short_address, told_places
from tfgpu_doctor.checks.kernel_log.xids import ago, is_news, same_place
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import UNDETERMINED, Confidence, Finding, Fix
from tfgpu_doctor.model.facts.health import GpuTrouble
from tfgpu_doctor.model.facts.kernel import KernelLog, KernelMessage
from tfgpu_doctor.model.facts.machine import Environment, Pci
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Nvml

_STATED = ("gpu_lost", "gpu_hang", "gpu_reset_required")  # what NVML itself states about a GPU that it cannot read
TROUBLES = (*_STATED, "hardware_power_supply")
_OF_THE_LINK = ("off_the_bus", "pci_unrecovered", "pci_fatal", "pci_nonfatal", "pci_corrected")
_ASK = "Check the kernel log: `sudo dmesg | grep -i -e NVRM -e Xid -e AER`."
_RESET = "end the programs that use it, then as root reset it (`nvidia-smi --gpu-reset -i {index}`) or reboot."


def why_harmless(
    trouble: GpuTrouble, knowledge: Knowledge, cuda_driver: CudaDriver | None, environment: Environment | None
) -> str:
    """Return why a GPU that NVML cannot read is no obstacle: CUDA lists it, or it is withheld; empty if it is one."""
    row = knowledge.nvml_errors.get(trouble.error_code) if trouble.error_code else None
    stated = trouble.is_silent or (row and row.cause in _STATED)
    listed = {place(gpu.pci_address) for gpu in (cuda_driver.gpus if cuda_driver else ()) if gpu.pci_address}
    if not stated and trouble.pci_address and place(trouble.pci_address) in listed:
        return "CUDA lists it all the same"
    return "CUDA_VISIBLE_DEVICES names others, which CUDA lists" if chosen(environment, cuda_driver) else ""


def in_trouble(
    trouble: GpuTrouble,
    nvml: Nvml,
    knowledge: Knowledge,
    pci: Pci | None,
    harmless: str,
    signs: Sequence[KernelMessage],
    others_work: bool,
) -> Finding:
    """Return the finding for a GPU that NVML cannot read."""
    row = knowledge.nvml_errors.get(trouble.error_code) if trouble.error_code else None
    address = short_address(trouble.pci_address) if trouble.pci_address else _only_address_left(nvml, pci)
    name = (
        f"GPU {trouble.index}" + (f" ({trouble.name})" if trouble.name else "") + (f" at {address}" if address else "")
    )
    if trouble.is_silent:
        message = f"{name} does not respond to NVML"
        told = f"{trouble.call} did not return within {trouble.seconds:.0f} s"
    else:
        message = f"{name} has a problem: NVML says {trouble.error_text!r}"
        told = f"{trouble.call} returned {row.name if row else 'code'} ({trouble.error_code})"
    healthy = [gpu.uuid for gpu in nvml.gpus if gpu.uuid and gpu.index not in {each.index for each in nvml.troubles}]
    hide = healthy and others_work and not harmless and not any(gpu.mig for gpu in nvml.gpus)
    cause, confidence = _cause_of_trouble(trouble, row.cause if row else "", signs)
    return Finding(
        message,
        cause=cause,
        severity="warning" if harmless else "error",
        confidence=confidence,
        evidence=(
            told,
            *([f"meaning: {row.meaning}"] if row else []),
            f"other GPUs that could be read: {len(healthy)}",
            *([harmless] if harmless else []),
            *(f"{ago(each.last_age_s)}: {each.text}" for each in signs[:2]),
        ),
        fix=Fix(
            (row.action if row and row.action else f"{_ASK} Then {_RESET.format(index=trouble.index)}")
            + (" To use the other GPUs meanwhile, hide this one from CUDA." if hide else ""),
            (f"export CUDA_VISIBLE_DEVICES={','.join(healthy)}",) if hide else (),
        ),
        blocks=not others_work,
        devices=(device_of(trouble),),
        figures=figures_of(device_of(trouble), [("time without response", trouble.seconds or None, "s")]),
    )


def _cause_of_trouble(trouble: GpuTrouble, by_code: str, signs: Sequence[KernelMessage]) -> tuple[str, Confidence]:
    """Return the label of a GPU that cannot be read: NVML states a loss and a required reset; other codes are a hint.

    An unknown error alone has many reasons; together with errors of its link, the GPU is lost.
    """
    if trouble.is_silent:
        return "gpu_hang", "high"
    if by_code in TROUBLES:
        return by_code, "high" if by_code in _STATED else "low"
    if signs and not by_code:
        return "gpu_lost", "medium" if any(each.kind != "pci_corrected" for each in signs) else "low"
    return UNDETERMINED, "low"


def _only_address_left(nvml: Nvml, pci: Pci | None) -> str:
    """Return the address of a GPU that reported none, if it is the only GPU on the bus that is not accounted for."""
    told = told_places(nvml)
    left = [gpu.address for gpu in (pci.nvidia_gpus if pci else ()) if place(gpu.address) not in told]
    return left[0] if len(left) == 1 else ""


def signs_of_loss(
    trouble: GpuTrouble, nvml: Nvml, pci: Pci | None, kernel_log: KernelLog | None, knowledge: Knowledge
) -> list[KernelMessage]:
    """Return the recent errors of a GPU's link: its own, and those of the port above it.

    Where the PCI bus cannot be read, the port is unknown: then those of every device that is no other GPU.
    """
    said = kernel_log.of_kind(*_OF_THE_LINK) if kernel_log else ()
    ports = [gpu.port for gpu in (pci.nvidia_gpus if pci else ()) if same_place(gpu.address, trouble.pci_address)]
    others = [gpu.pci_address for gpu in nvml.gpus]

    def is_its(each: KernelMessage) -> bool:
        if same_place(each.pci_address, trouble.pci_address):
            return True
        if pci is None:
            return each.kind.startswith("pci_") and not any(same_place(each.pci_address, other) for other in others)
        return bool(each.pci_address) and each.pci_address in ports

    return [each for each in said if is_news(each, knowledge) and is_its(each)]
