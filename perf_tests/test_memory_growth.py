"""The GPU memory that TensorFlow allocates under its settings, a second process, and the errors of late settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tfgpu_doctor.perf_tests.children import Child, ChildDied, children
from tfgpu_doctor.perf_tests.fixtures import busy_gpus

Keep = Callable[..., None]
PROGRAM = "take_memory"
TAKEN_MIB = 64
BESIDE_MIB = 3072  # upper limit for the CUDA context and the libraries, far less than the memory of a GPU
LIMIT_MIB = 2048
# The variable overrides the setting of a program.
GROWING, GREEDY = {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}, {"TF_FORCE_GPU_ALLOW_GROWTH": "false"}
SETTINGS: dict[str, tuple[Mapping[str, Any], Mapping[str, str]]] = {
    "growth": ({"growth": True}, GROWING),
    "no growth": ({}, GREEDY),
    "limit": ({"limit_mib": LIMIT_MIB}, GREEDY),
    "cuda_malloc_async": ({}, {**GROWING, "TF_GPU_ALLOCATOR": "cuda_malloc_async"}),
}


def taken_by(child: Child, mebibytes: int = TAKEN_MIB) -> float:
    """Return the GPU memory (MiB) in use since the child started, after it allocates; skip if NVML does not report it."""
    answer = child.ask(f"take {mebibytes}").values
    assert answer["failed"] == "", f"{mebibytes} MiB could not be allocated: {answer['failed']}"
    if answer["used_mib"] is None or child.ready["used_mib"] is None:
        pytest.skip("NVML does not report how much memory is in use")
    return float(answer["used_mib"] - child.ready["used_mib"])


@pytest.mark.priority(4, needs_s=20)
@pytest.mark.parametrize("name", list(SETTINGS))
def test_taken(share_s: float, gpu: str, metric: Keep, name: str) -> None:
    """Measure the memory that a process allocates if it needs 64 MiB."""
    if name == "no growth" and (busy := busy_gpus()):
        pytest.skip(f"without growth TensorFlow would take the memory that others need on {', '.join(busy)}")
    with children(PROGRAM, SETTINGS[name]) as (child,):
        taken = taken_by(child)
    metric(f"taken with {name}", taken, "MiB", device=gpu, about=f"on all GPUs, after a request for {TAKEN_MIB} MiB")
    if name == "no growth":
        assert taken > BESIDE_MIB, "without growth TensorFlow should allocate nearly all of the GPU's memory"
    else:
        most = BESIDE_MIB + (LIMIT_MIB if name == "limit" else 0)
        assert taken < most, f"{taken:.0f} MiB are in use, but at most {most} MiB should be"


@pytest.mark.priority(5, needs_s=20)
def test_second_process(share_s: float, gpu: str, metric: Keep) -> None:
    """Check that with growth a second process fits next to the first."""
    with children(PROGRAM, SETTINGS["growth"], SETTINGS["growth"]) as both:
        taken = [taken_by(child) for child in both]
    metric("taken by two processes", max(taken), "MiB", device=gpu, about="on all GPUs, with growth")


@pytest.mark.priority(6, needs_s=20)
def test_growth_on_some(share_s: float, gpus: tuple[str, ...], gpu: str) -> None:
    """Check that growth that differs between GPUs is rejected, and that setting it for all GPUs works."""
    if len(gpus) < 2:
        pytest.skip("there is only one GPU: growth cannot differ")
    neutral = {"TF_FORCE_GPU_ALLOW_GROWTH": ""}
    with (
        pytest.raises(ChildDied, match="cannot differ between GPU"),
        children(PROGRAM, ({"growth": True, "only_first": True}, neutral)) as (child,),
    ):
        child.ask("take")
    with children(PROGRAM, ({"growth": True}, neutral)) as (child,):
        assert child.ask("take").values["failed"] == ""


@pytest.mark.priority(6, needs_s=20)
def test_late_setting(share_s: float, gpus: tuple[str, ...], metric: Keep) -> None:
    """Check that a setting after the first operation is rejected, and that the same setting before it works.

    Without a GPU the test uses logical CPU devices, for which TensorFlow has the same rule.
    """
    early = {"growth": True} if gpus else {"parts": 2}
    with children(PROGRAM, ({}, {}), (early, GROWING)) as (late, in_time):
        refused = late.ask("late").values["late"]
        assert in_time.ready, "the setting is also rejected before the first operation"
    assert "initialized" in refused, f"the late setting was not rejected: {refused or 'no error'}"
    metric("late setting refused", 1, "of 1", device=gpus[0] if gpus else "CPU:0", about=refused)


@pytest.mark.priority(5, needs_s=20)
def test_largest(share_s: float, gpu: str, metric: Keep) -> None:
    """Find the largest block that fits within a limit; check that smaller blocks fit after a failed allocation."""
    with children(PROGRAM, SETTINGS["limit"]) as (child,):
        most = child.ask(f"largest {2 * LIMIT_MIB}").values["mib"]
        assert child.ask("take").values["failed"] == "", "after running out of memory every allocation fails"
    metric("largest piece", most, "MiB", device=gpu, limit=float(LIMIT_MIB), about=f"with a limit of {LIMIT_MIB} MiB")
    assert LIMIT_MIB // 2 <= most <= LIMIT_MIB
