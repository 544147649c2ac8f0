"""HLT: does each GPU respond, is its memory free of errors, does it need a reset?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tfgpu_doctor.checks.devices import device_of
from tfgpu_doctor.checks.gpu.in_use import gpus_in_use, title
from tfgpu_doctor.checks.gpu.readings import memory_errors
from tfgpu_doctor.checks.gpu.trouble import TROUBLES, in_trouble, signs_of_loss, why_harmless
from tfgpu_doctor.checks.unseen import tell_missing, tell_silent
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import Evidence, Finding, Fix, NotMeasured, Severity, Skip, Stage, Yielded, check
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts.kernel import KernelLog
from tfgpu_doctor.model.facts.machine import Environment, Pci
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Nvml, NvmlGpu
from tfgpu_doctor.model.facts.python import Runtime
from tfgpu_doctor.model.tags import GPU_LOST, PARTIAL, UNFIT

_MEMORY_ERRORS = "https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/index.html"
_ASK_KERNEL = "Check the kernel log: `sudo dmesg | grep -i -e NVRM -e Xid`."
_RESET = "end the programs that use it, then as root reset it (`nvidia-smi --gpu-reset -i {index}`) or reboot."
_WORDS = {
    "gpu_reset": "a reset of the GPU",
    "bus_reset": "a reset of its bus",
    "node_reboot": "a reboot",
    "system_reboot": "a reboot",
    "drain_p2p": "stopping all peer-to-peer traffic",
    "drain_and_reset": "a reset once the programs that use it have ended",
    "recover_imex_domain": "a recovery of the IMEX domain that connects several nodes",
}
# What the driver requests that a reset of the GPU would not give.
_INSTEAD = {
    "node_reboot": "reboot.",
    "system_reboot": "reboot.",
    "drain_p2p": "end the programs that copy between GPUs, and switch UVM persistence mode off; then run `tfgpu-doctor` again: "
    "the driver then requests something else.",
    "recover_imex_domain": "restart nvidia-imex on all nodes of the domain.",
}
_UNUSABLE = ("gpu_reset", "bus_reset", "node_reboot", "system_reboot", "drain_and_reset")


@check(
    "HLT001",
    "every GPU responds to NVML",
    family="GPU health",
    tags=(PARTIAL, GPU_LOST, UNFIT),
    stage=Stage.GPU,
    after=("GPU001", "DRV001", "DRV006", "DEV003", "LIB005", "CNT004", "XID001"),
    causes=TROUBLES,
    sources=("https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html",),
)
def every_gpu_answers(
    nvml: Nvml,
    knowledge: Knowledge,
    cuda_driver: CudaDriver | None = None,
    runtime: Runtime | None = None,
    pci: Pci | None = None,
    environment: Environment | None = None,
    kernel_log: KernelLog | None = None,
) -> Yielded:
    """A GPU that hangs, or fell off the bus, makes nvidia-smi hang and CUDA fail, even if the other GPUs work. The doctor
    reads each GPU on a separate thread, so that it can name the faulty one.

    Fix: check the kernel log for the cause; reset the GPU or reboot, and use the others meanwhile.
    """
    if not nvml.works:
        raise NotMeasured("NVML itself does not respond")
    if not nvml.gpus and not nvml.troubles:
        raise Skip("NVML lists no GPU")
    refused = [each for each in nvml.troubles if each.is_refused]
    if not nvml.gpus and len(refused) == len(nvml.troubles):
        raise Skip("NVML lists no GPU that this process may use")
    others_work = bool((cuda_driver and cuda_driver.gpus) or (runtime and runtime.gpus))
    for trouble in nvml.troubles:
        if trouble.is_refused:
            yield Evidence(f"GPU {trouble.index} is not available to this process: {trouble.error_text}")
        else:
            harmless = why_harmless(trouble, knowledge, cuda_driver, environment)
            signs = signs_of_loss(trouble, nvml, pci, kernel_log, knowledge)
            found = in_trouble(trouble, nvml, knowledge, pci, harmless, signs, others_work)
            # If TensorFlow hangs as well, the GPU explains that.
            yield replace(found, blocks=True) if runtime and runtime.attempt.outcome == "timed_out" else found
    known = {gpu.index for gpu in nvml.gpus} | {each.index for each in nvml.troubles}
    read = (
        amount(len(nvml.gpus), "GPU")
        if nvml.count in (None, len(nvml.gpus))
        else f"{len(nvml.gpus)} of {amount(nvml.count, 'GPU')}"
    )
    unread = nvml.count is not None and len(known) < nvml.count
    missing = (
        f"NVML reads {read}, and says nothing of the others: examine again, and compare with `nvidia-smi -L`"
        if unread
        else ""
    )
    yield from tell_missing(missing, found=len(refused) < len(nvml.troubles))
    yield Evidence(f"NVML reads {read}")


@check(
    "HLT002",
    "the GPU's memory has no uncorrectable errors",
    family="GPU health",
    tags=(PARTIAL, UNFIT),
    stage=Stage.GPU,
    after=("GPU001", "HLT001"),
    causes=("gpu_reset_required", "hardware_ecc_error"),
    sources=(_MEMORY_ERRORS, "https://docs.nvidia.com/deploy/dynamic-page-retirement/index.html"),
)
def memory_is_sound(
    nvml: Nvml, knowledge: Knowledge, cuda_driver: CudaDriver | None = None, runtime: Runtime | None = None
) -> Yielded:
    """ECC detects errors in the GPU's memory. An uncorrectable error ends the program that encounters it. Pending rows are
    replaced with spare rows at the next reset; a row without a spare left means a failing card.

    Fix: reset the GPU or reboot; if errors recur, or remapping failed, have the card replaced.
    """
    gpus = [(gpu, list(_memory_findings(gpu, knowledge))) for gpu in gpus_in_use(nvml, cuda_driver)]
    if not any(findings or _counts_errors(gpu) for gpu, findings in gpus):
        raise NotMeasured("; ".join(dict.fromkeys(_why_not_measured(gpu) for gpu, _ in gpus)) or "NVML lists no GPU")
    computes = bool(runtime and runtime.computes)
    for gpu, findings in gpus:
        yield from (replace(each, blocks=not computes) for each in findings)
        if not findings:
            said = ", ".join(_said_of_memory(gpu))
            yield Evidence(
                f"GPU {gpu.index}: {said if _counts_errors(gpu) else f'not measured: {_why_not_measured(gpu)}'}"
            )
    yield from tell_silent(
        [gpu for gpu, _ in gpus if not (gpu.health.ecc and not gpu.health.ecc.enabled)],  # it may be off on purpose
        lambda gpu: gpu.health.ecc and gpu.health.ecc.volatile_uncorrected,
        lambda gpu: gpu.health.remapped_rows,
        lambda gpu: gpu.health.retired_pages,
        found=any(findings for _, findings in gpus),
    )


def _has_errors(gpu: NvmlGpu, knowledge: Knowledge) -> bool:
    return any(each.cause == "hardware_ecc_error" for each in _memory_findings(gpu, knowledge))


def _counts_errors(gpu: NvmlGpu) -> bool:
    """Whether NVML reports a number that uncorrectable errors would raise."""
    ecc, rows, pages = gpu.health.ecc, gpu.health.remapped_rows, gpu.health.retired_pages
    return ecc.volatile_uncorrected is not None if ecc and ecc.enabled else bool(rows or pages)


def _why_not_measured(gpu: NvmlGpu) -> str:
    ecc = gpu.health.ecc
    if ecc is None:
        return "NVML reports nothing about memory errors"
    if not ecc.enabled:
        return "ECC is off, so that nothing detects errors in the memory"
    return "ECC is on, but NVML reports no number of uncorrectable errors"


def _memory_findings(gpu: NvmlGpu, knowledge: Knowledge) -> Iterable[Finding]:
    ecc, rows, pages = gpu.health.ecc, gpu.health.remapped_rows, gpu.health.retired_pages
    told = tuple(_said_of_memory(gpu))
    reset = _RESET.format(index=gpu.index)
    uncorrected = ecc.volatile_uncorrected if ecc else None
    if uncorrected:
        # NVIDIA's driver contains an error if it can, and reports when no action is needed.
        contained = gpu.health.recovery_action == "none"
        yield _memory_finding(
            gpu,
            f"{title(gpu)} has had {uncorrected} uncorrectable memory errors since the driver was loaded",
            told + (("the driver requests no action: it contained the errors",) if contained else ()),
            ("Start the program again: no reset is needed." if contained else f"First {reset}")
            + " If errors recur, run `dcgmi diag -r 3` and have the card replaced.",
            "warning" if contained else "error",
        )
    if rows and rows.failed:
        yield _memory_finding(
            gpu,
            f"{title(gpu)} has no spare row left for a failing memory row",
            told,
            "Have the card replaced: NVIDIA accepts a failed remapping as a reason.",
        )
    if ecc and ecc.sram_threshold_exceeded:
        yield _memory_finding(
            gpu,
            f"{title(gpu)} has more errors in its caches than NVIDIA's threshold",
            told,
            "Have the card replaced: NVIDIA sets this flag for cards that need replacement.",
        )
    retired = (pages.uncorrected or 0) + (pages.corrected or 0) if pages else 0
    most = int(knowledge.boundaries["most_retired_pages"].value)
    if retired >= most:
        yield _memory_finding(
            gpu,
            f"{title(gpu)} has {retired} retired pages: it can retire hardly more",
            told,
            f"Run `dcgmi diag -r 3`, and have the card replaced: NVIDIA's DCGM fails a card with {most} or more.",
        )
    if (rows and rows.pending) or (pages and pages.pending):
        what = (
            "rows of its memory are pending remapping"
            if rows and rows.pending
            else "pages of its memory are pending retirement"
        )
        fix = f"Before the machine takes new work, {reset} Programs that run now may end first."
        errors = uncorrected or (rows and rows.failed) or (ecc and ecc.sram_threshold_exceeded)
        cause = "hardware_ecc_error" if errors else "gpu_reset_required"  # with errors, they are the reason
        yield replace(_memory_finding(gpu, f"{title(gpu)}: {what}", told, fix), cause=cause)


def _memory_finding(
    gpu: NvmlGpu, message: str, told: tuple[str, ...], fix: str, severity: Severity = "error"
) -> Finding:
    return Finding(
        message,
        cause="hardware_ecc_error",
        severity=severity,
        evidence=told,
        fix=Fix(fix),
        devices=(device_of(gpu),),
        figures=memory_errors(gpu),
    )


def _said_of_memory(gpu: NvmlGpu) -> Iterable[str]:
    ecc, rows, pages = gpu.health.ecc, gpu.health.remapped_rows, gpu.health.retired_pages
    if ecc and not ecc.enabled:
        yield "ECC is off"
    elif ecc and ecc.volatile_uncorrected is not None:
        yield (
            f"ECC {ecc.volatile_uncorrected} uncorrected and {ecc.volatile_corrected or 0} corrected errors since the driver "
            f"was loaded ({ecc.aggregate_uncorrected or 0} and {ecc.aggregate_corrected or 0} ever)"
        )
    elif ecc:
        yield "ECC is on"
    if rows:
        yield f"{amount(rows.uncorrected, 'row')} remapped for uncorrected errors, {rows.corrected} for corrected ones"
        if rows.banks.get("none"):
            yield f"{amount(rows.banks['none'], 'bank')} without a spare row"
    if pages:
        yield f"{pages.uncorrected + pages.corrected} pages retired"


@check(
    "HLT003",
    "no GPU needs a reset",
    family="GPU health",
    tags=(PARTIAL, GPU_LOST, UNFIT),
    stage=Stage.GPU,
    after=("GPU001", "HLT001", "HLT002"),
    causes=("gpu_reset_required", "hardware_ecc_error"),
    sources=("https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/error-recovery-and-response-flags.html",),
)
def no_reset_is_asked_for(
    nvml: Nvml, knowledge: Knowledge, cuda_driver: CudaDriver | None = None, runtime: Runtime | None = None
) -> Yielded:
    """After a fault, the driver reports what the GPU needs: nothing, a reset, or a reboot.

    Fix: end the programs that use the GPU, then reset it (`nvidia-smi --gpu-reset -i N`) or reboot, as the driver requests.
    """
    used = gpus_in_use(nvml, cuda_driver)
    told = [gpu for gpu in used if gpu.health.recovery_action]
    if not told:
        raise NotMeasured("this driver does not report whether a GPU needs a reset")
    asked = any(gpu.health.recovery_action != "none" for gpu in told)
    yield from tell_silent(used, lambda gpu: gpu.health.recovery_action or None, found=asked)
    for gpu in told:
        action = gpu.health.recovery_action
        if action == "none":
            yield Evidence(f"GPU {gpu.index}: the driver requests no action")
            continue
        yield Finding(
            f"{title(gpu)} has had a fault, and the driver requests {_WORDS.get(action, action)}",
            cause="hardware_ecc_error" if _has_errors(gpu, knowledge) else "gpu_reset_required",
            severity="error" if action in _UNUSABLE else "warning",
            blocks=not (runtime and runtime.computes),
            evidence=(f"NVML reports the recovery action {action!r}", *_said_of_memory(gpu)),
            fix=Fix(f"{_ASK_KERNEL} Then {_INSTEAD.get(action) or _RESET.format(index=gpu.index)}"),
            devices=(device_of(gpu),),
            figures=memory_errors(gpu),
        )
