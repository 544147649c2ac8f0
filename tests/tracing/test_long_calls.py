"""A call that runs many steps and is longer than the recording: its graph, or its loop over a dataset, tells the steps."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import made_trace
import pytest
from made_trace import MadeEvent, MadeLine, MadePlane, Ref

from tfgpu_doctor.tracing.result import TraceReport

STEP_MS = 20.0


def graph(*, steps: int = 30, wait_ms: float = 1.0, run: int = 9, begin_ms: float = 0.0) -> list[MadeLine]:
    """In the middle of a call: the graph asks for a batch, and computes; what runs the call has no event."""
    asks, worker = MadeLine("tf_data_iterator_get_next", number=3), MadeLine("tf_Compute/7", number=4)
    for step in range(steps):
        at = begin_ms + STEP_MS * step
        asks.events += [
            MadeEvent("IteratorGetNextOp::DoCompute", at, wait_ms, {"id": run}),
            MadeEvent("Iterator::Root", at + 0.01, wait_ms - 0.02, {"id": 5}),
            MadeEvent("Iterator::Root::Map", at + 0.02, wait_ms - 0.04),
        ]
        computes_ms = STEP_MS - wait_ms - 0.2
        worker.events += [
            MadeEvent("ExecutorState::Process", at + wait_ms + 0.1, computes_ms, {"id": run}),
            MadeEvent("MatMul:MatMul", at + wait_ms + 0.1, computes_ms),
        ]
    return [asks, worker]


def loop(*, steps: int = 30, wait_ms: float = 1.0, before: str = "Prefetch::") -> list[MadeLine]:
    """The same of `for batch in dataset` inside of a tf.function: the model runs on the pipeline's threads."""
    scan, pool = MadeLine("tf_data_prefetch/1", number=3), MadeLine("tf_data_private_threadpool/2", number=4)
    name = f"ReduceIterator::Root::{before}Scan"
    for step in range(steps):
        at, computes_ms = STEP_MS * step, STEP_MS - wait_ms - 0.2
        scan.events += [
            MadeEvent(name, at, STEP_MS - 0.1, {"id": step}),
            MadeEvent(f"{name}::FiniteTake", at + 0.01, wait_ms, {"id": step}),
            MadeEvent(f"{name}::FiniteTake::Map[0]", at + 0.02, wait_ms - 0.02),
            MadeEvent("InstantiatedCapturedFunction::Run", at + 0.03, wait_ms - 0.04, {"id": 1000 + step}),
            MadeEvent("InstantiatedCapturedFunction::Run", at + wait_ms + 0.05, computes_ms, {"id": 2000 + step}),
        ]
        pool.events += [
            MadeEvent("ExecutorState::Process", at + 0.04, wait_ms - 0.06, {"id": 1000 + step}),
            MadeEvent("ExecutorState::Process", at + wait_ms + 0.1, computes_ms - 0.1, {"id": 2000 + step}),
            MadeEvent("MatMul:MatMul", at + wait_ms + 0.1, computes_ms - 0.1),
        ]
    return [scan, pool]


def judged(folder: pathlib.Path, lines: list[MadeLine]) -> TraceReport:
    return made_trace.judged(made_trace.save(folder, [MadePlane("/host:CPU", lines)]))[0]


@pytest.mark.parametrize("made", [graph, loop])
def test_the_batches_tell_the_steps(tmp_path: pathlib.Path, made: Callable[..., list[MadeLine]]) -> None:
    report = judged(tmp_path, made())
    assert (report.verdict, report.steps.found_by, report.steps.count) == ("compute_bound", "graph", 29)
    assert report.steps.median_ms == pytest.approx(STEP_MS, abs=0.1)
    assert report.shares.compute == pytest.approx(0.94, abs=0.02)
    assert report.shares.input == pytest.approx(0.05, abs=0.02)


@pytest.mark.parametrize("made", [graph, loop])
def test_what_the_steps_wait_for_is_named(tmp_path: pathlib.Path, made: Callable[..., list[MadeLine]]) -> None:
    report = judged(tmp_path, made(wait_ms=12.0))
    assert report.verdict == "input_no_prefetch"
    assert report.shares.input == pytest.approx(0.6, abs=0.05)
    assert next(stage.path for stage in report.pipeline if stage.is_slowest).endswith("::Map")


def test_a_dataset_of_its_own_with_scan_is_no_loop(tmp_path: pathlib.Path) -> None:
    """Dataset.scan of the pipeline itself lies below the loop's."""
    report = judged(tmp_path, loop(before="FiniteTake::"))
    assert report.steps.count == 29
    lines = loop()
    for event in (each for line in lines for each in line.events):
        event.name = event.name.replace("ReduceIterator", "Iterator")
    assert judged(tmp_path / "other", lines).verdict == "too_short"


def test_between_two_calls_is_the_programs_own_time(tmp_path: pathlib.Path) -> None:
    """A callback of 200 ms between two calls, neither of which is whole."""
    first, second = graph(steps=20, run=1), graph(steps=20, run=2, begin_ms=20 * STEP_MS + 200.0)
    report = judged(
        tmp_path,
        [MadeLine(a.name, [*a.events, *b.events], number=a.number) for a, b in zip(first, second, strict=True)],
    )
    assert report.steps.count == 39
    assert report.shares.host == pytest.approx(200 / (39 * STEP_MS + 200), abs=0.03)


def test_replicas_ask_for_the_same_step(tmp_path: pathlib.Path) -> None:
    one, other = graph(run=1), graph(run=2, begin_ms=0.5)
    for number, line in enumerate(other):
        line.number = 10 + number
    assert judged(tmp_path, [*one, *other]).steps.count == 29


def called(begin_ms: float, duration_ms: float) -> list[MadeEvent]:
    """A call of a function from Python."""
    return [
        MadeEvent("multi_step", begin_ms, duration_ms, {"tf_function_call": Ref("notTraced-nonXla")}),
        MadeEvent("EagerLocalExecute: __inference_multi_step_106", begin_ms + 0.05, duration_ms - 0.1),
    ]


@pytest.mark.parametrize(("calls", "found_by"), [(4, "calls"), (1, "graph")])
def test_whole_calls_come_first(tmp_path: pathlib.Path, calls: int, found_by: str) -> None:
    """Calls of ten steps: five, or one and a part of the next."""
    lines = graph(steps=10 * calls + (10 if calls > 1 else 5))
    whole_ms = 10 * STEP_MS
    events = [each for call in range(calls + (calls > 1)) for each in called(whole_ms * call - 0.1, whole_ms - 0.2)]
    report = judged(tmp_path, [MadeLine("python", events, begin_ns=1_000_000, number=1), *shifted(lines)])
    assert (report.steps.found_by, report.steps.per_call) == (found_by, 10.0 if found_by == "calls" else 1.0)
    assert report.steps.median_ms == pytest.approx(STEP_MS, rel=0.02)


def shifted(lines: list[MadeLine]) -> list[MadeLine]:
    for line in lines:
        line.begin_ns = 1_000_000
    return lines


def test_batches_that_python_asks_for_are_no_steps_of_a_graph(tmp_path: pathlib.Path) -> None:
    """Two steps of a second, before each of which the program takes four batches."""
    python = MadeLine("python", number=1)
    for step in range(3):
        for batch in range(4):
            at = 1100.0 * step + 10.0 * batch
            python.events += [
                MadeEvent("EagerLocalExecute: IteratorGetNext", at, 5.0),
                MadeEvent("IteratorGetNextOp::DoCompute", at + 0.1, 4.0),
            ]
        python.events += called(1100.0 * step + 50.0, 1000.0)
    assert judged(tmp_path, [python]).steps.found_by == "calls"


def test_operations_of_a_pipelines_python_are_no_steps(tmp_path: pathlib.Path) -> None:
    """A py_function starts operations from Python, on a thread of its own."""
    python = MadeLine("python", number=1)
    for at in range(200):
        python.events.append(MadeEvent(f"EagerLocalExecute: {('Add', 'Mul', 'Neg')[at % 3]}", 3.0 * at, 2.0))
    report = judged(tmp_path, [python, *graph()])
    assert (report.steps.found_by, report.steps.count) == ("graph", 29)
    assert report.verdict == "compute_bound"


def test_two_batches_in_a_step_are_no_long_call(tmp_path: pathlib.Path) -> None:
    """Three steps, each of which asks two datasets."""
    python = MadeLine("python", [each for step in range(3) for each in called(100.0 * step, 99.0)], number=1)
    asks = MadeLine("tf_Compute/7", number=2)
    for step in range(3):
        asks.events += [
            MadeEvent("IteratorGetNextOp::DoCompute", 100.0 * step + at, 1.0, {"id": step}) for at in (1.0, 50.0)
        ]
    report = judged(tmp_path, [python, asks])
    assert (report.verdict, report.steps.found_by) == ("too_short", "calls")
