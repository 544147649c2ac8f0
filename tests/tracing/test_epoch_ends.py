"""The main thread stands still while TensorFlow removes the iterator of the epoch that ended."""

from __future__ import annotations

import json
import pathlib
import shlex

import made_trace
import pytest
from installed import skip_without_tensorflow
from made_trace import MadeEvent, MadePlane, Ref, training
from recorded_program import is_too_busy, record_program

from tfgpu_doctor.tracing.python_samples import FILE
from tfgpu_doctor.tracing.result import TraceReport

TF = "/x/site-packages/tensorflow/python/"
MAIN = ("/home/me/train.py", 90, "main")
IN_FIT = [(TF + "ops/gen_resource_variable_ops.py", 534, "read_variable_op"), MAIN]
NEXT = [(TF + "data/ops/iterator_ops.py", 7, "_next_internal"), MAIN]
PROGRAM = pathlib.Path(__file__).with_name("short_epochs.py")
_RECORDINGS, _WITH_PAUSES = 4, 2.0  # a busy machine alone makes the mean step less than twice the median
Stack = list[tuple[str, int, str]]


def an_epoch_ends(*during: MadeEvent, made: float | None = 317.0) -> list[MadePlane]:
    """Eleven steps of 20 ms; for 200 ms after the sixth there are only these events; a new iterator at `made` ms."""
    planes = training(steps=11, step_ms=20.0, compute_ms=18.0)
    for line in planes[0].lines:
        for event in line.events:
            event.begin_ms += 200.0 * (event.begin_ms >= 120.0)
    iterator = [MadeEvent("EagerLocalExecute: MakeIterator", made, 2.0)] if made is not None else []
    planes[0].lines[0].events += [*during, *iterator]
    return planes


def judged(folder: pathlib.Path, planes: list[MadePlane], *stacks: Stack, every_ms: int = 10) -> TraceReport:
    """Looks during the pause find the stacks in turn."""
    made_trace.save(folder, planes)
    rows = [[round(at * 1e6), stacks[place % len(stacks)], []] for place, at in enumerate(range(121, 318, every_ms))]
    before = [[round(at * 1e6), NEXT, []] for at in (1, 41, 81)]
    (folder / FILE).write_text(json.dumps({"began_ns": 0, "every_s": 0.01, "samples": before + rows}))
    return made_trace.judged(folder)[0]


PLACES: dict[str, tuple[list[MadePlane], Stack]] = {
    "in TensorFlow": (an_epoch_ends(), IN_FIT),
    "in a loop over the dataset": (an_epoch_ends(), [MAIN]),
    "in a context that TensorFlow leaves": (an_epoch_ends(), [("/usr/lib/python3.12/contextlib.py", 144, "__exit__"), *IN_FIT]),
    "where Python looks for garbage, some steps later": (an_epoch_ends(made=41.0), IN_FIT),
    "inside of a call": (an_epoch_ends(MadeEvent("train_step", 119.0, 219.0, {"tf_function_call": Ref("notTraced-nonXla")})), IN_FIT),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_it_is_named(tmp_path: pathlib.Path, name: str) -> None:
    planes, stack = PLACES[name]
    report = judged(tmp_path, planes, stack)
    assert report.verdict == "epoch_end"
    (cause,) = report.causes
    assert cause.share == pytest.approx(0.45, abs=0.05)
    assert cause.evidence[0].startswith("in 1 of 11 steps the main thread stands still for 19")
    assert "repeat()" in cause.fix.text


OTHERS: dict[str, tuple[list[MadePlane], list[Stack]]] = {
    "no epoch ends": (an_epoch_ends(made=None), [IN_FIT]),
    "Python goes on": (an_epoch_ends(), [IN_FIT, [(TF + "ops/math_ops.py", 3, "cast"), MAIN]]),
    "the user's code": (an_epoch_ends(), [[("/home/me/train.py", 12, "evaluate"), MAIN]]),
    "another library": (an_epoch_ends(), [[("/x/site-packages/h5py/_hl/dataset.py", 5, "write"), *IN_FIT]]),
    "an array is copied": (an_epoch_ends(), [[(TF + "framework/constant_op.py", 5, "convert_to_eager_tensor"), *IN_FIT]]),
    "a result is copied": (an_epoch_ends(), [[(TF + "framework/ops.py", 5, "_numpy"), *IN_FIT]]),
    "the progress bar is printed": (an_epoch_ends(), [[("/x/site-packages/keras/src/utils/io_utils.py", 5, "print_msg"), *IN_FIT]]),
    "an operation runs": (an_epoch_ends(MadeEvent("EagerLocalExecute: MatMul", 121.0, 195.0)), [IN_FIT]),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_it_is_something_else(tmp_path: pathlib.Path, name: str) -> None:
    planes, stacks = OTHERS[name]
    assert "epoch_end" not in {each.label for each in judged(tmp_path, planes, *stacks).causes}


def test_one_end_of_an_epoch_does_not_hide_what_holds_up_every_step(tmp_path: pathlib.Path) -> None:
    """A short recording may hold it by chance."""
    planes = training(steps=11, step_ms=20.0, input_ms=14.0, compute_ms=4.0, stage="Iterator::Root::Prefetch::Map")
    for line in planes[0].lines:
        for event in line.events:
            event.begin_ms += 200.0 * (event.begin_ms >= 120.0)
    planes[0].lines[0].events.append(MadeEvent("EagerLocalExecute: MakeIterator", 317.0, 2.0))
    report = judged(tmp_path, planes, IN_FIT)
    assert [each.label for each in report.causes] == ["input_serial_map", "epoch_end"]
    assert report.causes[0].share < report.causes[1].share


def test_looks_that_were_held_up_themselves_tell_nothing(tmp_path: pathlib.Path) -> None:
    """A control group that is throttled stops the thread that looks, too."""
    report = judged(tmp_path, an_epoch_ends(), IN_FIT, every_ms=65)
    assert "epoch_end" not in {each.label for each in report.causes}


@pytest.mark.tensorflow
@pytest.mark.slow
def test_a_real_training_of_short_epochs(tmp_path: pathlib.Path) -> None:
    """The pauses come by chance: those that a recording holds are named."""
    skip_without_tensorflow()
    for number in range(_RECORDINGS):
        folder = tmp_path / str(number)
        folder.mkdir()
        done = record_program(folder, shlex.quote(str(PROGRAM)), "--seconds", "8", "--format", "json")
        document = json.loads(done.stdout)
        steps, labels = document["steps"], {cause["label"] for cause in document["causes"]}
        assert "uneven_steps" not in labels
        if "epoch_end" in labels:
            return
        # Where other work takes the CPUs for seconds, these are the pauses.
        assert steps["mean_ms"] <= _WITH_PAUSES * steps["median_ms"] or is_too_busy(), document
    pytest.skip(f"TensorFlow made no pause in {_RECORDINGS} recordings, or this machine is too busy to tell")


@pytest.mark.tensorflow
@pytest.mark.slow
def test_one_iterator_for_all_epochs_mends_it(tmp_path: pathlib.Path) -> None:
    skip_without_tensorflow()
    done = record_program(tmp_path, f"{shlex.quote(str(PROGRAM))} --mended", "--format", "json")
    document = json.loads(done.stdout)
    assert document["steps"]["count"] > 0
    assert "epoch_end" not in {cause["label"] for cause in document["causes"]}
