"""XID: did the driver start the GPUs that it found?"""

from __future__ import annotations

from dataclasses import replace

from tfgpu_doctor.checks.devices import figures_of
from tfgpu_doctor.checks.kernel_log.xids import ago, is_bound_elsewhere, is_current, is_ours, read_log, same_place
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import Evidence, Finding, Fix, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.kernel import KernelLog, KernelMessage
from tfgpu_doctor.model.facts.machine import Container, Pci, Scheduler
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Nvml
from tfgpu_doctor.model.tags import GPU_LOST, UNFIT

_INTERRUPTED = "failed with error -4"  # EINTR: a signal
_UNASKED = "neither NVML nor CUDA was asked whether it started later"
_REINSTALL = (
    "Reinstall the complete driver including its firmware (Ubuntu: the package nvidia-firmware in exactly the driver's "
    "version), and reboot."
)
_ONCE_MORE = (
    "A signal interrupted the kernel while it read the firmware (error -4, EINTR), as when the program is ended that opened the "
    "GPU first: run `sudo nvidia-smi` again, and let the service nvidia-persistenced open the GPUs once at boot. If the GPU "
    "stays unavailable, reboot."
)
_LOOK = (
    "Power the machine off briefly and restart it. If the error recurs: use another slot and other cables, update the "
    "board's firmware (Above 4G Decoding on), try another driver version; as root, `nvidia-bug-report.sh` collects "
    "the data that NVIDIA requests."
)


@check(
    "XID004",
    "the driver started every GPU that it found", family="Kernel log", tags=(GPU_LOST, UNFIT), stage=Stage.GPU,
    after=("GPU001", "CNT001", "DRV001", "DRV006", "DRV010", "XID001"),
    causes=("gpu_start_failed", "gsp_firmware_not_loaded"),
    sources=(
        "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/595.45.04/src/nvidia/arch/nvalloc/unix/src/osinit.c",
        "https://github.com/NVIDIA/open-gpu-kernel-modules/issues/943",
    ),
)  # fmt: skip
def driver_starts_gpus(
    kernel_log: KernelLog,
    knowledge: Knowledge,
    pci: Pci | None = None,
    cuda_driver: CudaDriver | None = None,
    nvml: Nvml | None = None,
    container: Container | None = None,
    scheduler: Scheduler | None = None,
) -> Yielded:
    """A GPU may be bound to the driver but fail to start: nvidia-smi says "No devices were found", or lists only the others.
    The kernel log then says RmInitAdapter failed, and sometimes that the firmware of the GPU's own processor is missing.

    Fix: if firmware is missing, reinstall the driver; otherwise power off briefly, or try another slot or driver.
    """
    if pci and not pci.nvidia_gpus:
        raise Skip("no NVIDIA GPU on the PCI bus")
    log = read_log(kernel_log)
    listed = [gpu.pci_address for gpu in nvml.gpus] if nvml else []
    listed += [gpu.pci_address for gpu in cuda_driver.gpus] if cuda_driver else []
    failed = [
        each
        for each in log.of_kind("init_failed")
        if is_current(each, log, knowledge)
        and not any(same_place(each.pci_address, address) for address in listed)
        and is_ours(each.pci_address, cuda_driver, nvml, container, scheduler)
        and not is_bound_elsewhere(each.pci_address, pci)
    ]
    asked = nvml is not None or cuda_driver is not None
    for each in failed:
        found = _not_started(each, _firmware_of(each, log, knowledge), bool(listed))
        yield found if asked else replace(found, confidence="medium", evidence=(*found.evidence[:-1], _UNASKED))
    if not failed:
        yield Evidence("the kernel log reports no GPU that failed to start and stayed unavailable")


def _firmware_of(said: KernelMessage, log: KernelLog, knowledge: Knowledge) -> tuple[KernelMessage, ...]:
    """Return what the log says of the firmware of a GPU, or of one that it does not name."""
    return tuple(
        each
        for each in log.of_kind("firmware_missing")
        if is_current(each, log, knowledge) and (not each.pci_address or same_place(each.pci_address, said.pci_address))
    )


def _not_started(said: KernelMessage, firmware: tuple[KernelMessage, ...], others_work: bool) -> Finding:
    times = f", {said.count} times" if said.count > 1 else ""
    without = ": the firmware of its own processor (GSP) was not loaded" if firmware else ""
    return Finding(
        f"the driver could not start the GPU at {said.pci_address}{times}, last {ago(said.last_age_s)}{without}",
        cause="gsp_firmware_not_loaded" if firmware else "gpu_start_failed",
        blocks=not others_work,
        evidence=(said.text, *(each.text for each in firmware[:1]), "neither NVML nor CUDA lists it"),
        fix=Fix(_fix(firmware)),
        devices=(said.pci_address,),
        figures=figures_of(said.pci_address, [("failed starts", said.count, "")]),
    )


def _fix(firmware: tuple[KernelMessage, ...]) -> str:
    if not firmware:
        return _LOOK
    interrupted = all(_INTERRUPTED in each.text for each in firmware)
    return _ONCE_MORE if interrupted else _REINSTALL
