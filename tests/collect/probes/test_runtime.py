"""The probe that runs TensorFlow: its log, and recorded answers; see tests/collect/workers for its program."""

from __future__ import annotations

import json
import os
import random
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tfgpu_doctor.collect.probe import Request, Unavailable
from tfgpu_doctor.collect.probes.runtime import library_loads, relevant_lines, runtime
from tfgpu_doctor.host import Completed
from tfgpu_doctor.model.facts import Facts, decode_facts, encode_facts
from tfgpu_doctor.model.facts.python import LibraryLoad

if TYPE_CHECKING:
    from collect.probes.conftest import Machine

STAMP = "2024-09-24 09:32:51.314966: "
ABSL = "0000 00:00:1727170371.314519    2374 "
DSO = "I external/local_xla/xla/tsl/platform/default/dso_loader.cc:70] "
DLERROR = "{0}: cannot open shared object file: No such file or directory"
OPENED = "Successfully opened dynamic library {}"
NOT_OPENED = "Could not load dynamic library '{0}'; dlerror: " + DLERROR
NO_MEMORY = "cuda_driver.cc:1070] failed to allocate 23.50GiB (25233588224 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY"


def test_a_line_of_the_old_style_keeps_its_level_and_file() -> None:
    line = STAMP + "W tensorflow/core/common_runtime/gpu/gpu_bfc_allocator.cc:47] Overriding orig_value setting"
    assert relevant_lines([line]) == ("W gpu_bfc_allocator.cc:47] Overriding orig_value setting",)


def test_a_line_of_the_style_of_absl_keeps_its_level_and_file() -> None:
    line = f"E{ABSL}cuda_platform.cc:52] failed call to cuInit: INTERNAL: CUDA error: Failed call to cuInit: UNKNOWN ERROR (303)"
    assert relevant_lines([line]) == (
        "E cuda_platform.cc:52] failed call to cuInit: INTERNAL: CUDA error: Failed call to cuInit: UNKNOWN ERROR (303)",
    )


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        (
            f"{STAMP}I external/local_xla/xla/stream_executor/cuda/cuda_executor.cc:1015] read",
            "I cuda_executor.cc:1015] read",
        ),
        (f"{STAMP}I tensorflow/core/common_runtime/gpu/gpu_device.cc:2021] Created", "I gpu_device.cc:2021] Created"),
        (f"I{ABSL}gpu_device.cc:2022] Created device", "I gpu_device.cc:2022] Created device"),
        (f"W{ABSL}gpu_device.cc:2344] Cannot dlopen some", "W gpu_device.cc:2344] Cannot dlopen some"),
        (f"F{ABSL}xla_thing.cc:1] Check failed: a/b", "F xla_thing.cc:1] Check failed: a/b"),
        ("E0924 09:32:51.314966    2374 cuda_dnn.cc:8310] Unable", "E cuda_dnn.cc:8310] Unable"),
        (f"{STAMP}F tensorflow/core/x.cc:1] path /a/b.cc:2] c", "F x.cc:1] path /a/b.cc:2] c"),
        (f"{STAMP}W tensorflow/compiler/tf2tensorrt/utils/py_utils.cc:38] TF-TRT", "W py_utils.cc:38] TF-TRT"),
    ],
)
def test_lines_of_gpus_libraries_and_trouble_are_kept(line: str, kept: str) -> None:
    assert relevant_lines([line]) == (kept,)


@pytest.mark.parametrize(
    "line",
    [
        "",
        f"{STAMP}I tensorflow/core/platform/cloud/gcs_file_system.cc:1] nothing to do with a GPU",
        f"I{ABSL}service.cc:145] XLA service 0x7f initialized",
        f"I{ABSL}bfc_allocator.cc:187] Creating bin of max chunk size 256B",
        "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
        "Every library opened is named in dso_loader",
        "Traceback (most recent call last):",
        "Warning: W0000 in the middle",
    ],
)
def test_other_lines_are_left_out(line: str) -> None:
    assert relevant_lines([line]) == ()


def test_a_line_is_kept_once() -> None:
    lines = [f"2024-09-24 09:32:5{second}.314966: {DSO}{OPENED.format('libcudart.so.12')}" for second in range(10)]
    assert relevant_lines(lines) == (f"I dso_loader.cc:70] {OPENED.format('libcudart.so.12')}",)


def test_of_a_long_log_no_more_is_kept_than_can_be_read() -> None:
    lines = [
        f"{STAMP}I tensorflow/core/common_runtime/gpu/gpu_device.cc:1] line {n} {'x' * 5000}" for n in range(10_000)
    ]
    kept = relevant_lines(lines)
    assert 50 <= len(kept) <= 1000
    assert max(map(len, kept)) <= 600
    assert kept[0].startswith("I gpu_device.cc:1] line 0 ")


@pytest.mark.parametrize("level", ["W", "E", "F"])
def test_trouble_at_the_end_of_a_long_log_is_kept(level: str) -> None:
    lines = [f"I{ABSL}gpu_device.cc:1] line {number}" for number in range(10_000)]
    assert f"{level} {NO_MEMORY}" in relevant_lines([*lines, f"{level}{ABSL}{NO_MEMORY}"])


def test_a_library_that_failed_at_the_end_of_a_long_log_is_known(machine: Machine) -> None:
    lines = [f"I{ABSL}gpu_device.cc:1] line {number}" for number in range(10_000)]
    lines.append(STAMP + DSO + NOT_OPENED.format("libcudnn.so.9"))
    found = machine.ask(runtime, done=Completed(b"{}\n", "\n".join(lines), 9.0, exit_code=0))
    assert [load.soname for load in found.libraries] == ["libcudnn.so.9"]


def test_binary_junk_in_the_log_is_survived() -> None:
    chance = random.Random(1)
    junk = [bytes(chance.randrange(256) for _ in range(200)).decode("utf-8", "replace") for _ in range(200)]
    line = f"E{ABSL}cuda_platform.cc:52] failed call to cuInit"
    kept = relevant_lines([*junk, line, "\0" * 100_000, *junk])
    assert "E cuda_platform.cc:52] failed call to cuInit" in kept
    assert library_loads([*junk, "\0"]) == ()


def test_libraries_that_were_opened_are_named() -> None:
    lines = [STAMP + DSO + OPENED.format(name) for name in ("libcudart.so.12", "libcublas.so.12")]
    assert library_loads(relevant_lines(lines)) == (
        LibraryLoad(soname="libcudart.so.12", opened=True),
        LibraryLoad(soname="libcublas.so.12", opened=True),
    )


@pytest.mark.parametrize(
    ("line", "soname", "error"),
    [
        (NOT_OPENED.format("libcudnn.so.8"), "libcudnn.so.8", DLERROR.format("libcudnn.so.8")),
        (
            NOT_OPENED.format("libcudart.so.11.0") + "; LD_LIBRARY_PATH: /usr/local/cuda/lib64:/opt/lib",
            "libcudart.so.11.0",
            DLERROR.format("libcudart.so.11.0"),
        ),
        (
            "Could not dlopen library 'libcublas.so.12'; dlerror: /opt/libcublas.so.12: undefined symbol: cublasLtX; "
            "version libcublasLt.so.12; LD_LIBRARY_PATH: ",
            "libcublas.so.12",
            "/opt/libcublas.so.12: undefined symbol: cublasLtX; version libcublasLt.so.12",
        ),
        ("Could not load dynamic library 'cudart64_110.dll'; dlerror: cudart64_110.dll not found", "cudart64_110.dll", "cudart64_110.dll not found"),
        ("Could not load library 'libcudnn_ops.so.9'", "libcudnn_ops.so.9", ""),
    ],
)  # fmt: skip
def test_libraries_that_failed_are_named_with_the_loaders_words(line: str, soname: str, error: str) -> None:
    assert library_loads(relevant_lines([STAMP + DSO + line])) == (
        LibraryLoad(soname=soname, opened=False, error=error),
    )


def test_the_last_attempt_to_open_a_library_counts() -> None:
    failed, opened = NOT_OPENED.format("libcudnn.so.9"), OPENED.format("libcudnn.so.9")
    assert [load.opened for load in library_loads([failed, opened])] == [True]
    assert [load.opened for load in library_loads([opened, failed])] == [False]


def test_the_last_attempt_counts_when_it_repeats_the_first(machine: Machine) -> None:
    log = "".join(STAMP + DSO + line.format("libcudnn.so.9") + "\n" for line in (NOT_OPENED, OPENED, NOT_OPENED))
    found = machine.ask(runtime, done=Completed(b"{}\n", log, 3.0, exit_code=0))
    assert [load.opened for load in found.libraries] == [False]


def answer(*rows: dict[str, Any]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


MATMUL = {
    "operation": "matmul", "device": "/GPU:0", "placed_on": "/job:localhost/replica:0/task:0/device:GPU:0",
    "largest_error": 0.0, "seconds": 0.4,
}  # fmt: skip
WORKS = answer(
    {"phase": "importing TensorFlow"},
    {"import_seconds": 2.5},
    {"version": "2.20.0", "phase": "listing the GPUs"},
    {"gpus_listed": True, "gpus": [{"name": "/physical_device:GPU:0"}]},
    {"phase": "describing the GPUs"},
    {"gpus": [{"name": "/physical_device:GPU:0", "description": "NVIDIA A100", "compute_capability": "8.0", "memory_growth": None}]},
    {"phase": "matmul on GPU:0"},
    {"computations": [MATMUL]},
    {"changed_variables": {}},
)  # fmt: skip


def test_a_tensorflow_that_computes(machine: Machine) -> None:
    log = STAMP + DSO + OPENED.format("libcudart.so.12") + f"\nI{ABSL}gpu_device.cc:2022] Created device\n"
    found = machine.ask(runtime, done=Completed(WORKS, log, 6.0, exit_code=0))
    assert found.attempt.answered
    assert found.computes
    assert (found.version, found.gpus_listed, found.gpus[0].compute_capability) == ("2.20.0", True, "8.0")
    assert [load.soname for load in found.libraries] == ["libcudart.so.12"]
    assert decode_facts(encode_facts(Facts(runtime=found))).runtime == found


def test_a_tensorflow_that_cannot_be_imported(machine: Machine) -> None:
    error = "ImportError: libcudart.so.12: cannot open shared object file"
    output = answer(
        {"phase": "importing TensorFlow"}, {"import_error": error, "import_traceback": ["Traceback", error]}
    )
    found = machine.ask(runtime, done=Completed(output, "", 1.0, exit_code=0))
    assert found.attempt.answered
    assert (found.import_error, found.gpus_listed, found.computes) == (error, False, False)


def test_a_tensorflow_that_is_too_slow(machine: Machine) -> None:
    output = answer(
        {"phase": "importing TensorFlow"}, {"import_seconds": 2.5}, {"version": "2.20.0", "phase": "listing the GPUs"}
    )
    done = Completed(output, f"E{ABSL}cuda_platform.cc:52] failed call to cuInit\n", 120.0, timed_out=True)
    found = machine.ask(runtime, done=done)
    assert found.attempt.ending == "did not respond within 120 s during 'listing the GPUs'"
    assert (found.version, found.gpus_listed) == ("2.20.0", False)
    assert found.log == ("E cuda_platform.cc:52] failed call to cuInit",)


def test_a_tensorflow_that_dies_has_said_what_it_had_done(machine: Machine) -> None:
    output = WORKS[: WORKS.index(b'{"computations')] + b'{"computa'
    done = Completed(
        output,
        f"F{ABSL}cuda_dnn.cc:1] Check failed\nFatal Python error: Aborted\n",
        5.0,
        exit_code=-6,
        signal="SIGABRT",
    )
    found = machine.ask(runtime, done=done)
    assert found.attempt.ending == "was killed by SIGABRT during 'matmul on GPU:0'"
    assert found.log == ("F cuda_dnn.cc:1] Check failed",)
    assert (len(found.gpus), found.computations, found.computes) == (1, (), False)


def test_a_death_by_an_unknown_instruction_is_named(machine: Machine) -> None:
    done = Completed(answer({"phase": "importing TensorFlow"}), "", 0.5, exit_code=-4, signal="SIGILL")
    assert machine.ask(runtime, done=done).attempt.ending == "was killed by SIGILL during 'importing TensorFlow'"


@pytest.mark.parametrize(
    "output", [b"", b"junk\n", answer({"gpus": [{"description": "no name"}]}), answer({"computations": 1})]
)
def test_an_answer_that_cannot_be_understood_keeps_the_log(machine: Machine, output: bytes) -> None:
    done = Completed(output, STAMP + DSO + NOT_OPENED.format("libcudnn.so.9") + "\n", 1.0, exit_code=0)
    found = machine.ask(runtime, done=done)
    assert found.attempt.outcome == "unparsable"
    assert len(found.log) == 1
    assert [load.opened for load in found.libraries] == [False]


def test_an_operation_that_was_wrong_does_not_count_as_computing(machine: Machine) -> None:
    for change in ({"largest_error": 0.5}, {"error": "InternalError: failed"}, {"largest_error": None}):
        output = answer({"computations": [MATMUL, {**MATMUL, **change}]})
        assert not machine.ask(runtime, done=Completed(output, "", 1.0, exit_code=0)).computes


def test_quick_leaves_tensorflow_out(machine: Machine) -> None:
    with pytest.raises(Unavailable, match="--quick"):
        machine.ask(runtime, done=Completed(b"", "", 0.0), request=Request(python=sys.executable, level="quick"))
    assert machine.asked == []


def test_tensorflow_is_run_with_its_log_turned_up_and_without_taking_the_card(machine: Machine) -> None:
    machine.ask(runtime, done=Completed(b"", "", 0.0), request=Request(python="/venv/bin/python", deadline_s=77.0))
    (asked,) = machine.asked
    assert asked.argv[0] == "/venv/bin/python"
    assert [os.path.basename(each) for each in asked.argv[1:]] == ["run_tensorflow.py", "GPU"]
    assert asked.deadline_s == 77.0
    assert asked.variables["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"
    assert asked.variables["TF_CPP_MIN_LOG_LEVEL"] == "0"
