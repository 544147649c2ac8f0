"""MEM: the GPU's memory, and how TensorFlow takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from built_machines import several, variables
from healthy import ANSWERED, computation, gpu, nvml_gpu, runtime

from tfgpu_doctor.checks.tensorflow.memory import (
    allocator_agrees_with_growth,
    growth_is_on_where_shared,
    growth_is_the_same,
    growth_variable_is_understood,
    memory_is_left,
)
from tfgpu_doctor.model.facts.machine import Environment
from tfgpu_doctor.model.facts.nvidia import GpuProcess, Nvml, NvmlGpu

if TYPE_CHECKING:
    from checks.conftest import Judge

GIB = 1 << 30
NOTEBOOK = GpuProcess(pid=2214, name="/home/user/jupyter/bin/python", memory_bytes=23 * GIB)
SMALL = GpuProcess(pid=77, name="python", memory_bytes=GIB // 2)
UNTOLD = GpuProcess(pid=88)
DESKTOP = GpuProcess(pid=1200, name="/usr/lib/xorg/Xorg", computes=False, memory_bytes=GIB)


def card(free: int | None, total: int | None = 24 * GIB, index: int = 0, **changes: Any) -> NvmlGpu:
    return nvml_gpu(index, memory_free_bytes=free, memory_total_bytes=total, **changes)


def cards(*given: NvmlGpu) -> Nvml:
    return Nvml(attempt=ANSWERED, gpus=given)


def failing(error: str) -> Any:
    return runtime(computations=(computation("matmul", largest_error=None, placed_on="", error=error),))


# MEM001


@pytest.mark.parametrize(
    ("free", "total"),
    [
        (24 * GIB, 24 * GIB),
        (GIB, 24 * GIB),
        (GIB, 80 * GIB),
        (GIB - 1, 2 * GIB - 2),
        (GIB // 2, GIB),
        (GIB // 4, GIB // 4),
    ],
)
def test_memory_that_is_left_passes(judge: Judge, free: int, total: int) -> None:
    assert judge.passes(memory_is_left, nvml=cards(card(free, total)), runtime=None)


def test_the_sizes_are_named(judge: Judge) -> None:
    assert judge.passes(memory_is_left) == "GPU 0: 23.0 GiB of 24.0 GiB free"


@pytest.mark.parametrize(("free", "total"), [(GIB - 1, 24 * GIB), (0, 24 * GIB), (GIB - 2, 2 * GIB), (0, GIB)])
def test_memory_that_others_hold_is_an_error(judge: Judge, free: int, total: int) -> None:
    held = card(free, total, processes=(SMALL, DESKTOP, NOTEBOOK, UNTOLD))
    finding = judge.finding(memory_is_left, nvml=cards(held), runtime=failing("OOM when allocating tensor"))
    assert (finding.cause, finding.severity) == ("gpu_memory_held_by_other_process", "error")
    assert f"has {free / GIB:.1f} GiB of {total / GIB:.1f} GiB free" in finding.message
    assert finding.evidence == (
        "GPU 0: /home/user/jupyter/bin/python (2214) holds 23.0 GiB",
        "GPU 0: python (77) holds 0.5 GiB",
        "GPU 0: process (88) holds an unknown amount",
    )
    assert finding.fix and finding.fix.commands == ("nvidia-smi",)


@pytest.mark.parametrize(
    ("error", "severity"),
    [
        ("CUDA_ERROR_OUT_OF_MEMORY: out of memory", "error"),
        ("CUDNN_STATUS_NOT_INITIALIZED", "error"),
        ("libdevice", "warning"),
    ],
)
def test_a_full_gpu_is_an_error_where_something_failed_for_memory(judge: Judge, error: str, severity: str) -> None:
    assert judge.finding(memory_is_left, nvml=cards(card(0)), runtime=failing(error)).severity == severity


def test_a_full_gpu_is_no_error_where_nothing_failed(judge: Judge) -> None:
    assert judge.finding(memory_is_left, nvml=cards(card(0)), runtime=None).severity == "warning"


@pytest.mark.parametrize(("run", "severity"), [(None, "info"), ("out of memory", "error")])
def test_a_full_gpu_is_a_note_while_another_is_free(judge: Judge, run: str | None, severity: str) -> None:
    finding = judge.finding(
        memory_is_left,
        nvml=cards(card(23 * GIB), card(0, index=1)),
        cuda_driver=None,
        runtime=failing(run) if run else None,
    )
    assert finding.severity == severity


def test_a_holder_whom_nvml_does_not_see_is_told_as_such(judge: Judge) -> None:
    finding = judge.finding(memory_is_left, nvml=cards(card(0)), runtime=None)
    assert "NVML names no process" in finding.evidence[0]


def test_memory_is_judged_gpu_by_gpu(judge: Judge) -> None:
    finding = judge.finding(
        memory_is_left, nvml=cards(card(23 * GIB), card(0, index=1)), cuda_driver=None, runtime=None
    )
    assert finding.message.startswith("GPU 1 ")


@pytest.mark.parametrize("unknown", [(None, 24 * GIB), (GIB, None), (None, None), (0, 0)])
def test_memory_that_nvml_does_not_tell_is_no_fault(judge: Judge, unknown: tuple[int | None, int | None]) -> None:
    # a Jetson, a GH200 with one memory for all, a GPU in MIG mode seen by an ordinary user
    assert judge.skips(memory_is_left, nvml=cards(card(*unknown))) == "NVML reports no GPU memory"


def test_without_gpus_no_memory_is_missed(judge: Judge) -> None:
    assert judge.skips(memory_is_left, nvml=cards()) == "NVML reports no GPU memory"


@pytest.mark.parametrize("run", [None, runtime()])
def test_a_full_gpu_that_is_hidden_is_no_fault(judge: Judge, run: Any) -> None:
    # a server whose users share its GPUs by CUDA_VISIBLE_DEVICES; CUDA lists the first alone
    assert judge.does_not_object(
        memory_is_left,
        nvml=cards(card(23 * GIB), card(0, index=1, processes=(NOTEBOOK,))),
        environment=variables(CUDA_VISIBLE_DEVICES="0"),
        runtime=run,
    )


def test_the_other_instances_of_a_mig_gpu_are_no_fault(judge: Judge) -> None:
    shared = card(GIB // 2, 80 * GIB, mig=True, mig_devices=("MIG-1",), processes=(NOTEBOOK,))
    assert judge.does_not_object(
        memory_is_left, nvml=cards(shared), environment=variables(CUDA_VISIBLE_DEVICES="MIG-1")
    )


def test_memory_that_was_enough_to_compute_is_no_error(judge: Judge) -> None:
    found = judge.findings(memory_is_left, nvml=cards(card(900 << 20, 4 * GIB, processes=(DESKTOP,))))
    assert [finding.severity for finding in found if finding.severity == "error"] == []


# MEM002


@pytest.mark.parametrize("value", [None, "true", "false"])
def test_growth_that_is_understood_passes(judge: Judge, value: str | None) -> None:
    environment = Environment(variables={} if value is None else {"TF_FORCE_GPU_ALLOW_GROWTH": value})
    evidence = judge.passes(growth_variable_is_understood, environment=environment)
    assert evidence == ("not set" if value is None else f"TF_FORCE_GPU_ALLOW_GROWTH={value}")


@pytest.mark.parametrize("value", ["1", "True", "TRUE", "yes", " true", ""])
def test_growth_that_is_misspelt_is_ignored(judge: Judge, value: str) -> None:
    finding = judge.finding(growth_variable_is_understood, environment=variables(TF_FORCE_GPU_ALLOW_GROWTH=value))
    assert (finding.cause, finding.severity, finding.confidence) == ("cudnn_init_failed_memory", "warning", "medium")
    assert finding.message == (
        f"TF_FORCE_GPU_ALLOW_GROWTH={value!r} is ignored: TensorFlow accepts only true and false"
    )
    assert finding.fix and finding.fix.commands == ("export TF_FORCE_GPU_ALLOW_GROWTH=true",)


@pytest.mark.parametrize("value", ["False", "FALSE", "0", "no", "off"])
def test_growth_that_was_to_be_off_is_not_switched_on(judge: Judge, value: str) -> None:
    finding = judge.finding(growth_variable_is_understood, environment=variables(TF_FORCE_GPU_ALLOW_GROWTH=value))
    assert finding.fix and finding.fix.commands == ("export TF_FORCE_GPU_ALLOW_GROWTH=false",)


# MEM003


def growing(*states: bool | None) -> dict[str, Any]:
    return {"gpus": tuple(gpu(index, memory_growth=state) for index, state in enumerate(states))}


@pytest.mark.parametrize("states", [(None,), (True,), (False,), (None, None), (False, False), (True, True, True)])
def test_growth_that_is_the_same_passes(judge: Judge, states: tuple[bool | None, ...]) -> None:
    evidence = judge.passes(growth_is_the_same, runtime=growing(*states))
    of_them = "the GPU" if len(states) == 1 else f"all {len(states)} GPUs"
    assert evidence.startswith(f"{'on' if states[0] else 'off'} for {of_them}")


@pytest.mark.parametrize(
    ("states", "second"), [((True, False), "off"), ((True, None), "not set"), ((True, False, None), "off")]
)
def test_growth_that_differs_is_refused_by_tensorflow(
    judge: Judge, states: tuple[bool | None, ...], second: str
) -> None:
    finding = judge.finding(growth_is_the_same, runtime=growing(*states))
    assert (finding.cause, finding.severity) == ("memory_growth_differs_between_gpus", "error")
    assert finding.evidence[:2] == ("/physical_device:GPU:0: on", f"/physical_device:GPU:1: {second}")
    assert finding.fix and finding.fix.commands == ()  # TensorFlow refuses whatever the environment says


def test_without_gpus_no_growth_differs(judge: Judge) -> None:
    assert judge.skips(growth_is_the_same, runtime=runtime(gpus=())) == "TensorFlow lists no GPU"


# MEM004


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"TF_GPU_ALLOCATOR": ""},
        {"TF_GPU_ALLOCATOR": "cuda_malloc_async"},
        {"TF_GPU_ALLOCATOR": "cuda_malloc"},
        {"TF_GPU_ALLOCATOR": "memory_guard"},
        {"TF_GPU_ALLOCATOR": "cuda_malloc_async", "TF_FORCE_GPU_ALLOW_GROWTH": "true"},
        {"TF_GPU_ALLOCATOR": "cuda_malloc", "TF_FORCE_GPU_ALLOW_GROWTH": "false"},
        {"TF_GPU_ALLOCATOR": "cuda_malloc_async", "TF_CUDA_MALLOC_ASYNC_SUPPORTED_PREALLOC": "-1"},
        {"TF_FORCE_GPU_ALLOW_GROWTH": "true", "TF_CUDA_MALLOC_ASYNC_SUPPORTED_PREALLOC": "-1"},
    ],
)
def test_an_allocator_that_agrees_passes(judge: Judge, values: dict[str, str]) -> None:
    allocator = values.get("TF_GPU_ALLOCATOR") or "not set"
    growth = values.get("TF_FORCE_GPU_ALLOW_GROWTH", "not set")
    assert judge.passes(allocator_agrees_with_growth, environment=variables(**values)) == (
        f"TF_GPU_ALLOCATOR is {allocator}, TF_FORCE_GPU_ALLOW_GROWTH {growth}"
    )


@pytest.mark.parametrize("value", ["cuda_async", "CUDA_MALLOC_ASYNC", "bfc"])
def test_an_allocator_that_tensorflow_does_not_know_is_ignored(judge: Judge, value: str) -> None:
    finding = judge.finding(allocator_agrees_with_growth, environment=variables(TF_GPU_ALLOCATOR=value))
    assert (finding.cause, finding.severity, finding.confidence) == ("cudnn_init_failed_memory", "warning", "medium")
    assert f"TF_GPU_ALLOCATOR={value!r}" in finding.message
    assert "cuda_malloc_async, cuda_malloc, memory_guard" in finding.message
    assert finding.fix and finding.fix.commands == ("unset TF_GPU_ALLOCATOR",)


def test_memory_taken_at_once_disagrees_with_growth(judge: Judge) -> None:
    environment = variables(
        TF_GPU_ALLOCATOR="cuda_malloc_async",
        TF_FORCE_GPU_ALLOW_GROWTH="true",
        TF_CUDA_MALLOC_ASYNC_SUPPORTED_PREALLOC="-1",
    )
    finding = judge.finding(allocator_agrees_with_growth, environment=environment)
    assert (finding.cause, finding.severity) == ("cudnn_init_failed_memory", "warning")
    assert finding.fix and finding.fix.commands == ("unset TF_CUDA_MALLOC_ASYNC_SUPPORTED_PREALLOC",)


def test_an_allocator_that_grows_against_the_variable_is_mentioned(judge: Judge) -> None:
    environment = variables(TF_GPU_ALLOCATOR="cuda_malloc_async", TF_FORCE_GPU_ALLOW_GROWTH="false")
    finding = judge.finding(allocator_agrees_with_growth, environment=environment)
    assert finding.severity == "info"


# MEM005


@pytest.mark.parametrize("tenants", [(), (DESKTOP,)])
def test_a_gpu_of_ones_own_needs_no_growth(judge: Judge, tenants: tuple[GpuProcess, ...]) -> None:
    evidence = judge.passes(growth_is_on_where_shared, nvml=cards(card(23 * GIB, processes=tenants)))
    assert evidence == "0 other processes compute on the GPU; memory growth is off, unless the program sets it"


@pytest.mark.parametrize("values", [{"TF_FORCE_GPU_ALLOW_GROWTH": "true"}, {"TF_GPU_ALLOCATOR": "cuda_malloc_async"}])
def test_a_shared_gpu_with_growth_passes(judge: Judge, values: dict[str, str]) -> None:
    nvml = cards(card(12 * GIB, processes=(SMALL,)))
    evidence = judge.passes(growth_is_on_where_shared, nvml=nvml, environment=variables(**values))
    assert evidence == "1 other process computes on the GPU; memory growth is on"


@pytest.mark.parametrize("value", [None, "false", "True", "1"])
def test_a_shared_gpu_without_growth_is_mentioned(judge: Judge, value: str | None) -> None:
    environment = Environment(variables={} if value is None else {"TF_FORCE_GPU_ALLOW_GROWTH": value})
    nvml = cards(card(23 * GIB), card(12 * GIB, index=1, processes=(SMALL, UNTOLD)))
    finding = judge.finding(growth_is_on_where_shared, nvml=nvml, environment=environment, cuda_driver=None)
    assert (finding.cause, finding.severity) == ("gpu_memory_held_by_other_process", "info")
    assert finding.evidence == ("GPU 1: python (77) holds 0.5 GiB", "GPU 1: process (88) holds an unknown amount")
    assert finding.fix and finding.fix.commands == ("export TF_FORCE_GPU_ALLOW_GROWTH=true",)


def test_without_gpus_nobody_shares(judge: Judge) -> None:
    assert judge.skips(growth_is_on_where_shared, nvml=cards()) == "NVML lists no GPU"


def test_several_gpus_of_ones_own_pass(judge: Judge) -> None:
    for check in (memory_is_left, growth_is_the_same, growth_is_on_where_shared):
        assert judge.passes(check, **several(8))
