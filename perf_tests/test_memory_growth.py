"""What TensorFlow takes of a GPU's memory, by its settings; what fits beside it; and the errors of late settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tfgpu_doctor.perf_tests.children import Child, ChildDied, children

Keep = Callable[..., None]
PROGRAM = "take_memory"
TAKEN_MIB = 64
BESIDE_MIB = 3072  # at most what the CUDA context and the libraries take, far less than a GPU has
LIMIT_MIB = 2048
# The variable counts more than what a program sets.
GROWING, GREEDY = {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}, {"TF_FORCE_GPU_ALLOW_GROWTH": "false"}
SETTINGS: dict[str, tuple[Mapping[str, Any], Mapping[str, str]]] = {
    "growth": ({"growth": True}, GROWING),
    "no growth": ({}, GREEDY),
    "limit": ({"limit_mib": LIMIT_MIB}, GREEDY),
    "cuda_malloc_async": ({}, {**GROWING, "TF_GPU_ALLOCATOR": "cuda_malloc_async"}),
}


def taken_by(child: Child, mebibytes: int = TAKEN_MIB) -> float:
    """What is taken of the GPUs (MiB) since the child began, after it asked for so much; skips where nobody tells."""
    answer = child.ask(f"take {mebibytes}").values
    assert answer["failed"] == "", f"{mebibytes} MiB could not be had: {answer['failed']}"
    if answer["used_mib"] is None or child.ready["used_mib"] is None:
        pytest.skip("NVML does not tell how much memory is in use")
    return float(answer["used_mib"] - child.ready["used_mib"])


@pytest.mark.priority(4, needs_s=20)
@pytest.mark.parametrize("name", list(SETTINGS))
def test_taken(share_s: float, gpu: str, metric: Keep, name: str) -> None:
    """What a process takes that needs 64 MiB."""
    with children(PROGRAM, SETTINGS[name]) as (child,):
        taken = taken_by(child)
    metric(f"taken with {name}", taken, "MiB", device=gpu, about=f"on all GPUs, of which {TAKEN_MIB} were asked for")
    if name == "no growth":
        assert taken > BESIDE_MIB, "without growth nearly all of the GPU should be taken"
    else:
        most = BESIDE_MIB + (LIMIT_MIB if name == "limit" else 0)
        assert taken < most, f"{taken:.0f} MiB are taken, and at most {most} should be"


@pytest.mark.priority(5, needs_s=20)
def test_second_process(share_s: float, gpu: str, metric: Keep) -> None:
    """With growth on, a second process fits beside the first."""
    with children(PROGRAM, SETTINGS["growth"], SETTINGS["growth"]) as both:
        taken = [taken_by(child) for child in both]
    metric("taken by two processes", max(taken), "MiB", device=gpu, about="on all GPUs, with growth on")


@pytest.mark.priority(6, needs_s=20)
def test_growth_on_some(share_s: float, gpus: tuple[str, ...], gpu: str) -> None:
    """Growth that differs between GPUs is refused; the remedy is to set it for all of them."""
    if len(gpus) < 2:
        pytest.skip("there is one GPU: growth cannot differ")
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
    """A setting after the first operation is refused; the remedy is to make it first.

    Without a GPU, with parts of the CPU: TensorFlow guards both in the same way.
    """
    early = {"growth": True} if gpus else {"parts": 2}
    with children(PROGRAM, ({}, {}), (early, GROWING)) as (late, in_time):
        refused = late.ask("late").values["late"]
        assert in_time.ready, "made first, the setting is refused as well"
    assert "initialized" in refused, f"the setting came late and was not refused: {refused or 'no error'}"
    metric("late setting refused", 1, "of 1", device=gpus[0] if gpus else "CPU:0", about=refused)


@pytest.mark.priority(5, needs_s=20)
def test_largest(share_s: float, gpu: str, metric: Keep) -> None:
    """The largest piece that fits within a limit; and after one that did not, others still do."""
    with children(PROGRAM, SETTINGS["limit"]) as (child,):
        most = child.ask(f"largest {2 * LIMIT_MIB}").values["mib"]
        assert child.ask("take").values["failed"] == "", "after running out of memory nothing fits any more"
    metric("largest piece", most, "MiB", device=gpu, limit=float(LIMIT_MIB), about=f"with a limit of {LIMIT_MIB} MiB")
    assert LIMIT_MIB // 2 <= most <= LIMIT_MIB
