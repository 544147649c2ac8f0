"""TFW: does TensorFlow import, and list the GPUs that the driver has?"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from built_machines import cuda_that_fails, cuda_without_library, failed_import, packages, several, tensorflow_after
from healthy import ANSWERED, broken, cuda_gpu, gpu, runtime, target

from tfgpu_doctor.checks.tensorflow.runs import tensorflow_imports, tensorflow_lists_gpus
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.nvidia import CudaDriver
from tfgpu_doctor.model.facts.python import Runtime

if TYPE_CHECKING:
    from checks.conftest import Judge

METAL = (
    "NotFoundError: dlopen(/Users/user/venv/lib/python3.12/site-packages/tensorflow-plugins/libmetal_plugin.dylib): "
    "Symbol not found: __ZN10tensorflow28_AttrValue_default_instance_E"
)
FRESH = (
    "/home/user/venv/bin/python -m venv /tmp/tensorflow-alone",
    "/tmp/tensorflow-alone/bin/python -m pip install tensorflow",
    "/tmp/tensorflow-alone/bin/python -c 'import tensorflow'",
)


# TFW001


def test_a_tensorflow_that_imports_passes(judge: Judge) -> None:
    assert judge.passes(tensorflow_imports) == "TensorFlow 2.20.0, imported in 2.1 s"


@pytest.mark.parametrize("outcome", ["timed_out", "killed_by_signal", "failed", "unparsable"])
def test_a_run_that_ends_badly_after_the_import_is_judged_elsewhere(judge: Judge, outcome: Any) -> None:
    run = runtime(attempt=Attempt(outcome=outcome), gpus=(), computations=())
    assert judge.passes(tensorflow_imports, runtime=run)


@pytest.mark.parametrize(
    "error", ["ImportError: libfoo.so: cannot open shared object file", "SystemExit: 1", "KeyError: 'HOME'"]
)
def test_an_import_that_raises_is_an_error(judge: Judge, error: str) -> None:
    finding = judge.finding(tensorflow_imports, runtime=failed_import(error, '  File "x.py", line 1'))
    assert (finding.cause, finding.severity) == ("undetermined", "error")
    assert finding.message == f"importing TensorFlow raises {error}"
    assert finding.evidence == ('  File "x.py", line 1', error)
    assert finding.fix and finding.fix.commands == FRESH


@pytest.mark.parametrize(
    ("attempt", "words"),
    [
        (
            Attempt(outcome="killed_by_signal", signal="SIGILL", phase="importing TensorFlow"),
            "was killed by SIGILL during",
        ),
        (Attempt(outcome="killed_by_signal", signal="SIGABRT"), "was killed by SIGABRT"),
        (Attempt(outcome="failed", exit_code=3, error="boom", stderr=("boom",)), "ended with exit code 3: boom"),
        (Attempt(outcome="not_started", error="Permission denied"), "could not be started: Permission denied"),
    ],
)
def test_an_import_that_dies_is_an_error(judge: Judge, attempt: Attempt, words: str) -> None:
    finding = judge.finding(tensorflow_imports, runtime=Runtime(attempt=attempt))
    assert (finding.cause, finding.severity) == ("undetermined", "error")
    assert f"importing TensorFlow {words}" in finding.message
    assert finding.evidence == (*attempt.stderr, "CPU: AMD Ryzen 9 5950X 16-Core Processor")
    assert finding.fix and finding.fix.commands == FRESH


@pytest.mark.parametrize("number", ["SIGKILL", "SIGTERM", "SIGHUP", "SIGINT"])
@pytest.mark.parametrize(
    "phase", ["importing TensorFlow", "listing the GPUs", "matmul on GPU:0", "convolution on GPU:0"]
)
def test_what_somebody_else_ended_is_not_measured(number: str, phase: str) -> None:
    """The kernel where memory runs out, a user, a job scheduler: neither the environment nor a GPU is blamed."""
    attempt = Attempt(outcome="killed_by_signal", signal=number, phase=phase)
    done = tuple(each for each in runtime().computations if each.operation == "matmul")
    known = runtime(attempt=attempt, computations=done if "convolution" in phase else ())
    if phase == "importing TensorFlow":
        known = Runtime(attempt=attempt)
    if phase == "listing the GPUs":
        known = msgspec.structs.replace(known, gpus=(), gpus_listed=False)
    report = diagnose(broken(runtime=known))
    assert [(each.id, each.outcome) for each in report.results if each.outcome in ("fail", "crash")] == []
    assert report.causes == ()
    assert not report.healthy
    assert not report.judged
    assert "Run the doctor again" in " ".join(each.reason for each in report.results)


def test_on_a_mac_a_damaged_library_ends_a_program_by_sigkill(judge: Judge) -> None:
    attempt = Attempt(outcome="killed_by_signal", signal="SIGKILL", phase="importing TensorFlow")
    finding = judge.finding(tensorflow_imports, runtime=Runtime(attempt=attempt), system={"os": "Darwin"})
    assert finding.fix and finding.fix.commands == FRESH


IMPORTING = "importing TensorFlow"


@pytest.mark.parametrize(
    "attempt",
    [
        Attempt(outcome="timed_out", seconds=120.0, phase=IMPORTING),
        Attempt(outcome="timed_out", seconds=120.0, phase=f"{IMPORTING}: 812 modules after 65 s"),
        Attempt(outcome="timed_out", seconds=120.0, phase=f"{IMPORTING}: 812 modules after 119 s", stuck=True),
    ],
)
def test_an_import_that_does_not_end_may_need_longer(judge: Judge, attempt: Attempt) -> None:
    """TensorFlow on Lustre or NFS, without compiled files, takes minutes: the machine and the environment are not blamed at once."""
    finding = judge.finding(tensorflow_imports, runtime=Runtime(attempt=attempt))
    assert (finding.cause, finding.severity, finding.confidence) == ("undetermined", "error", "low")
    assert "importing TensorFlow did not respond within 120 s" in finding.message
    assert finding.fix
    assert finding.fix.text.startswith("First run the doctor again with `--deadline 600`")
    assert "the machine is at fault" not in finding.fix.text
    assert finding.fix.commands == FRESH


@pytest.mark.parametrize(("seconds", "told", "again"), [(120.0, 115, 600), (120.0, 95, 600), (600.0, 598, 3000)])
def test_an_import_that_goes_on_until_the_deadline_is_no_fault(
    judge: Judge, seconds: float, told: int, again: int
) -> None:
    attempt = Attempt(outcome="timed_out", seconds=seconds, phase=f"{IMPORTING}: 1240 modules after {told} s")
    reason = judge.skips(tensorflow_imports, runtime=Runtime(attempt=attempt))
    assert (
        f"did not respond within {seconds:.0f} s during 'importing TensorFlow: 1240 modules after {told} s'" in reason
    )
    assert reason.endswith(f"run the doctor again with `--deadline {again}`")
    report = diagnose(broken(runtime=Runtime(attempt=attempt)))
    assert not report.causes
    assert not report.healthy
    assert report.computes is None


@pytest.mark.parametrize("module", ["_ctypes", "_bz2", "_lzma", "_sqlite3", "_ssl"])
def test_a_python_that_lacks_a_module_of_its_own_is_named(judge: Judge, module: str) -> None:
    """pyenv/pyenv#1933: a new environment of the same Python lacks it too, and the machine is not at fault."""
    error = f"ModuleNotFoundError: No module named '{module}'"
    finding = judge.finding(tensorflow_imports, runtime=failed_import(error, '  File "ctypes/__init__.py", line 8'))
    assert finding.message == f"this Python was built without {module}, a module of its own that TensorFlow imports"
    assert finding.evidence[0] == f"/home/user/venv/bin/python has no module {module}"
    assert error in finding.evidence
    assert finding.fix and finding.fix.commands == ()
    assert "A new environment of the same Python lacks it too" in finding.fix.text


@pytest.mark.parametrize(
    "name", ["_cffi_backend", "_pywrap_tensorflow_internal", "_yaml", "absl", "tensorflow.python._ssl"]
)
def test_a_module_of_a_package_is_not_pythons_own(judge: Judge, name: str) -> None:
    error = f"ModuleNotFoundError: No module named '{name}'"
    assert (
        judge.finding(tensorflow_imports, runtime=failed_import(error)).message
        == f"importing TensorFlow raises {error}"
    )


@pytest.mark.parametrize(
    ("there", "version"),
    [(packages(("tensorflow-metal", "1.1.0")), "1.1.0"), (target(), "")],
    ids=["known", "not known"],
)
def test_a_metal_plugin_of_another_release_has_a_name(judge: Judge, there: Any, version: str) -> None:
    finding = judge.finding(tensorflow_imports, runtime=failed_import(METAL), target=there)
    assert (finding.cause, finding.severity) == ("macos_metal_plugin_mismatch", "error")
    assert f"tensorflow-metal {version} was built for a different TensorFlow" in finding.message
    assert finding.evidence == (METAL,)
    assert finding.fix and "developer.apple.com" in finding.fix.text


@pytest.mark.parametrize(
    "error", ["NotFoundError: libmetal_plugin.dylib: no such file", "ImportError: Symbol not found: _foo"]
)
def test_other_errors_are_not_the_metal_plugins(judge: Judge, error: str) -> None:
    assert judge.finding(tensorflow_imports, runtime=failed_import(error)).cause == "undetermined"


def test_of_a_long_traceback_the_last_lines_are_evidence(judge: Judge) -> None:
    lines = tuple(f"  line {number}" for number in range(20))
    finding = judge.finding(tensorflow_imports, runtime=failed_import("ImportError: odd", *lines))
    assert finding.evidence == (*lines[-7:], "ImportError: odd")


def test_a_long_error_is_cut_in_the_message(judge: Judge) -> None:
    finding = judge.finding(tensorflow_imports, runtime=failed_import("ImportError: " + "x" * 2000))
    assert len(finding.message) < 400


def test_a_module_that_imports_and_is_no_tensorflow_is_told_as_such(judge: Judge) -> None:
    error = "AttributeError: module 'tensorflow' has no attribute '__version__'"
    run = Runtime(attempt=ANSWERED, import_seconds=0.01, use_error=error)
    finding = judge.finding(tensorflow_imports, runtime=run)
    assert error in finding.message


def test_the_commands_survive_a_blank_in_the_path(judge: Judge) -> None:
    there = target(executable="/home/jane doe/venv/bin/python")
    finding = judge.finding(tensorflow_imports, runtime=failed_import("ImportError: odd"), target=there)
    assert finding.fix
    assert shlex.split(finding.fix.commands[0])[0] == "/home/jane doe/venv/bin/python"


# TFW002

LINES = (
    "W gpu_device.cc:2365] Cannot dlopen some GPU libraries.",
    "I gpu_device.cc:1] fine",
    "E cuda_platform.cc:52] failed",
)
UNKNOWN = ("W gpu_device.cc:99] something is odd", "I gpu_device.cc:1] fine", "E cuda_platform.cc:52] failed")


def listing(count: int, *log: str, **changes: Any) -> Runtime:
    return runtime(**{"gpus": tuple(gpu(index) for index in range(count)), "computations": (), "log": log, **changes})


def test_a_listing_that_had_little_time_after_a_slow_import_is_no_fault(judge: Judge) -> None:
    attempt = Attempt(outcome="timed_out", seconds=120.0, phase="listing the GPUs")
    late = listing(0, attempt=attempt, gpus_listed=False, import_seconds=100.0)
    reason = judge.skips(tensorflow_lists_gpus, runtime=late)
    assert reason == (
        "listing the GPUs did not respond within 120 s during 'listing the GPUs', after an import of 100 s; run the doctor again "
        "with `--deadline 600`"
    )
    report = diagnose(broken(runtime=late))
    assert not report.causes
    assert not report.healthy


@pytest.mark.parametrize("import_seconds", [2.1, 55.0, 85.0])
def test_a_listing_that_had_its_time_hangs(judge: Judge, import_seconds: float) -> None:
    attempt = Attempt(outcome="timed_out", seconds=120.0, phase="listing the GPUs")
    run = listing(0, attempt=attempt, gpus_listed=False, import_seconds=import_seconds)
    finding = judge.finding(tensorflow_lists_gpus, runtime=run)
    assert finding.severity == "error"
    assert finding.fix and finding.fix.text.startswith("First run the doctor again with `--deadline 600`. ")


def test_a_gpu_that_is_listed_passes(judge: Judge) -> None:
    assert judge.passes(tensorflow_lists_gpus) == "/physical_device:GPU:0 NVIDIA GeForce RTX 3090"


def test_all_of_several_gpus_pass(judge: Judge) -> None:
    assert judge.passes(tensorflow_lists_gpus, **several(8)).count("/physical_device:GPU:") == 8


@pytest.mark.parametrize(
    "cuda", [None, cuda_that_fails(999, "CUDA_ERROR_UNKNOWN"), CudaDriver(attempt=Attempt(outcome="unparsable"))]
)
def test_a_gpu_that_is_listed_is_no_fault_whatever_the_driver_told(judge: Judge, cuda: CudaDriver | None) -> None:
    assert "how many there are is unknown" in judge.skips(tensorflow_lists_gpus, cuda_driver=cuda)


def test_a_gpu_without_a_description_passes(judge: Judge) -> None:
    run = runtime(gpus=(gpu(description=""),))
    assert judge.passes(tensorflow_lists_gpus, runtime=run) == "/physical_device:GPU:0"


@pytest.mark.parametrize("expected", [1, 8])
def test_no_gpu_of_those_that_the_driver_has_is_an_error(judge: Judge, expected: int) -> None:
    cuda = {"gpus": tuple(cuda_gpu(index) for index in range(expected))}
    finding = judge.finding(tensorflow_lists_gpus, runtime=listing(0, *UNKNOWN), cuda_driver=cuda)
    assert (finding.cause, finding.severity, finding.confidence) == ("undetermined", "error", "high")
    assert finding.message == f"TensorFlow lists 0 GPUs, but the driver has {expected}"
    assert finding.evidence == (UNKNOWN[0], UNKNOWN[2])
    assert finding.fix and "tfgpu-doctor ticket" in finding.fix.text


def test_the_rules_for_logs_name_what_is_left(judge: Judge) -> None:
    finding = judge.finding(tensorflow_lists_gpus, runtime=listing(0, *LINES))
    assert (finding.cause, finding.confidence) == ("gpu_libs_not_found", "medium")
    assert finding.evidence == (LINES[0], LINES[2])
    assert finding.fix and "tfgpu-doctor libraries" in finding.fix.text


def test_what_the_log_tells_of_other_troubles_is_not_named(judge: Judge) -> None:
    line = "E op_kernel.cc:1] TypeError: Descriptors cannot be created directly."
    assert judge.finding(tensorflow_lists_gpus, runtime=listing(0, line)).cause == "undetermined"


def test_noise_is_no_evidence(judge: Judge) -> None:
    noise = (
        "E cuda_dnn.cc:8310] Unable to register cuDNN factory: one",
        "W py_utils.cc:38] TF-TRT Warning: Could not find TensorRT",
    )
    finding = judge.finding(tensorflow_lists_gpus, runtime=listing(0, *noise, *UNKNOWN))
    assert finding.evidence == (UNKNOWN[0], UNKNOWN[2])


def test_fewer_gpus_than_the_driver_has_are_a_warning(judge: Judge) -> None:
    cuda = {"gpus": (cuda_gpu(0), cuda_gpu(1))}
    finding = judge.finding(tensorflow_lists_gpus, runtime=listing(1, *UNKNOWN), cuda_driver=cuda)
    assert (finding.cause, finding.severity) == ("undetermined", "warning")
    assert finding.message == "TensorFlow lists 1 GPU, but the driver has 2"


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("W gpu_device.cc:1] ... The minimum required Cuda capability is 6.0.", "gpu_compute_capability_too_old"),
        ("W gpu_device.cc:1] Ignoring visible gpu device with core count: 3", "gpu_below_min_multiprocessor_count"),
    ],
)
def test_the_log_tells_why_a_gpu_is_left_out(judge: Judge, line: str, cause: str) -> None:
    finding = judge.finding(tensorflow_lists_gpus, runtime=listing(0, line))
    assert (finding.cause, finding.severity) == (cause, "error")
    assert finding.evidence == (line,)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"use_error": "InternalError: cudaGetDevice() failed"}, "raises InternalError: cudaGetDevice() failed"),
        (
            {"attempt": Attempt(outcome="timed_out", seconds=120.0, phase="listing the GPUs")},
            "did not respond within 120 s during 'listing the GPUs'",
        ),
        ({"attempt": Attempt(outcome="killed_by_signal", signal="SIGSEGV")}, "was killed by SIGSEGV"),
    ],
)
@pytest.mark.parametrize("cuda", [None, cuda_that_fails(999, "")])
def test_a_listing_that_was_not_reached_is_an_error(
    judge: Judge, changes: dict[str, Any], words: str, cuda: CudaDriver | None
) -> None:
    run = listing(0, *LINES, gpus_listed=False, **changes)
    finding = judge.finding(tensorflow_lists_gpus, runtime=run, cuda_driver=cuda)
    assert (finding.cause, finding.severity) == ("undetermined", "error")
    assert finding.message == f"listing the GPUs {words}"
    assert finding.evidence == (LINES[0], LINES[2])


def test_of_a_listing_that_was_not_reached_the_last_three_lines_of_the_program_are_evidence(judge: Judge) -> None:
    attempt = Attempt(outcome="killed_by_signal", signal="SIGSEGV", stderr=("one", "two", "three", "four", "five"))
    finding = judge.finding(tensorflow_lists_gpus, runtime=listing(0, *LINES, gpus_listed=False, attempt=attempt))
    assert finding.evidence == (LINES[0], LINES[2], "three", "four", "five")


@pytest.mark.parametrize("cuda", [None, cuda_that_fails(100, "CUDA_ERROR_NO_DEVICE")])
def test_how_many_gpus_there_should_be_may_not_be_known(judge: Judge, cuda: CudaDriver | None) -> None:
    reason = judge.skips(tensorflow_lists_gpus, runtime=listing(0, *LINES), cuda_driver=cuda)
    assert reason == "the number of the driver's GPUs is unknown"


def test_a_driver_that_only_tensorflow_finds_is_judged_by_its_log(judge: Judge) -> None:
    # LIB001 passes there: the RUNPATH of TensorFlow's library leads to libcuda
    run = tensorflow_after(803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: system has unsupported display driver")
    finding = judge.finding(tensorflow_lists_gpus, runtime=run, cuda_driver=cuda_without_library())
    assert (finding.cause, finding.severity) == ("driver_library_version_mismatch", "error")
    assert "803" in str(finding.evidence)


@pytest.mark.parametrize("os", ["Darwin", "Windows"])
def test_elsewhere_a_tensorflow_without_gpus_is_an_error_all_the_same(judge: Judge, os: str) -> None:
    finding = judge.finding(
        tensorflow_lists_gpus, runtime=listing(0, *LINES), cuda_driver=None, system={"os": os, "architecture": "arm64"}
    )
    assert finding.message == "TensorFlow lists 0 GPUs, but the driver has an unknown number"


@pytest.mark.parametrize("changes", [{}, {"gpus_listed": False, "use_error": "InternalError: odd"}])
def test_a_tensorflow_that_says_nothing_has_its_evidence_too(judge: Judge, changes: dict[str, Any]) -> None:
    assert judge.finding(tensorflow_lists_gpus, runtime=listing(0, **changes)).evidence


def test_a_mac_without_apples_processor_is_not_expected_to_list_a_gpu(judge: Judge) -> None:
    system = {"os": "Darwin", "architecture": "x86_64"}
    assert judge.does_not_object(tensorflow_lists_gpus, system=system, cuda_driver=None, runtime=listing(0, *LINES))
