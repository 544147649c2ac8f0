"""The steps are found by what tells them, and by names that only Keras has."""

from __future__ import annotations

import pathlib

import made_trace
import pytest
from made_trace import MadeEvent, MadeLine, MadePlane

from tfgpu_doctor.tracing.reading import find_file, read_profile
from tfgpu_doctor.tracing.step_search import find_steps
from tfgpu_doctor.tracing.steps import Steps


def found(folder: pathlib.Path, planes: list[MadePlane]) -> Steps:
    made_trace.save(folder, planes)
    return find_steps(read_profile(find_file(str(folder))))


@pytest.mark.parametrize(("name", "keras"), [("train_step", False), ("one_step_on_data", True)])
def test_batches_of_keras_are_known_by_its_functions(tmp_path: pathlib.Path, name: str, keras: bool) -> None:
    """Steps that are found by their batches: a user's own function whose name has "step" in it is none of Keras'."""
    events = [MadeEvent(name, 1.0, 2.0)]
    for at in range(13):
        events.append(MadeEvent("EagerLocalExecute: IteratorGetNext", 20.0 * at, 0.1))
        events.append(MadeEvent("EagerLocalExecute: MatMul", 20.0 * at + 1.0, 2.0))
    steps = found(tmp_path, [MadePlane("/host:CPU", [MadeLine("python", events)])])
    assert (steps.found_by, steps.count, steps.keras) == ("batches", 12, keras)


@pytest.mark.parametrize("stats", [{}, {"epoch_num": 0}])
def test_markers_of_keras_are_known_by_the_epoch(tmp_path: pathlib.Path, stats: dict[str, made_trace.Stat]) -> None:
    """The guide for profiles calls a user's own marker train, too."""
    planes = made_trace.training()
    planes[0].lines[0].events += [MadeEvent("train", 20.0 * at, 19.0, {"step_num": at, **stats}) for at in range(13)]
    steps = found(tmp_path, planes)
    assert (steps.found_by, steps.name, steps.keras) == ("markers", "train", bool(stats))


def test_markers_of_the_validation_that_only_their_statistics_tell(tmp_path: pathlib.Path) -> None:
    """TensorFlow 2.2 calls the markers of both TraceContext; the steps of the validation are longer here."""
    markers = [
        MadeEvent("TraceContext", begin, length, {"step_num": at, "graph_type": kind})
        for kind, first, length in (("train", 0.0, 3.0), ("test", 100.0, 50.0))
        for at, begin in enumerate(first + (length + 1.0) * place for place in range(5))
    ]
    runs = [MadeEvent("EagerLocalExecute: __inference_f_7", each.begin_ms, each.duration_ms) for each in markers]
    steps = found(tmp_path, [MadePlane("/host:CPU", [MadeLine("python", runs + markers)])])
    assert (steps.found_by, steps.name, steps.count, steps.median_ms) == ("markers", "train", 4, 4.0)


@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize(("later", "end"), [(None, 90.0), (60.0, 60.0)])
def test_the_only_step_lasts_while_the_gpu_does_its_work(
    tmp_path: pathlib.Path, marked: bool, later: float | None, end: float
) -> None:
    """The host has started it all after 20 ms; what the GPU does after the next call has begun may be the next call's."""
    call: dict[str, made_trace.Stat] = (
        {"step_num": 1} if marked else {"tf_function_call": made_trace.Ref("notTraced-nonXla")}
    )
    events = [MadeEvent("train", 0.0, 20.0, call), MadeEvent("EagerLocalExecute: __inference_train_7", 1.0, 18.0)]
    if later:
        events.append(MadeEvent("test_function", later, 5.0, call))
    kernels = [MadeEvent("gemm", 5.0 + 10.0 * at, 5.0) for at in range(9)]
    waits = MadeEvent("cuStreamSynchronize", 90.0, 500.0)
    gpu = MadePlane("/device:GPU:0", [MadeLine("Stream #7(Compute)", [*kernels, waits])])
    steps = found(tmp_path, [MadePlane("/host:CPU", [MadeLine("python", events)]), gpu])
    assert (steps.name, steps.intervals) == ("train", [(0.0, end)])


def test_a_function_that_only_its_runs_tell(tmp_path: pathlib.Path) -> None:
    """Older releases do not mark the calls from Python; each graph of a function has a number."""
    runs = [MadeEvent(f"EagerLocalExecute: __inference_train_step_{at + 7}", 20.0 * at, 19.0) for at in range(13)]
    steps = found(tmp_path, [MadePlane("/host:CPU", [MadeLine("python", runs)])])
    assert (steps.found_by, steps.name, {call.name for call in steps.calls}) == ("calls", "train_step", {"train_step"})


def test_what_predicts_is_no_step_and_building_its_pipeline_is_not_eager(tmp_path: pathlib.Path) -> None:
    """Keras' `predict` after each step, in a callback: two batches, for which it makes a pipeline of many operations."""
    events = []
    for at in range(13):
        begin, stats = 60.0 * at, {"tf_function_call": made_trace.Ref("notTraced-nonXla")}
        events.append(MadeEvent("multi_step_on_iterator", begin, 4.0, dict(stats)))
        for place in range(60):
            name = "MakeIterator" if place == 59 else "OptionsDataset" if place % 2 else "ParallelMapDatasetV2"
            events.append(MadeEvent(f"EagerLocalExecute: {name}", begin + 5.0 + 0.5 * place, 0.4))
        events += [MadeEvent("one_step_on_data_distributed", begin + at_ms, 9.0, dict(stats)) for at_ms in (36.0, 46.0)]
    steps = found(tmp_path, [MadePlane("/host:CPU", [MadeLine("python", events)])])
    assert (steps.found_by, steps.name, steps.count) == ("calls", "multi_step_on_iterator", 12)


def of_keras(*, slopes: bool) -> list[MadePlane]:
    """Four steps of training, then eight of validation, three times: Keras calls both by the same name."""
    python, worker = MadeLine("python", number=1), MadeLine("tf_Compute/7", number=2)
    name = "multi_step_on_iterator"
    for at in range(36):
        begin, trains = 10.0 * at, at % 12 < 4
        stats: dict[str, made_trace.Stat] = {"id": at}
        python.events += [
            MadeEvent(name, begin, 9.0, {"tf_function_call": made_trace.Ref("notTraced-nonXla")}),
            MadeEvent(f"EagerLocalExecute: __inference_{name}_{100 if trains else 200}", begin + 0.1, 8.8),
            MadeEvent("FunctionRun", begin + 0.2, 8.6, stats),
        ]
        inside = "gradient_tape/dense/MatMul:MatMul" if trains and slopes else "dense/MatMul:MatMul"
        worker.events += [
            MadeEvent("ExecutorState::Process", begin + 0.3, 8.0, stats),
            MadeEvent(inside, begin + 0.4, 7.0),
        ]
    return [MadePlane("/host:CPU", [python, worker])]


def test_validation_of_keras_is_no_step(tmp_path: pathlib.Path) -> None:
    steps = found(tmp_path, of_keras(slopes=True))
    assert (steps.name, steps.count, steps.keras) == ("multi_step_on_iterator", 11, True)
    assert {call.name for call in steps.calls} == {"multi_step_on_iterator", "multi_step_on_iterator of validation"}
    report, _ = made_trace.judged(tmp_path)
    assert (report.verdict, report.title) == (
        "uneven_steps", "Some steps wait for other work: multi_step_on_iterator of validation",
    )  # fmt: skip


def test_graphs_of_which_none_computes_gradients_are_steps_alike(tmp_path: pathlib.Path) -> None:
    """One that XLA compiled shows no operations; of several shapes of a batch each has a graph."""
    steps = found(tmp_path, of_keras(slopes=False))
    assert (steps.count, {call.name for call in steps.calls}) == (35, {"multi_step_on_iterator"})


@pytest.mark.parametrize(("steps", "verdict"), [(3, "too_short"), (4, "too_short"), (5, "uneven_steps")])
def test_one_of_few_steps_that_takes_most_of_the_time_tells_nothing(
    tmp_path: pathlib.Path, steps: int, verdict: str
) -> None:
    """The end of an epoch lies in the third: with three steps it looks like work after each of them."""
    begins = [0.0, 4.0, 8.0, *(300.0 + 4.0 * at for at in range(steps - 2))]
    stats: dict[str, made_trace.Stat] = {"tf_function_call": made_trace.Ref("notTraced-nonXla")}
    events = [MadeEvent("train_step", begin, 3.5, stats) for begin in begins]
    events += [MadeEvent("EagerLocalExecute: __inference_train_step_7", begin + 0.1, 3.3) for begin in begins]
    found(tmp_path, [MadePlane("/host:CPU", [MadeLine("python", events)])])
    report, _ = made_trace.judged(tmp_path)
    assert (report.verdict, report.steps.count) == (verdict, steps)
    if verdict == "too_short":
        assert report.why.startswith(
            f"one of its {steps} steps takes 292.0 ms, the others 4.0: whether that comes again"
        )


def test_a_first_step_that_compiles_is_the_start_of_a_training_and_no_single_long_step(tmp_path: pathlib.Path) -> None:
    stats: dict[str, made_trace.Stat] = {"tf_function_call": made_trace.Ref("notTraced-nonXla")}
    begins = [0.0, 900.0, 920.0, 940.0]
    events = [MadeEvent("train_step", begin, 18.0, stats) for begin in begins]
    events += [MadeEvent("EagerLocalExecute: __inference_train_step_7", begin + 0.1, 17.0) for begin in begins]
    events.append(MadeEvent("tf.function-graph_building", 18.5, 880.0))
    found(tmp_path, [MadePlane("/host:CPU", [MadeLine("python", events)])])
    report, _ = made_trace.judged(tmp_path)
    assert report.verdict == "warm_up"
    assert report.why.startswith("1 of 3 steps build graphs or compile: this is the start of the training")
