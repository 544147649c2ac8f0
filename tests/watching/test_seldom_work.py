"""What a training does now and then besides its steps: told from looks at its main thread, and joined with a recording."""

from __future__ import annotations

import os
import pathlib
import random
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from made_watch import recording

from tfgpu_doctor.host import Host
from tfgpu_doctor.tracing import (
    Found,
    StepTimes,
    besides_steps,
    looks_besides_steps,
)  # fmt: skip
from tfgpu_doctor.tracing.gpu_work import GpuWork
from tfgpu_doctor.watching.agent import LOOK_ANSWER_S, Look, Stack
from tfgpu_doctor.watching.captures import Capture
from tfgpu_doctor.watching.hang_diagnosis import Diagnosis, HangEvidence
from tfgpu_doctor.watching.history import WatchOptions
from tfgpu_doctor.watching.reading import Reading
from tfgpu_doctor.watching.reporter import Reporter
from tfgpu_doctor.watching.reporting import make_watch_report
from tfgpu_doctor.watching.seldom_work import SeldomWork, joined
from tfgpu_doctor.watching.watcher import Watcher

SITE = "/env/lib/python3.13/site-packages"
MAIN = ("/home/me/train.py", 90, "<module>")
EXECUTE = (f"{SITE}/tensorflow/python/eager/execute.py", 53, "quick_execute")
FIT = (f"{SITE}/keras/src/backend/tensorflow/trainer.py", 399, "fit")
CALLBACKS = (f"{SITE}/keras/src/callbacks/callback_list.py", 172, "on_epoch_end")
WRAPPER = (f"{SITE}/keras/src/utils/traceback_utils.py", 117, "error_handler")
SAVER = (f"{SITE}/tensorflow/python/checkpoint/functional_saver.py", 560, "save")
H5PY = (f"{SITE}/h5py/_hl/dataset.py", 1, "write_direct")
STEP: Stack = (EXECUTE, FIT, MAIN)
SAVES: Stack = (
    H5PY,
    (f"{SITE}/keras/src/saving/saving_api.py", 239, "save_weights"),
    ("/home/me/train.py", 31, "keep"),
    CALLBACKS,
    FIT,
    MAIN,
)


LOG: Stack = (("/home/me/train.py", 60, "log"), MAIN)
HABIT = [*[STEP] * 6, *[SAVES] * 4] * 7
GPU = GpuWork(
    device="/device:GPU:0", gpus=1, compute_ms=6.0, collectives_ms=0.0, copies_ms=0.0, kernels=90.0, median_kernel_us=9.0,
    in_16_bit=None, compute_capability="8.0",
)  # fmt: skip


@pytest.mark.parametrize(
    ("stack", "name"),
    [
        (STEP, None),
        ((EXECUTE, ("/home/me/train.py", 12, "train_step"), FIT, MAIN), None),  # a step of the user's below Keras
        ((("/home/me/train.py", 12, "train_step"), FIT, MAIN), None),
        (SAVES, "keep"),
        ((EXECUTE, (f"{SITE}/keras/src/callbacks/model_checkpoint.py", 179, "_save_model"), CALLBACKS, FIT, MAIN), "_save_model"),
        ((EXECUTE, (f"{SITE}/keras/src/backend/tensorflow/trainer.py", 484, "evaluate"), WRAPPER, FIT, MAIN), "evaluate"),
        ((EXECUTE, (f"{SITE}/keras/src/backend/tensorflow/trainer.py", 484, "evaluate"), WRAPPER, ("/home/me/train.py", 7, "test"), MAIN), "test"),
        ((EXECUTE, SAVER, (f"{SITE}/tensorflow/python/checkpoint/checkpoint.py", 9, "write"), ("/home/me/train.py", 55, "run")), "run"),
        ((EXECUTE, (f"{SITE}/tensorflow/python/checkpoint/checkpoint.py", 9, "write"), ("/home/me/train.py", 55, "run")), "run"),
        ((EXECUTE, (f"{SITE}/tensorflow/python/summary/writer.py", 9, "write"), ("/home/me/train.py", 55, "run")), None),
        (((f"{SITE}/numpy/lib/io.py", 3, "savetxt"), ("/home/me/train.py", 60, "log"), MAIN), "log"),
        ((("/usr/lib/python3.13/threading.py", 300, "wait"),), None),
        ((), None),
    ],
)  # fmt: skip
def test_what_is_no_step_has_a_place(stack: Stack, name: str | None) -> None:
    place = besides_steps(stack)
    assert (place and place[2]) == name


def capture(host: float, *causes: Found, pid: int = 7, gpu: bool = False, besides: int = 0, looks: int = 0) -> Capture:
    report = recording(*causes, healthy=not causes)
    shares = msgspec.structs.replace(report.shares, host=host)
    report = msgspec.structs.replace(report, shares=shares, gpu=GPU if gpu else None)
    return Capture(1.0, pid, report, besides, looks)


def closely(seldom: SeldomWork, looks: list[Stack], begin: int = 0) -> None:
    """Give it five looks a second, each of them twice: a look that was taken already counts once."""
    for number, stack in enumerate(looks, begin):
        for _ in range(2):
            seldom.look(Look((number + 1) / 5, stack, str(number)))


def watched(looks: list[Stack], recorded: Capture | float = 0.0, *, a_second: int = 1) -> SeldomWork:
    """`looks`: one or five a second."""
    seldom = SeldomWork()
    seldom.recorded(recorded if isinstance(recorded, Capture) else capture(recorded))
    closely(seldom, [stack for stack in looks for _ in range(5 // a_second)])
    return seldom


def test_what_comes_again_and_again_is_told_with_its_place_and_its_share() -> None:
    found = watched(HABIT, 0.02).found()
    assert found
    assert (found.label, found.confidence) == ("uneven_steps", "high")
    assert found.share == pytest.approx(24 / 66 - 0.02)
    assert found.words == {"what": "keep (train.py:31)"}
    assert found.evidence[0] == "36% of the looks found keep (train.py:31)"
    assert "of 66 looks" in found.evidence[1]
    assert "in 6 pauses" in found.evidence[1]


@pytest.mark.parametrize(
    ("looks", "recorded"),
    [
        ([*[STEP] * 6, *[SAVES] * 4], 0.02),  # too few looks
        ([*[STEP] * 20, *[SAVES] * 20, *[STEP] * 20, *[SAVES] * 20], 0.02),  # two pauses may be the first ones
        ([*[STEP] * 6, *[SAVES] * 4] * 7, 0.35),  # the recordings hold it
        ([*[STEP] * 12, SAVES] * 40, 0.02),  # little
        # two, beside short ones of another function
        ([*[STEP] * 9, LOG] * 2 + [*[SAVES] * 9, *[STEP] * 9, LOG, *[SAVES] * 9, *[STEP] * 9], 0.02),
        ([*[*[STEP] * 20, SAVES] * 2, *[STEP] * 10, *[SAVES] * 21], 0.02),  # short ones, and one long pause at the end
        ([STEP] * 100, 0.0),
    ],
)
def test_what_is_no_habit_is_not_told(looks: list[Stack], recorded: float) -> None:
    assert watched(looks, recorded).found() is None


def test_the_looks_of_a_recording_are_counted(tmp_path: pathlib.Path) -> None:
    rows = [[second, stack, []] for second, stack in enumerate(HABIT)]
    file = tmp_path / "python_samples.json"
    assert looks_besides_steps(str(tmp_path)) == (0, 0)
    file.write_bytes(msgspec.json.encode({"began_ns": 1, "every_s": 0.01, "samples": rows}))
    assert looks_besides_steps(str(tmp_path)) == (28, 70)
    file.write_text('{"began_ns": 1')
    assert looks_besides_steps(str(tmp_path)) == (0, 0)


def test_a_training_that_was_called_healthy_before_ends_with_what_comes_seldom(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verdict that held longest was told before there were enough looks."""
    agent = SimpleNamespace(
        pid=os.getpid(), look=None, asked_s=None, over=None, lost=False, recording="", ask=lambda *, others: None
    )
    watcher = Watcher(
        Host(), agent.pid, WatchOptions("x"), folder=str(tmp_path), agents=list, told=Reporter(live=False)
    )
    try:
        watcher.began_s -= 45
        quiet = Reading(at_s=0.0, cpu=1.0, cpus=2.0, queued=0.0, others_cpu=0.0)
        monkeypatch.setattr(watcher._signals, "look", lambda: quiet)
        watcher._take(capture(0.02, pid=agent.pid))
        for second, stack in enumerate([*[STEP] * 22, *([SAVES] * 2 + [STEP]) * 7]):
            closely(watcher._seldom, [stack] * 5, 5 * second)
            watcher._look(watcher.began_s + second, [agent])
        report = make_watch_report(watcher, exit_code=0)
    finally:
        watcher.end()
    before, after = report.timeline
    assert (before.verdict, after.verdict) == ("compute_bound", "uneven_steps")
    assert after.at_s - before.at_s > 45 / 2
    assert (report.verdict, report.healthy, report.causes[0].label) == ("uneven_steps", False, "uneven_steps")
    assert "keep (train.py:31)" in report.title


@pytest.mark.parametrize(("label", "told"), [("host_callback", False), ("host_python", False), ("eager", True)])
def test_work_after_each_step_that_computes_does_not_come_seldom(label: str, told: bool) -> None:
    """The breakdown calls what it has TensorFlow compute computation; the cause knows that it is none of the steps."""
    looks = [STEP, SAVES, SAVES, SAVES] * 20
    assert (watched(looks, capture(0.02, Found(label, "high", 0.8, []))).found() is not None) == told


def test_where_another_thread_trains_nothing_is_told() -> None:
    assert watched([*[SAVES] * 15, STEP] * 10).found() is None


def test_what_a_recording_tells_is_not_told_twice() -> None:
    assert watched(HABIT, capture(0.02, Found("uneven_steps", "high", 0.3, ["e"]))).found() is None


@pytest.mark.parametrize(
    ("besides", "looks", "told"),
    [(6, 15, False), (0, 0, False), (0, 5, False), (0, 40, True), (12, 40, False)],
)
def test_python_beside_a_gpu_that_computes_is_no_pause(besides: int, looks: int, told: bool) -> None:
    """The recording calls that time computation; the looks of the recording tell that it is in each step."""
    found = watched(HABIT, capture(0.0, gpu=True, besides=besides, looks=looks)).found()
    assert (found is not None) is told


def test_what_was_told_does_not_come_and_go() -> None:
    habit, later = HABIT, [STEP] * 60
    told, untold = watched(habit, 0.06), watched([*habit, *later], 0.06)
    assert told.found()
    closely(told, [stack for stack in later for _ in range(5)], 5000)
    assert (told.found() is not None, untold.found()) == (True, None)
    told.recorded(capture(0.3))
    assert told.found() is None


def test_another_process_begins_anew() -> None:
    seldom = watched(HABIT)
    seldom.recorded(capture(0.0, pid=8))
    assert seldom.found() is None


def own(*lines: tuple[str, int]) -> Stack:
    """A look at TensorFlow below a loop of the program's own; the places are the outermost first."""
    return (EXECUTE, *(("/home/me/loop.py", line, name) for name, line in reversed(lines)))


STEPS = [
    own(("main", 90), ("train", 40)),
    own(("main", 90), ("train", 41)),
    own(("main", 90), ("train", 41), ("loss", 7)),
]
VALIDATION = [own(("main", 91), ("validate", 60)), own(("main", 91), ("validate", 61), ("loss", 7))]


def second_loops(drawn: random.Random, steps: list[Stack], other: list[Stack], seconds: float) -> list[Stack]:
    """Three minutes of looks, five a second, of a loop that comes every seven seconds and lasts as long as given."""
    looks: list[Stack] = []
    while len(looks) < 900:
        looks += drawn.choices(steps, k=drawn.randint(20, 50)) + drawn.choices(other, k=round(5 * seconds))
    return looks


@pytest.mark.parametrize("flat", [False, True])
def test_a_second_loop_of_the_programs_own_is_told(flat: bool) -> None:
    """Whether it is a function of its own or lines of the same one."""
    steps = [own(("main", line)) for line in (40, 41, 42)] if flat else STEPS
    other = [own(("main", line)) for line in (95, 96)] if flat else VALIDATION
    looks = second_loops(random.Random(3), steps, other, 2.4)
    found = watched(looks, a_second=5).found()
    assert found
    assert 0.2 < found.share < 0.32
    assert ("main (loop.py:9" if flat else "validate (loop.py:6") in found.words["what"]


@pytest.mark.parametrize(("step_ms", "told"), [(90.0, True), (300.0, True), (600.0, False)])
def test_steps_that_last_as_long_as_a_stretch_are_none(step_ms: float, told: bool) -> None:
    times = StepTimes(count=9, median_ms=step_ms, mean_ms=step_ms, found_by="calls")
    recorded = Capture(1.0, 7, msgspec.structs.replace(recording(healthy=True), steps=times))
    looks = second_loops(random.Random(4), STEPS, VALIDATION, 2.4)
    assert (watched(looks, recorded, a_second=5).found() is not None) is told


def test_training_itself_is_not_told_where_validation_takes_longer() -> None:
    assert watched([*[STEPS[1]] * 3, *[VALIDATION[1]] * 7] * 20).found() is None


def test_of_two_loops_that_take_as_much_neither_is_told() -> None:
    assert watched([*[own(("main", 40))] * 5, *[own(("main", 95))] * 5] * 20).found() is None


@pytest.mark.parametrize(
    ("name", "training"),
    [("train_critic", True), ("fit_head", True), ("update_generator", True), ("validation_step", False), ("sample", False),
     ("test_epoch", False), ("<module>", False), ("retrain_one_epoch", True)],
)  # fmt: skip
def test_a_function_is_training_by_its_name(name: str, training: bool) -> None:
    looks = [*[STEPS[1]] * 8, *[own(("main", 92), (name, 70))] * 3] * 20
    assert (watched(looks).found() is None) is training


def asked_of(looks: list[Stack], seconds: tuple[int, ...]) -> int:
    """How often something is told of looks, five a second, if it is asked after so many seconds."""
    seldom, told, begin = watched([]), 0, 0
    for second in seconds:
        closely(seldom, looks[begin : 5 * second], begin)
        told, begin = told + (seldom.found() is not None), 5 * second
    return told


@pytest.mark.parametrize("trainings", [10, pytest.param(40, marks=pytest.mark.slow)])
def test_lines_of_a_step_are_rarely_told(trainings: int) -> None:
    """The looks of trainings of ten minutes, in loops of two to five lines that take turns within a fifth of a second."""
    drawn, accused = random.Random(11), 0
    for _ in range(trainings):
        lines = [own(("main", 90), ("train", line)) for line in range(40, 40 + drawn.randint(2, 5))]
        weights = [drawn.random() for _ in lines]
        accused += asked_of(drawn.choices(lines, weights, k=3000), (30, 60, 120, 300, 600)) > 0
    assert accused <= trainings // 40


@pytest.mark.parametrize("trainings", [25, pytest.param(100, marks=pytest.mark.slow)])
def test_healthy_trainings_are_rarely_accused(trainings: int) -> None:
    """The looks of trainings of ten minutes, in which 5 % of the time goes to other work in pauses of 1 to 3 s."""
    drawn, accused = random.Random(7), 0
    for _ in range(trainings):
        looks: list[Stack] = []
        while len(looks) < 3000:
            looks += [STEP] * drawn.randint(5, 375) + [SAVES] * drawn.randint(5, 15)
        accused += asked_of(looks, (30, 60, 120, 300, 600)) > 0
    assert accused <= trainings // 100


def test_the_recorded_shares_are_those_of_the_rest() -> None:
    report = joined(recording(healthy=True), Found("uneven_steps", "high", 0.4, ["e"]))
    assert (report.verdict, report.healthy, report.title) == ("uneven_steps", False, report.causes[0].title)
    assert sum(msgspec.structs.astuple(report.shares)) == pytest.approx(1)
    assert (report.shares.compute, report.shares.host) == (0.3, 0.46)
    assert report.steps.mean_ms == pytest.approx(10 / 0.6, abs=1e-3)
    assert report.gain.step_ms_at_best == 10.0


def test_a_larger_cause_stays_the_verdict() -> None:
    before = recording(Found("input_python", "high", 0.6, ["e"]), healthy=False)
    report = joined(before, Found("uneven_steps", "high", 0.25, ["e"]))
    assert (
        [each.label for each in report.causes] == [report.verdict, "uneven_steps"] == ["input_python", "uneven_steps"]
    )
    assert report.causes[0].share == pytest.approx(0.45)
    assert (report.steps.mean_ms, report.gain.step_ms_at_best) == (13.3333, 10.0)
    assert report.healthy is False


def test_little_stands_beside() -> None:
    report = joined(recording(healthy=True), Found("uneven_steps", "high", 0.15, ["e"]))
    assert (report.verdict, report.healthy) == ("compute_bound", True)
    assert [each.label for each in report.causes] == ["uneven_steps"]


class Answering:
    """A process that answers each look at once, as it was asked; its main thread waits for a lock that another holds."""

    def __init__(self, key: Callable[[], str]) -> None:
        self.pid, self._key, self._others = os.getpid(), key, False
        self.look: Look | None = None
        self.asked_s: float | None = None
        self.over, self.lost, self.recording, self.unable = None, False, "", ""
        self.answer_s = LOOK_ANSWER_S

    def ask(self, *, others: bool) -> None:
        if self.asked_s is None:
            self.asked_s, self._others = 1.0, others

    def heard(self, now: float) -> list[Any]:
        if self.asked_s is not None:
            holder: Stack = (("/home/me/train.py", 70, "keeper"),)
            self.look, self.asked_s = Look(now, STEP, self._key(), (holder,) if self._others else None), None
        return [self]


@pytest.mark.parametrize("goes_on", [True, False])
def test_looks_at_stacks_do_not_disturb_the_hang_watch(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, goes_on: bool
) -> None:
    """A program that polls executes other calls, and hangs not; of one that hangs the other threads are seen as well."""
    now = [1000.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], time=lambda: now[0])
    monkeypatch.setattr("tfgpu_doctor.watching.watcher.time", clock)
    monkeypatch.setattr("tfgpu_doctor.watching.hanging.main_progress", lambda *_: (1.0, 5))
    seen: list[Look | None] = []

    def diagnose(given: HangEvidence) -> Diagnosis:
        seen.append(given.look)
        return Diagnosis("unknown")

    monkeypatch.setattr("tfgpu_doctor.watching.hang_examination.diagnose_hang", diagnose)
    agent = Answering(lambda: str(now[0] // 3) if goes_on else "same")
    watcher = Watcher(
        Host(), agent.pid, WatchOptions("x", from_outside=True), folder=str(tmp_path),
        agents=lambda: agent.heard(now[0]), told=Reporter(live=False),
    )  # fmt: skip
    try:
        quiet = Reading(at_s=0.0, cpu=0.0, cpus=2.0, queued=0.0, others_cpu=0.0)
        monkeypatch.setattr(watcher._signals, "look", lambda: quiet)
        watcher._take(capture(0.02, pid=agent.pid))
        for _ in range(5 * 100):
            now[0] += 0.21
            watcher.tick()
            while (examined := watcher.hanging._examining) and examined._thread.is_alive():
                time.sleep(0.001)  # the clock of the test does not wait for the thread
    finally:
        watcher.end()
    assert (watcher.hang is None) is goes_on
    assert [look and look.others for look in seen] == ([] if goes_on else [((("/home/me/train.py", 70, "keeper"),),)])
