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


def test_a_function_that_only_its_runs_tell(tmp_path: pathlib.Path) -> None:
    """Older releases do not mark the calls from Python; each graph of a function has a number."""
    runs = [MadeEvent(f"EagerLocalExecute: __inference_train_step_{at + 7}", 20.0 * at, 19.0) for at in range(13)]
    steps = found(tmp_path, [MadePlane("/host:CPU", [MadeLine("python", runs)])])
    assert (steps.found_by, steps.name, {call.name for call in steps.calls}) == ("calls", "train_step", {"train_step"})
