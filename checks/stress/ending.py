"""LOD: how the stress test ends on each GPU, and which GPUs were not tested."""

from __future__ import annotations

from tfgpu_doctor.checks.devices import device_of
from tfgpu_doctor.checks.stress.results import REPLACE, called, not_measured, under_stress
from tfgpu_doctor.checks.tensorflow.computation import explain_error
from tfgpu_doctor.checks.unseen import tell_missing
from tfgpu_doctor.model import UNDETERMINED, Evidence, Finding, Fix, Stage, Yielded, check
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.python import Runtime
from tfgpu_doctor.model.facts.stress import StressedGpu, StressTest
from tfgpu_doctor.model.tags import STRESS, UNFIT

_XID = "https://docs.nvidia.com/deploy/xid-errors/index.html"
OF_AN_OPERATION = "errors_impl."  # the module that defines TensorFlow's exceptions for operations
_STARTING = ("", "importing TensorFlow")  # phases that use no GPU
# A step that lasts this long hangs: the slowest on a healthy GPU, six copies over one lane of PCIe 1, takes 7 s.
_HANGS_S = 20.0
CRASHES = (  # errors that products and convolutions never raise on a healthy GPU
    "CUDA_ERROR_LAUNCH_FAILED", "CUDA_ERROR_ILLEGAL_ADDRESS", "CUDA_ERROR_ILLEGAL_INSTRUCTION", "CUDA_ERROR_MISALIGNED",
    "CUDA_ERROR_HARDWARE_STACK_ERROR",
)  # fmt: skip


@check(
    "LOD005",
    "the stress test runs to completion on every GPU", family="Stress test", tags=(STRESS, UNFIT), stage=Stage.STRESS,
    after=("LOD001", "LOD003", "LOD004"),
    causes=(
        "gpu_hang", "hardware_faulty_gpu", "hardware_ecc_error", "gpu_memory_held_by_other_process", "cudnn_init_failed_memory",
        "driver_too_old", "gpu_compute_capability_too_new", "display_watchdog_timeout",
    ),
    sources=(_XID,),
)  # fmt: skip
def stress_runs_to_its_end(stress: StressTest, runtime: Runtime) -> Yielded:
    """If a GPU fails when warm or under high power draw, the program ends with a CUDA error, crashes, or hangs.

    Fix: check the kernel log for an Xid, the power supply, and the cause that the finding derives from the error.
    """
    endings = [(gpu, ending_of(gpu, stress, runtime)) for gpu in under_stress(stress)]
    alone = [_left_alone(gpu) for gpu in stress.gpus if gpu.untouched]
    yield from alone
    yield from filter(None, (ending for _, ending in endings))
    missing = not_measured((gpu for gpu, ending in endings if ending is None), stress)
    found = any(isinstance(ending, Finding) for _, ending in endings)
    # A skipped check has no findings: its reason tells of all GPUs.
    yield from tell_missing("; ".join([missing, *(each.message for each in alone)]) if missing else "", found=found)


def _left_alone(gpu: StressedGpu) -> Finding:
    return Finding(
        f"{called(gpu)} was not tested: {gpu.untouched}",
        severity="info",
        evidence=gpu.busy or (gpu.untouched,),
        fix=Fix(
            "Test it when it is idle, or use --even-if-busy: the test and the other program then slow each other down."
        ),
        devices=(device_of(gpu),),
    )


def hangs(attempt: Attempt, phase_s: float | None, runtime: Runtime) -> bool:
    """Return whether a process missed its deadline because its last step hung, and not because it started slowly.

    The first step on a GPU also loads libraries and compiles kernels. Before the stress test, TensorFlow did the same and more.
    """
    if attempt.outcome != "timed_out" or attempt.phase in _STARTING or phase_s is None:
        return False
    return phase_s >= max(_HANGS_S, 2 * runtime.attempt.seconds)


def how_long(phase_s: float | None) -> tuple[str, ...]:
    """Return for how long the last step ran, as evidence."""
    return () if phase_s is None else (f"this step alone ran for {phase_s:.0f} s",)


def ending_of(gpu: StressedGpu, stress: StressTest, runtime: Runtime) -> Finding | Evidence | None:
    """Return the result for one GPU; None if it does not allow a conclusion about the GPU."""
    attempt = gpu.attempt
    if stress.interrupted or attempt is None or attempt.outcome in ("not_started", "unparsable", "failed"):
        return None
    log = " ".join((gpu.error, *attempt.stderr))
    if attempt.outcome == "timed_out" and not (gpu.exactness or hangs(attempt, gpu.phase_s, runtime)):
        return None  # it may have been starting or compiling
    if attempt.signal and (attempt.ended_from_outside or attempt.phase in _STARTING) and not gpu.error:
        return None  # nothing shows that the GPU ended it
    if gpu.error and OF_AN_OPERATION not in gpu.error:
        return None  # the error is not from an operation, so it does not allow a conclusion about the GPU
    if attempt.answered and not gpu.error:
        seconds, rounds = sum(each.seconds for each in gpu.rounds), len(gpu.rounds)
        told = f"GPU {gpu.index}: {rounds} round{'s' if rounds > 1 else ''} of the stress test in {seconds:.0f} s"
        return Evidence(told) if rounds else None
    cause, fix = explain_error(log)
    if cause == UNDETERMINED:
        crashed = any(word in log for word in CRASHES)
        cause = "hardware_faulty_gpu" if crashed else "gpu_hang" if attempt.outcome == "timed_out" else UNDETERMINED
        fix = "Check `sudo dmesg | grep -i -e NVRM -e Xid`: a failing GPU leaves a line there." + (
            f" {REPLACE}" if crashed else ""
        )
    what = f"fails: {gpu.error[:200]}" if gpu.error else attempt.ending
    return Finding(
        f"the stress test on {called(gpu)} {what}",
        cause=cause,
        confidence="low" if cause == UNDETERMINED else "medium",
        evidence=(gpu.error or attempt.ending, *how_long(gpu.phase_s), *filter(None, attempt.stderr[-4:])),
        fix=Fix(fix),
        devices=(device_of(gpu),),
    )
