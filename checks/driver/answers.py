"""DRV: does the driver respond to NVML and CUDA?"""

from __future__ import annotations

import re

from tfgpu_doctor.checks.devices import figures_of
from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.model import UNDETERMINED, Evidence, Finding, Fix, NotMeasured, Skip, Stage, Yielded, check
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.kernel import KernelLog
from tfgpu_doctor.model.facts.machine import Pci, System
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Driver, Nvml
from tfgpu_doctor.model.facts.python import Runtime

_ASK_KERNEL = "Check the kernel log: `sudo dmesg | grep -i -e NVRM -e Xid`."
_STATED = ("driver_library_version_mismatch", "gpu_hang", "gpu_lost", "gpu_reset_required", "no_nvidia_driver")
_LOST = re.compile(r"\bGPU \d+(?=:)")  # records of earlier releases name the GPU in the error
_WARM_S = 15.0  # in which libcuda responds where all GPUs are initialized
_START_S = 3.0  # of each GPU without persistence mode: https://docs.nvidia.com/deploy/driver-persistence/index.html
_AGAIN = "run the doctor again with `--deadline 600`"
_RESET = "A GPU that fell off the bus needs a reboot. If that does not help, switch the machine off, and on again."
_KEEP = "`sudo nvidia-smi -pm 1` (until the next boot)"


@check(
    "DRV007",
    "NVML, the library behind nvidia-smi, responds",
    family="Driver",
    stage=Stage.GPU,
    after=("GPU001", "DRV001", "DRV006", "DRV008", "DEV003", "LIB005", "XID001", "HLT001"),
    causes=("driver_library_version_mismatch", "gpu_hang", "gpu_lost", "gpu_reset_required", "no_nvidia_driver"),
    sources=("https://docs.nvidia.com/deploy/nvml-api/index.html",),
)
def nvml_answers(
    nvml: Nvml, system: System, knowledge: Knowledge, runtime: Runtime | None = None, driver: Driver | None = None,
    pci: Pci | None = None,
) -> Yielded:  # fmt: skip
    """TensorFlow queries NVML for each GPU that it registers; if NVML hangs or fails, a GPU or its driver has a problem.

    Fix: check the kernel log for NVRM and Xid lines, and reset the GPU or reboot.
    """
    if nvml.library_error:
        raise Skip("libnvidia-ml cannot be opened" if system.os == "Linux" else f"there is no NVML on {system.os}")
    if nvml.works:
        yield Evidence(f"driver {nvml.driver_version}, {amount(len(nvml.gpus), 'GPU')}")
        return
    if nvml.attempt.outcome in ("failed", "unparsable", "not_started"):
        # a problem of the doctor, not of the machine
        raise NotMeasured(f"the process that reads NVML {nvml.attempt.ending}")
    row = knowledge.nvml_errors.get(nvml.error_code) if nvml.attempt.answered else None
    ending = f"failed with {_nvml_error(nvml, knowledge)}" if nvml.attempt.answered else nvml.attempt.ending
    used_all_the_same = bool(runtime and runtime.gpus)
    computes = bool(runtime and runtime.computes)  # then no GPU is known to hang: it is a suspicion
    hangs = nvml.attempt.outcome == "timed_out"
    if hangs and not computes and not _hung(runtime) and _had_no_time(nvml.attempt, pci):
        raise NotMeasured(f"NVML {ending}, in which not all GPUs need have started; {_AGAIN}")
    stated = _stated(row.cause, driver) if row else UNDETERMINED
    yield Finding(
        f"NVML {ending}",
        cause="gpu_hang" if hangs else stated,
        severity="warning" if (computes if hangs else used_all_the_same and stated == UNDETERMINED) else "error",
        blocks=not used_all_the_same,
        evidence=(
            f"GPUs read before the failure: {len(nvml.gpus)}",
            *([f"{row.name} means: {row.meaning}"] if row else []),
            *nvml.attempt.stderr[-3:],
        ),
        fix=Fix(row.action if row and row.action else f"{_ASK_KERNEL} {_RESET}"),
        devices=tuple(_LOST.findall(nvml.error_text)),
        figures=figures_of("", [("GPUs that NVML read", len(nvml.gpus), "")]),
    )


def _stated(label: str, driver: Driver | None) -> str:
    """Return what an error of NVML states. That no driver is loaded, it also says where it may not reach the loaded one."""
    if label == "no_nvidia_driver" and driver and (driver.version or "nvidia" in driver.modules):
        return UNDETERMINED
    return label if label in _STATED else UNDETERMINED


def _nvml_error(nvml: Nvml, knowledge: Knowledge) -> str:
    row = knowledge.nvml_errors.get(nvml.error_code)
    return f"{f'{row.name} ({row.code})' if row else f'code {nvml.error_code}'}: {nvml.error_text}"


@check(
    "DRV008",
    "the CUDA driver initialises", family="Driver", goal="driver", stage=Stage.GPU,
    after=(
        "GPU001", "GPU002", "CNT001", "CNT002", "CNT004", "DRV001", "DEV001", "DEV002", "DEV003", "LIB001", "LIB002",
        "DRV006", "VIS001", "PKG001", "LIM002", "JOB001", "SVC001", "XID001", "XID002", "XID004",
        "HLT001", "LNK003", "SHR004",
    ),
    causes=(
        "fabric_manager_not_running", "gpu_hang", "nvidia_uvm_missing", "uvm_broken_after_suspend",
        "mig_single_instance_per_process",
    ),
    sources=("https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html",),
)  # fmt: skip
def cuda_driver_initialises(
    cuda_driver: CudaDriver,
    knowledge: Knowledge,
    system: System,
    driver: Driver | None = None,
    nvml: Nvml | None = None,
    pci: Pci | None = None,
    kernel_log: KernelLog | None = None,
    runtime: Runtime | None = None,
) -> Yielded:
    """Every CUDA program calls cuInit first, and TensorFlow prints the code that it returns.

    Fix: depends on the code; the finding says what the code means on this machine.
    """
    if cuda_driver.works:
        if cuda_driver.gpus:
            names = ", ".join(gpu.name for gpu in cuda_driver.gpus)
            yield Evidence(f"cuInit succeeds, the driver supports CUDA {cuda_driver.cuda_version}, and lists {names}")
            return
        raise Skip("cuInit succeeds and lists no GPU")
    if cuda_driver.library_error:
        raise Skip("libcuda cannot be opened" if system.os == "Linux" else f"there is no CUDA driver on {system.os}")
    if cuda_driver.attempt.outcome in ("failed", "unparsable", "not_started"):
        # a problem of the doctor, not of the machine
        raise NotMeasured(f"the process that queries the CUDA driver {cuda_driver.attempt.ending}")
    if not cuda_driver.attempt.answered:
        yield _no_answer(cuda_driver, nvml, runtime, pci)
        return
    code = cuda_driver.init_code
    if not code:
        raise NotMeasured("the code that cuInit returned is unknown")
    row = knowledge.cuda_errors.get(code)
    name = cuda_driver.init_name or (row.name if row else "a code that is not in the doctor's table")
    evidence = [f"cuInit returned {code}, {name}" + (f": {row.meaning}" if row else "")]
    cause, fix, confidence = _suspect(code, driver, nvml, pci, kernel_log, evidence)
    if cause == UNDETERMINED and nvml and nvml.error_code:
        evidence.append(f"NVML fails with {_nvml_error(nvml, knowledge)}")
    yield Finding(
        f"the CUDA driver does not initialise: {name} ({code})",
        cause=cause,
        confidence=confidence,  # type: ignore[arg-type]
        evidence=tuple(evidence),
        fix=Fix(fix),
    )


def _no_answer(cuda_driver: CudaDriver, nvml: Nvml | None, runtime: Runtime | None, pci: Pci | None) -> Finding:
    """Return the finding that libcuda crashed or hung; the latter is a suspicion where TensorFlow computed.

    Raises Skip where the GPUs may only have had to start.
    """
    hangs = cuda_driver.attempt.outcome == "timed_out"
    suspected = hangs and bool(runtime and runtime.computes)
    cold = _cold(nvml)
    if hangs and not suspected and not _hung(runtime):
        if nvml and cold and cuda_driver.attempt.seconds - nvml.attempt.seconds < _WARM_S:
            raise NotMeasured(f"the CUDA driver {cuda_driver.attempt.ending}, but {cold}; {_AGAIN}")
        if not (nvml and nvml.works) and _had_no_time(cuda_driver.attempt, pci):
            raise NotMeasured(
                f"the CUDA driver {cuda_driver.attempt.ending}, in which not all GPUs need have started; {_AGAIN}"
            )
    return Finding(
        f"the CUDA driver {cuda_driver.attempt.ending}",
        cause="gpu_hang" if hangs else UNDETERMINED,
        severity="warning" if suspected else "error",
        blocks=not suspected,
        confidence="low" if suspected else "high",
        evidence=(
            f"libcuda is {cuda_driver.library or 'unknown'}",
            *(["TensorFlow computed on the GPU in the same examination"] if suspected else ()),
            *([cold] if hangs and cold else ()),
            *cuda_driver.attempt.stderr[-3:],
        ),
        fix=Fix(
            "Run the doctor again with a longer time limit (`--deadline 600`). To keep the GPUs initialized: "
            f"{_KEEP}. If it still does not respond: {_ASK_KERNEL}"
            if suspected
            else f"{_ASK_KERNEL} Then reboot; or, if `nvidia-smi` still responds, end all programs on the GPU and reset it: "
            "`sudo nvidia-smi --gpu-reset -i N`."
        ),
    )


def _hung(runtime: Runtime | None) -> bool:
    """Return whether TensorFlow, which has longer, hung as well."""
    return bool(runtime and runtime.attempt.outcome == "timed_out")


def _had_no_time(attempt: Attempt, pci: Pci | None) -> bool:
    """Return whether a short deadline ended a query before all GPUs of the machine need have started."""
    return attempt.seconds < _START_S * len(pci.nvidia_gpus if pci else ())


def _cold(nvml: Nvml | None) -> str:
    """Return the evidence that all GPUs respond, but had to be initialized first; empty if there is none."""
    if not nvml or not nvml.works or any(not each.is_refused for each in nvml.troubles):
        return ""
    off = [gpu.health.persistence_mode for gpu in nvml.gpus].count(False)
    said = f"persistence mode is off for {off} of {amount(len(nvml.gpus), 'GPU')}"
    return f"NVML read every GPU; {said}: their first program waits until they are initialized" if off else ""


def _wakes(driver: Driver | None, kernel_log: KernelLog | None) -> str:
    """Return the evidence that the machine resumed from suspend after the driver was loaded, or an empty string."""
    if driver and driver.suspends:
        return f"the machine resumed from suspend {amount(driver.suspends, 'time')} since it booted (/sys/power/suspend_stats)"
    loaded = [each.last_age_s or 0.0 for each in (kernel_log.of_kind("driver_loaded") if kernel_log else ())]
    resumed = [each for each in (kernel_log.of_kind("resumed") if kernel_log else ()) if each.last_age_s is not None]
    since = [each for each in resumed if not loaded or (each.last_age_s or 0.0) < min(loaded)]
    return f"the kernel log reports a resume after the driver was loaded: {since[0].text}" if since else ""


def _suspect(
    code: int,
    driver: Driver | None,
    nvml: Nvml | None,
    pci: Pci | None,
    kernel_log: KernelLog | None,
    evidence: list[str],
) -> tuple[str, str, str]:
    """Return the label, fix and confidence for a cuInit code in light of the other facts; add to the evidence."""
    if code == 802:
        switches = [device.address for device in (pci.devices if pci else ()) if device.is_nvswitch]
        evidence += [f"{amount(len(switches), 'NVSwitch')} on the PCI bus"] if switches else []
        fix = "As root, run `systemctl enable --now nvidia-fabricmanager` (in exactly the driver's version), then wait a minute."
        return "fabric_manager_not_running", fix, "high" if switches else "medium"
    if code == 999 and (wakes := _wakes(driver, kernel_log)):
        evidence.append(wakes)
        kept = driver.parameters.get("PreserveVideoMemoryAllocations") if driver else ""
        evidence += [f"the module parameter PreserveVideoMemoryAllocations is {kept}"] if kept else []
        fix = (
            "End all programs that use the GPU, then as root run `rmmod nvidia_uvm && modprobe nvidia_uvm`, or reboot. To "
            "prevent this, `sudo systemctl enable nvidia-suspend nvidia-hibernate nvidia-resume`, set the option "
            "NVreg_PreserveVideoMemoryAllocations=1 of the module nvidia in /etc/modprobe.d, and reboot."
        )
        return "uvm_broken_after_suspend", fix, "medium"
    without = [gpu for gpu in (nvml.gpus if nvml else ()) if gpu.mig and not gpu.mig_devices]
    if code == 100 and without and nvml and len(without) == len(nvml.gpus):
        evidence.append("MIG is on, but no MIG instance exists")
        fix = "As root, create instances (`nvidia-smi mig -cgi 0 -C`), or disable MIG (`nvidia-smi -mig 0`)."
        return "mig_single_instance_per_process", fix, "high"
    if code == 100 and nvml and nvml.gpus:
        evidence.append(f"NVML still lists {amount(len(nvml.gpus), 'GPU')}")
    return UNDETERMINED, f"{_ASK_KERNEL} {_RESET}", "low"
