"""LOD: how the stress test ends on each GPU, and which GPUs were not tested."""

from __future__ import annotations

from tfgpu_doctor.checks.devices import device_of
from tfgpu_doctor.checks.stress.results import REPLACE, called, under_stress, why_nothing
from tfgpu_doctor.checks.tensorflow.computation import explain_error
from tfgpu_doctor.model import UNDETERMINED, Evidence, Finding, Fix, Skip, Stage, Yielded, check
from tfgpu_doctor.model.facts.stress import StressedGpu, StressTest
from tfgpu_doctor.model.tags import STRESS, UNFIT

_XID = "https://docs.nvidia.com/deploy/xid-errors/index.html"
_OF_AN_OPERATION = "errors_impl."  # the module that defines TensorFlow's exceptions for operations
_CRASHES = (  # errors that products and convolutions never raise on a healthy GPU
    "CUDA_ERROR_LAUNCH_FAILED", "CUDA_ERROR_ILLEGAL_ADDRESS", "CUDA_ERROR_ILLEGAL_INSTRUCTION", "CUDA_ERROR_MISALIGNED",
    "CUDA_ERROR_HARDWARE_STACK_ERROR",
)  # fmt: skip


@check(
    "LOD005",
    "the stress test runs to completion on every GPU", family="Stress test", tags=(STRESS, UNFIT), stage=Stage.STRESS,
    after=("LOD001", "LOD003", "LOD004"),
    causes=(
        "gpu_hang", "hardware_faulty_gpu", "hardware_ecc_error", "gpu_memory_held_by_other_process", "cudnn_init_failed_memory",
        "driver_too_old", "gpu_compute_capability_too_new",
    ),
    sources=(_XID,),
)  # fmt: skip
def stress_runs_to_its_end(stress: StressTest) -> Yielded:
    """If a GPU fails when warm or under high power draw, the program ends with a CUDA error, crashes, or hangs.

    Fix: check the kernel log for an Xid, the power supply, and the cause that the finding derives from the error.
    """
    tested = under_stress(stress)
    for gpu in stress.gpus:
        if gpu.untouched:
            yield _left_alone(gpu)
    judged = False
    for gpu in tested:
        found = _ending(gpu, stress)
        judged = judged or found is not None
        if found:
            yield found
    if not judged:
        raise Skip(why_nothing(stress))


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


def _ending(gpu: StressedGpu, stress: StressTest) -> Finding | Evidence | None:
    """Return the result for one GPU; None if it does not allow a conclusion about the GPU."""
    attempt = gpu.attempt
    if stress.interrupted or attempt is None or attempt.outcome in ("not_started", "unparsable", "failed"):
        return None
    log = " ".join((gpu.error, *attempt.stderr))
    if attempt.outcome == "timed_out" and not gpu.exactness:
        return None  # it was still starting or compiling
    if gpu.error and _OF_AN_OPERATION not in gpu.error:
        return None  # the error is not from an operation, so it does not allow a conclusion about the GPU
    if attempt.answered and not gpu.error:
        seconds, rounds = sum(each.seconds for each in gpu.rounds), len(gpu.rounds)
        told = f"GPU {gpu.index}: {rounds} round{'s' if rounds > 1 else ''} of the stress test in {seconds:.0f} s"
        return Evidence(told) if rounds else None
    cause, fix = explain_error(log)
    hangs = attempt.outcome == "timed_out" and cause == UNDETERMINED
    if cause == UNDETERMINED:
        crashed = any(word in log for word in _CRASHES)
        cause = "hardware_faulty_gpu" if crashed else "gpu_hang" if hangs else UNDETERMINED
        fix = "Check `sudo dmesg | grep -i -e NVRM -e Xid`: a failing GPU leaves a line there." + (
            f" {REPLACE}" if crashed else ""
        )
    what = f"fails: {gpu.error[:200]}" if gpu.error else attempt.ending
    return Finding(
        f"the stress test on {called(gpu)} {what}",
        cause=cause,
        confidence="low" if cause == UNDETERMINED else "medium",
        evidence=(gpu.error or attempt.ending, *filter(None, attempt.stderr[-4:])),
        fix=Fix(fix),
        devices=(device_of(gpu),),
    )
