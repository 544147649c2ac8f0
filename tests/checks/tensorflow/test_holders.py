"""MEM001 with processes that hang, GPU004 and GPU005 with the display's watchdog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from healthy import ANSWERED, computation, cuda_gpu, nvml_gpu, runtime

from tfgpu_doctor.checks.tensorflow.computation import convolution_is_right, matrix_product_is_right
from tfgpu_doctor.checks.tensorflow.memory import memory_is_left
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.gpu_holders import GpuHolder, GpuHolders
from tfgpu_doctor.model.facts.nvidia import GpuProcess, Nvml

if TYPE_CHECKING:
    from checks.conftest import Judge

HANGS: dict[str, Any] = {"pid": 4242, "waits_for": "lock", "watched_s": 2.0, "cpu_s": 0.0, "listens": False}
HELD = GpuProcess(pid=4242, name="python", memory_bytes=23 << 30, user="anna")
FULL = Nvml(attempt=ANSWERED, gpus=(nvml_gpu(memory_free_bytes=1 << 28, processes=(HELD,)),))

# Whether the process is said to hang.
HOLDERS: dict[str, tuple[bool, dict[str, Any]]] = {
    "a training that raised": (True, {}),
    "a training at work": (False, {"cpu_s": 3.7}),
    "a training that wakes up now and then": (False, {"cpu_s": 0.01}),
    "an idle notebook": (False, {"waits_for": "other", "listens": True}),
    "an idle notebook, its sockets unknown": (False, {"waits_for": "other", "listens": None}),
    "a model server": (False, {"listens": True}),
    "files of another user": (False, {"listens": None}),
    "a kernel that does not say": (False, {"waits_for": ""}),
    "asleep": (False, {"waits_for": "other"}),
    "a process on no GPU of this machine": (False, {"pid": 99}),
    "not watched": (False, {"watched_s": 0.0}),
}


@pytest.mark.parametrize("name", HOLDERS)
def test_who_hangs(judge: Judge, name: str) -> None:
    expected, changes = HOLDERS[name]
    holders = GpuHolders(processes=(GpuHolder(**{**HANGS, **changes}),))
    finding = judge.finding(memory_is_left, nvml=FULL, gpu_holders=holders, runtime=None)
    assert finding.cause == "gpu_memory_held_by_other_process"
    assert ("seems to hang" in " ".join(finding.evidence)) == expected


def test_memory_that_is_left_is_no_matter(judge: Judge) -> None:
    judge.passes(memory_is_left, gpu_holders=GpuHolders(processes=(GpuHolder(**HANGS),)))


# The label of an error of an operation, and the lines of the log beside it.
TIMEOUT = "CUDA_ERROR_LAUNCH_TIMEOUT: the launch timed out and was terminated"
ERRORS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "said by the operation": ("display_watchdog_timeout", f"InternalError: failed to synchronize the stop event: {TIMEOUT}", ()),
    "said by the runtime API": ("display_watchdog_timeout", "InternalError: the launch timed out and was terminated", ()),
    "said by the log": ("display_watchdog_timeout", "InternalError: Failed to launch", (f"E cuda_event.cc:48] Error polling for event status: {TIMEOUT}",)),
    "another failure of a launch": ("gpu_kernel_fault", "InternalError: CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure", ()),
    "out of resources": ("undetermined", "InternalError: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", ()),
    "the doctor's own deadline": ("undetermined", "DeadlineExceededError: timed out", ()),
}  # fmt: skip


@pytest.mark.parametrize("check", [matrix_product_is_right, convolution_is_right])
@pytest.mark.parametrize("name", ERRORS)
def test_the_watchdog_of_the_display(judge: Judge, check: Any, name: str) -> None:
    label, error, log = ERRORS[name]
    operation = "matmul" if check is matrix_product_is_right else "convolution"
    failed = computation(operation, largest_error=None, placed_on="", error=error)
    limited = {"gpus": (cuda_gpu(kernel_time_limit=True),)}
    finding = judge.finding(check, runtime=runtime(computations=(failed,), log=log), cuda_driver=limited)
    assert finding.cause == label
    assert ("drives a display" in " ".join(finding.evidence)) == (label == "display_watchdog_timeout")


def test_a_run_that_a_flag_ended(judge: Judge) -> None:
    said = "F parse_flags_from_env.cc:234] Unknown flag in XLA_FLAGS: --xla_gpu_made_up=1"
    ended = Attempt(outcome="failed", exit_code=1, phase="matmul on GPU:0", error=said)
    finding = judge.finding(matrix_product_is_right, runtime=runtime(attempt=ended, computations=(), log=(said,)))
    assert (finding.cause, finding.evidence) == ("unknown_flag_in_environment", (said,))
