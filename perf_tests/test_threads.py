"""Compare thread settings of TensorFlow, given the CPUs that this process may use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tfgpu_doctor.bench import Plan, measure
from tfgpu_doctor.perf_tests.children import Answer, Child, children
from tfgpu_doctor.perf_tests.figures import interval, plan_of
from tfgpu_doctor.perf_tests.processors import usable_processors
from tfgpu_doctor.perf_tests.programs.work_on_request import SIDE, WAITS
from tfgpu_doctor.perf_tests.runner import Variant
from tfgpu_doctor.perf_tests.visibility import NO_GPU

Hold = Callable[..., None]
PROGRAM = "work_on_request"
TOO_MANY = 8  # threads per CPU


@pytest.fixture(scope="module")
def processors() -> int:
    """The number of CPUs that this process may use, by its quota and its affinity."""
    return usable_processors()


def exact_sum() -> int:
    """Return the sum of the elements of a child's matrix product, computed with integers."""
    left = np.arange(SIDE * SIDE, dtype=np.int64).reshape(SIDE, SIDE) % 7
    return int(left.sum(axis=0) @ (left.T % 5).sum(axis=1))


def variant(name: str, child: Child, expected: float) -> Variant:
    def verify(answer: Answer) -> None:
        assert answer.values["sum"] == expected, f"the sum is {answer.values['sum']}, but should be {expected}"

    return Variant(name, child.ask, verify)


@pytest.mark.priority(4, needs_s=25)
def test_intra_op(compare: Hold, processors: int) -> None:
    """Compare one large operation on all CPUs with the same operation on one CPU."""
    if processors < 2:
        pytest.skip("the quota or the affinity allows only one CPU: threads cannot work in parallel")
    orders = [{"work": "product", "intra": threads, "inter": 1} for threads in (processors, 1)]
    with children(PROGRAM, *((order, NO_GPU) for order in orders)) as (many, one):
        assert (many.ready["intra"], one.ready["intra"]) == (processors, 1)
        expected = exact_sum()
        compare(variant(f"{processors} threads", many, expected), variant("1 thread", one, expected), at_least=1.1)


@pytest.mark.priority(4, needs_s=25)
def test_inter_op(compare: Hold) -> None:
    """Compare independent operations that wait, run in parallel, with running them sequentially."""
    orders = [{"work": "waits", "inter": threads, "intra": 1} for threads in (WAITS, 1)]
    with children(PROGRAM, *((order, NO_GPU) for order in orders)) as (many, one):
        assert (many.ready["inter"], one.ready["inter"]) == (WAITS, 1)
        expected = sum(range(WAITS))
        compare(variant(f"{WAITS} threads", many, expected), variant("1 thread", one, expected), at_least=1.2)


@pytest.mark.priority(7, needs_s=25)
def test_too_many(share_s: float, processors: int, metric: Callable[..., None]) -> None:
    """Measure whether many more threads than CPUs are slower."""
    crowd = TOO_MANY * processors
    orders = [{"work": "product", "intra": threads, "inter": 1} for threads in (processors, crowd)]
    with children(PROGRAM, *((order, NO_GPU) for order in orders)) as (fitting, many):
        assert fitting.ask().values["sum"] == many.ask().values["sum"] == exact_sum()
        measured = measure(fitting.ask, many.ask, plan=Plan(share_s))
    metric(
        "threads that fit", measured.ratio.value, "times as fast", device="CPU:0",
        about=f"{processors} threads compared with {crowd} for {processors} CPUs; {interval(measured)}",
    )  # fmt: skip


@pytest.mark.priority(6, needs_s=25)
@pytest.mark.usefixtures("second_process_on_all")
def test_gpu_thread_mode(share_s: float, gpu: str, metric: Callable[..., None]) -> None:
    """Compare dedicated GPU threads with threads shared with the input pipeline."""
    order: dict[str, Any] = {"work": "fed_training", "device": f"/{gpu}"}
    private = {"TF_GPU_THREAD_MODE": "gpu_private", "TF_GPU_THREAD_COUNT": "2"}
    with children(PROGRAM, (order, private), (order, {"TF_GPU_THREAD_MODE": "global"})) as (own, shared):
        answers = [own.ask(), shared.ask()]
        assert all(answer.devices == (gpu,) for answer in answers)
        assert np.isclose(answers[0].values["sum"], answers[1].values["sum"], rtol=1e-3)
        measured = measure(own.ask, shared.ask, plan=plan_of(share_s, gpu))
    metric(
        "TF_GPU_THREAD_MODE=gpu_private", measured.ratio.value, "times as fast", device=gpu,
        about=f"compared with global, training with an input pipeline on the CPU; {interval(measured)}",
    )  # fmt: skip
