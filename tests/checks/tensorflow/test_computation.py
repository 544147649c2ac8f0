"""GPU: does TensorFlow compute on each GPU, and rightly?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from built_machines import several
from healthy import broken, computation, gpu, runtime

from tfgpu_doctor.checks.tensorflow.computation import convolution_is_right, matrix_product_is_right
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model import Check
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.python import Computation, Runtime

if TYPE_CHECKING:
    from checks.conftest import Judge

PTX = (
    "W gpu_device.cc:2447] TensorFlow was not built with CUDA kernel binaries compatible with compute capability 12.0. "
    "CUDA kernels will be jit-compiled from PTX, which could take 30 minutes or longer."
)
ALLOCATOR = (
    "W bfc_allocator.cc:312] Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.02GiB with freed_by_count=0. "
    "The caller indicates that this is not a failure"
)
BOTH = pytest.mark.parametrize(
    ("check", "operation"), [(matrix_product_is_right, "matmul"), (convolution_is_right, "convolution")]
)


def run(*done: Computation, gpus: int = 1, **changes: Any) -> Runtime:
    return runtime(**{"gpus": tuple(gpu(index) for index in range(gpus)), "computations": done, "log": (), **changes})


def failed(error: str, operation: str = "matmul", index: int = 0) -> Computation:
    return computation(operation, index, largest_error=None, placed_on="", error=error)


@BOTH
def test_a_right_result_passes(judge: Judge, check: Check, operation: str) -> None:
    evidence = judge.passes(check)
    assert (
        evidence
        == "/job:localhost/replica:0/task:0/device:GPU:0: same result as on the CPU, in 0.30 s including compilation"
    )


@BOTH
def test_every_gpu_has_its_turn(judge: Judge, check: Check, operation: str) -> None:
    assert judge.passes(check, **several(8)).count("as on the CPU") == 8


@BOTH
def test_without_gpus_nothing_is_computed(judge: Judge, check: Check, operation: str) -> None:
    assert judge.skips(check, runtime=runtime(gpus=(), computations=())) == "TensorFlow lists no GPU"


@BOTH
@pytest.mark.parametrize("largest_error", [0.0, 1e-4, 1e-3])
def test_the_rounding_of_tf32_is_no_error(judge: Judge, check: Check, operation: str, largest_error: float) -> None:
    assert judge.passes(check, runtime=run(computation(operation, largest_error=largest_error)))


@BOTH
@pytest.mark.parametrize("largest_error", [1.1e-3, 0.5, float("inf")])
def test_a_wrong_result_is_an_error_of_unknown_cause(
    judge: Judge, check: Check, operation: str, largest_error: float
) -> None:
    finding = judge.finding(check, runtime=run(computation(operation, largest_error=largest_error)))
    assert (finding.cause, finding.severity, finding.confidence) == ("undetermined", "error", "low")
    words = f"differs from the CPU's result by {largest_error:g} of its largest value"
    assert finding.message == f"the {operation} on /GPU:0 {words}"
    assert finding.evidence[0].endswith(words)
    assert "device:GPU:0" in finding.evidence[0]
    assert finding.fix and "Tried: " in finding.fix.text and "Ruled out: " in finding.fix.text
    assert "--level deep" in finding.fix.text


@BOTH
def test_a_wrong_result_on_one_of_two_alike_is_a_fault_of_the_gpu(judge: Judge, check: Check, operation: str) -> None:
    done = (computation(operation), computation(operation, 1, largest_error=0.5))
    finding = judge.finding(check, runtime=run(*done, gpus=2))
    assert (finding.cause, finding.confidence) == ("hardware_faulty_gpu", "medium")
    assert "/GPU:1" in finding.message


@BOTH
def test_the_error_of_an_unknown_kind_gets_its_likeliest_reasons(judge: Judge, check: Check, operation: str) -> None:
    log = ("E cuda_fft.cc:44] Could not load dynamic library 'libcudart.so.11.0'; dlerror: not found",)
    finding = judge.finding(check, runtime=run(failed("InternalError: odd", operation), log=log))
    assert finding.fix and "1. " in finding.fix.text
    plain = judge.finding(check, runtime=run(failed("InternalError: odd", operation)))
    assert plain.fix and "tfgpu-doctor ticket" in plain.fix.text


@BOTH
@pytest.mark.parametrize(
    ("error", "cause"),
    [
        ("InternalError: CUDA_ERROR_OUT_OF_MEMORY: out of memory", "gpu_memory_held_by_other_process"),
        ("ResourceExhaustedError: OOM when allocating tensor with shape[256,256]", "gpu_memory_held_by_other_process"),
        ("InternalError: cudaSetDevice() on GPU:0 failed. Status: out of memory", "gpu_memory_held_by_other_process"),
        ("UnknownError: CUDNN_STATUS_INTERNAL_ERROR", "cudnn_init_failed_memory"),
        ("InternalError: CUDNN_STATUS_NOT_INITIALIZED", "cudnn_init_failed_memory"),
        ("InternalError: Attempting to perform BLAS: CUBLAS_STATUS_ALLOC_FAILED", "cudnn_init_failed_memory"),
        ("InternalError: CUBLAS_STATUS_NOT_INITIALIZED", "cudnn_init_failed_memory"),
        ("InternalError: no kernel image is available for execution on the device", "gpu_compute_capability_too_new"),
        ("InternalError: CUDA_ERROR_INVALID_PTX", "gpu_compute_capability_too_new"),
        ("InternalError: CUDA_ERROR_NO_BINARY_FOR_GPU", "gpu_compute_capability_too_new"),
        ("InternalError: CUDA_ERROR_INVALID_SOURCE: device kernel image is invalid", "gpu_compute_capability_too_new"),
        ("InternalError: CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "driver_too_old"),
        ("InternalError: CUDA driver version is insufficient for CUDA runtime version", "driver_too_old"),
        ("InternalError: CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error", "hardware_ecc_error"),
        ("InternalError: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access", "gpu_kernel_fault"),
        ("InternalError: CUDA_ERROR_LAUNCH_FAILED", "gpu_kernel_fault"),
    ],
)
def test_an_error_names_its_cause(judge: Judge, check: Check, operation: str, error: str, cause: str) -> None:
    finding = judge.finding(check, runtime=run(failed(error, operation)))
    assert (finding.cause, finding.severity, finding.confidence) == (cause, "error", "medium")
    assert finding.message == f"the {operation} on /GPU:0 fails: {error}"
    assert finding.evidence == (error,)
    assert finding.fix and finding.fix.commands == ()


@BOTH
def test_an_error_that_nobody_knows_is_undetermined(judge: Judge, check: Check, operation: str) -> None:
    log = ("W cuda_dnn.cc:1] odd", "I gpu_device.cc:2] fine", "E cuda_blas.cc:3] odder")
    finding = judge.finding(check, runtime=run(failed("InternalError: of no known kind", operation), log=log))
    assert (finding.cause, finding.confidence) == ("undetermined", "low")
    assert finding.evidence == ("InternalError: of no known kind", log[0], log[2])


def test_of_many_complaints_the_last_are_evidence(judge: Judge) -> None:
    log = tuple(f"W cuda_dnn.cc:{number}] odd" for number in range(9))
    assert judge.finding(matrix_product_is_right, runtime=run(failed("odd"), log=log)).evidence == ("odd", *log[-4:])


@BOTH
def test_a_line_of_the_log_may_tell_what_the_error_does_not(judge: Judge, check: Check, operation: str) -> None:
    log = ("E cuda_dnn.cc:501] Could not create cudnn handle: CUDNN_STATUS_NOT_INITIALIZED",)
    finding = judge.finding(
        check, runtime=run(failed("UnimplementedError: DNN library is not found.", operation), log=log)
    )
    assert finding.cause == "cudnn_init_failed_memory"


def test_a_long_error_is_cut_in_the_message_and_whole_in_the_evidence(judge: Judge) -> None:
    error = "InternalError: " + "x" * 1000
    finding = judge.finding(matrix_product_is_right, runtime=run(failed(error)))
    assert len(finding.message) < 300
    assert finding.evidence == (error,)


def test_one_gpu_of_several_may_be_wrong(judge: Judge) -> None:
    finding = judge.finding(matrix_product_is_right, runtime=run(computation("matmul"), failed("odd", index=1), gpus=2))
    assert "/GPU:1" in finding.message


def test_each_check_judges_its_own_operation(judge: Judge) -> None:
    mixed = run(computation("matmul"), failed("odd", "convolution"))
    assert judge.passes(matrix_product_is_right, runtime=mixed)
    assert "convolution" in judge.finding(convolution_is_right, runtime=mixed).message


@BOTH
def test_a_run_that_dies_is_an_error(judge: Judge, check: Check, operation: str) -> None:
    attempt = Attempt(
        outcome="killed_by_signal", signal="SIGABRT", phase=f"{operation} on GPU:0", stderr=("F ptx.cc:1] no",)
    )
    finding = judge.finding(check, runtime=run(attempt=attempt, log=("F cuda_dnn.cc:9] Check failed",)))
    assert (finding.cause, finding.severity) == ("undetermined", "error")
    assert finding.message == f"TensorFlow was killed by SIGABRT during '{operation} on GPU:0'"
    assert finding.evidence == ("F ptx.cc:1] no", "F cuda_dnn.cc:9] Check failed")
    assert finding.fix and "dmesg" in finding.fix.text


@BOTH
def test_a_run_that_stops_is_an_error(judge: Judge, check: Check, operation: str) -> None:
    stopped = run(use_error="RuntimeError: Memory growth cannot differ", log=("E gpu_device.cc:1] odd",))
    finding = judge.finding(check, runtime=stopped)
    assert finding.message == "TensorFlow stopped: RuntimeError: Memory growth cannot differ"


@BOTH
def test_kernels_that_are_still_being_compiled_are_a_delay(judge: Judge, check: Check, operation: str) -> None:
    attempt = Attempt(outcome="timed_out", seconds=120.0, phase=f"{operation} on GPU:0")
    finding = judge.finding(check, runtime=run(attempt=attempt, log=(PTX,)))
    assert (finding.cause, finding.severity) == ("ptx_jit_startup_delay", "warning")
    assert finding.evidence == (PTX,)
    assert finding.fix and finding.fix.commands == ("tfgpu-doctor --deadline 2400",)


def sixteen(import_seconds: float, each_s: float, done: int, **changes: Any) -> Runtime:
    """A DGX-2, whose 16 GPUs take turns, and a deadline that comes in one of the turns."""
    operations = [computation(name, index, seconds=each_s) for index in range(16) for name in ("matmul", "convolution")]
    attempt = Attempt(outcome="timed_out", seconds=120.0, phase=f"matmul on GPU:{done // 2}")
    return run(*operations[:done], gpus=16, **{"attempt": attempt, "import_seconds": import_seconds, **changes})


@BOTH
@pytest.mark.parametrize(
    ("import_seconds", "each_s", "done"),
    [(50.0, 2.0, 28), (10.0, 3.7, 28), (95.0, 0.5, 0), (60.0, 20.0, 1)],
    ids=["a slow import", "slow turns", "a very slow import", "a slow first operation"],
)
def test_a_slow_machine_that_ran_out_of_time_is_not_measured(
    judge: Judge, check: Check, operation: str, import_seconds: float, each_s: float, done: int
) -> None:
    reason = judge.skips(check, runtime=sixteen(import_seconds, each_s, done))
    assert f"did not respond within 120 s during 'matmul on GPU:{done // 2}', after an import of " in reason
    assert ("right results of" in reason) == bool(done)
    assert reason.endswith("run the doctor again with `--deadline 600`")


def test_a_product_without_time_for_a_convolution_is_not_measured(judge: Judge) -> None:
    attempt = Attempt(outcome="timed_out", seconds=120.0, phase="convolution on GPU:0")
    late = run(computation("matmul", seconds=20.0), attempt=attempt, import_seconds=95.0)
    assert "the right results of 1 operation" in judge.skips(matrix_product_is_right, runtime=late)


@pytest.mark.parametrize("done", [28, 31])
def test_what_was_not_measured_is_not_healthy(done: int) -> None:
    report = diagnose(broken(**several(16) | {"runtime": sixteen(50.0, 2.0, done)}))
    assert not report.causes
    assert (report.healthy, report.computes, report.fit) == (False, None, None)


@pytest.mark.parametrize("done", [0, 1, 3])
def test_kernels_that_are_still_compiled_are_no_computation(done: int) -> None:
    """The finding and its fix stay, and nobody knows whether the GPUs compute."""
    report = diagnose(broken(**several(16) | {"runtime": sixteen(50.0, 2.0, done, log=(PTX,))}))
    assert [cause.label for cause in report.causes] == ["ptx_jit_startup_delay"]
    assert (report.computes, report.fit) == (None, None)


def test_a_gpu_that_tensorflow_leaves_out_for_no_known_reason_may_be_unfit() -> None:
    machine = several(2) | {"runtime": run(computation("matmul"), computation("convolution"))}
    report = diagnose(broken(**machine))
    assert [cause.label for cause in report.causes] == ["undetermined"]
    assert (report.computes, report.fit) == (True, None)


@BOTH
def test_a_gpu_that_gives_no_answer_for_most_of_the_deadline_hangs(judge: Judge, check: Check, operation: str) -> None:
    finding = judge.finding(check, runtime=sixteen(5.0, 0.5, 28))
    assert (finding.message, finding.severity) == (
        "TensorFlow did not respond within 120 s during 'matmul on GPU:14'",
        "error",
    )
    assert finding.devices == ("GPU:14",)
    assert finding.fix and finding.fix.text.startswith("First run the doctor again with `--deadline 600`")
    assert "dmesg" in finding.fix.text


@pytest.mark.parametrize(
    "changes", [{"log": (PTX,)}, {"attempt": Attempt(outcome="timed_out", seconds=120.0, stuck=True)}]
)
def test_compiling_and_a_call_that_cannot_be_ended_have_their_findings(judge: Judge, changes: dict[str, Any]) -> None:
    assert judge.finding(matrix_product_is_right, runtime=sixteen(50.0, 2.0, 28, **changes))


def test_a_wrong_result_is_told_also_where_the_time_ran_out(judge: Judge) -> None:
    done = (computation("matmul", 0, seconds=2.0, largest_error=0.5), computation("convolution", 0, seconds=2.0))
    late = sixteen(100.0, 0.0, 0, computations=done)
    messages = [finding.message for finding in judge.findings(matrix_product_is_right, runtime=late)]
    assert messages[0].startswith("the matmul on /GPU:0 differs")


@pytest.mark.parametrize(
    "changes",
    [
        {"attempt": Attempt(outcome="timed_out", seconds=120.0, stderr=("x",)), "log": ()},
        {"attempt": Attempt(outcome="killed_by_signal", signal="SIGSEGV"), "log": (PTX,)},
    ],
    ids=["nothing is compiled", "it died"],
)
def test_compilation_is_blamed_only_for_running_out_of_time(judge: Judge, changes: dict[str, Any]) -> None:
    assert judge.finding(matrix_product_is_right, runtime=run(**changes)).cause == "undetermined"


def test_a_wrong_result_and_a_death_are_two_findings(judge: Judge) -> None:
    attempt = Attempt(outcome="killed_by_signal", signal="SIGSEGV", phase="matmul on GPU:1", stderr=("Fatal",))
    died = run(computation("matmul", largest_error=0.5), gpus=2, attempt=attempt)
    messages = [finding.message for finding in judge.findings(matrix_product_is_right, runtime=died)]
    assert messages[0].startswith("the matmul on /GPU:0 differs")
    assert messages[1] == "TensorFlow was killed by SIGSEGV during 'matmul on GPU:1'"


def test_a_device_of_metal_computes_like_any_other(judge: Judge) -> None:
    metal = runtime(gpus=(gpu(description="METAL", compute_capability=""),), libraries=(), log=())
    assert judge.passes(matrix_product_is_right, runtime=metal)


@BOTH
def test_a_result_that_lies_on_the_cpu_is_not_the_gpus(judge: Judge, check: Check, operation: str) -> None:
    there = "/job:localhost/replica:0/task:0/device:CPU:0"
    assert judge.findings(check, runtime=run(computation(operation, placed_on=there)))


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        ("InternalError: no kernel image is available for execution on the device", "gpu_compute_capability_too_new"),
        ("InternalError: CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error", "hardware_ecc_error"),
        ("InternalError: CUDA_ERROR_LAUNCH_FAILED", "gpu_kernel_fault"),
    ],
)
def test_an_allocator_that_tried_for_more_is_not_blamed(judge: Judge, error: str, cause: str) -> None:
    finding = judge.finding(matrix_product_is_right, runtime=run(failed(error), log=(ALLOCATOR,)))
    assert finding.cause == cause


@pytest.mark.parametrize(
    "line", [ALLOCATOR, "E cuda_dnn.cc:1] CUDNN_STATUS_NOT_INITIALIZED", "E x.cc:1] no kernel image"]
)
def test_a_wrong_result_is_no_lack_of_memory_or_kernels(judge: Judge, line: str) -> None:
    wrong = run(computation("matmul", largest_error=0.5), log=(line,))
    assert judge.finding(matrix_product_is_right, runtime=wrong).cause == "undetermined"


def test_a_wrong_result_is_not_explained_by_a_line_of_the_log(judge: Judge) -> None:
    log = ("W gpu_device.cc:1] CUDA driver version is insufficient for CUDA runtime version",)
    finding = judge.finding(matrix_product_is_right, runtime=run(computation("matmul", largest_error=0.5), log=log))
    assert finding.cause == "undetermined"


@BOTH
def test_a_silent_end_has_its_evidence_too(judge: Judge, check: Check, operation: str) -> None:
    attempt = Attempt(outcome="killed_by_signal", signal="SIGSEGV", phase=f"{operation} on GPU:0")
    assert judge.finding(check, runtime=run(attempt=attempt)).evidence
