"""When a training is recorded, and what becomes of a recording; the profiles are real."""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
import threading
import time

import msgspec
import pytest
from made_agent import RECORDED, MadeAgent

from tfgpu_doctor.tracing import TraceReport, judge_profile
from tfgpu_doctor.watching.captures import (
    ANSWER_S,
    FIRST_S,
    INTERVALS_S,
    LENGTH_S,
    LIMIT_BYTES,
    LONGEST_S,
    MOST_BYTES,
    SHORTEST_S,
    UNKNOWN_S,
    Capture,
    Captures,
)  # fmt: skip


def run(
    captures: Captures, agents: list[MadeAgent], seconds: float, *, begin: float = 0.0, changed: bool = False
) -> list[Capture]:
    """Let that many seconds pass, five ticks each; a thread that reads is waited for."""
    found = []
    for tick in range(round(seconds * 5)):
        got = captures.tick(begin + tick / 5, agents, changed=changed)
        while captures._reading is not None and not captures._reading.done():
            time.sleep(0.01)
        if got:
            found.append(got)
    return found


@pytest.fixture
def captures(tmp_path: pathlib.Path) -> Captures:
    if not RECORDED:
        pytest.skip("there are no recorded profiles")
    return Captures(str(tmp_path), "python train.py")


def test_the_first_recording_begins_after_the_import_and_is_short(captures: Captures, tmp_path: pathlib.Path) -> None:
    agent = MadeAgent()
    assert run(captures, [agent], FIRST_S - 0.5) == []
    assert not captures.busy
    (first,) = run(captures, [agent], UNKNOWN_S + 2, begin=FIRST_S)
    assert first.tells
    assert first.report.verdict == "input_python"
    assert first.report.file == "python train.py"
    assert list(tmp_path.iterdir()) == []
    assert captures.problem == ""


def test_a_folder_that_cannot_be_made_is_a_problem_and_no_error(captures: Captures, tmp_path: pathlib.Path) -> None:
    (tmp_path / "1").write_text("")
    assert run(captures, [MadeAgent()], FIRST_S + 1) == []
    assert captures.problem.startswith(f"nothing can be recorded in {tmp_path}: ")
    assert not captures.busy
    assert run(captures, [MadeAgent()], 20.0, begin=FIRST_S + 1)
    assert captures.problem == ""


def test_a_thread_that_cannot_be_started_is_a_problem_and_no_error(
    captures: Captures, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        assert run(captures, [MadeAgent()], FIRST_S + 2) == []
    assert captures.problem == "a recording cannot be read: can't start new thread"
    assert list(tmp_path.iterdir()) == []
    assert run(captures, [MadeAgent()], 20.0, begin=FIRST_S + 2)


@pytest.mark.parametrize(
    ("step_ms", "length_s"), [(2, SHORTEST_S), (10, 0.2), (50, 1.0), (200, 2.0), (1000, 5.0), (9000, LONGEST_S)]
)
def test_a_recording_is_as_long_as_its_steps_need(captures: Captures, step_ms: float, length_s: float) -> None:
    (first,) = run(captures, [MadeAgent()], FIRST_S + 2)
    slow = msgspec.structs.replace(first.report, steps=msgspec.structs.replace(first.report.steps, mean_ms=step_ms))
    captures._plan(20.0, dataclasses.replace(first, report=slow), None)
    assert captures._length_s == pytest.approx(length_s)


def test_a_recording_is_longer_once_few_steps_took_much_of_the_time(captures: Captures) -> None:
    (first,) = run(captures, [MadeAgent()], FIRST_S + 2)
    assert captures._length_s < LENGTH_S
    for median_ms in (4.0, 10.0):  # the second recording holds no long step by chance
        steps = msgspec.structs.replace(first.report.steps, mean_ms=10.0, median_ms=median_ms)
        captures._plan(
            20.0, dataclasses.replace(first, report=msgspec.structs.replace(first.report, steps=steps)), None
        )
        assert captures._length_s == LENGTH_S


def test_a_recording_of_calls_that_run_many_steps_holds_what_is_between_them(captures: Captures) -> None:
    (first,) = run(captures, [MadeAgent()], FIRST_S + 2)
    for found_by, length_s in (("calls", 0.2), ("graph", LENGTH_S)):
        steps = msgspec.structs.replace(first.report.steps, mean_ms=10.0, median_ms=10.0, found_by=found_by)
        report = msgspec.structs.replace(first.report, steps=steps)
        captures._plan(20.0, dataclasses.replace(first, report=report), None)
        assert captures._length_s == pytest.approx(length_s)


def test_between_longer_recordings_without_a_step_come_short_ones(captures: Captures) -> None:
    lengths = []
    for _ in range(8):
        captures._plan(20.0, None, None)
        lengths.append(captures._length_s)
    assert lengths == [1.5, UNKNOWN_S, 4.5, UNKNOWN_S, 13.5, UNKNOWN_S, LONGEST_S, UNKNOWN_S]


def test_steps_longer_than_the_longest_recording_are_told_as_such(captures: Captures) -> None:
    (first,) = run(captures, [MadeAgent()], FIRST_S + 2)
    steps = msgspec.structs.replace(first.report.steps, count=0, mean_ms=0.0, median_ms=0.0)
    empty = dataclasses.replace(first, report=msgspec.structs.replace(first.report, steps=steps, verdict="too_short"))
    captures._length_s, captures._last = UNKNOWN_S, empty
    for _ in range(8):
        assert not captures.too_long
        captures._plan(20.0, empty, None)
    assert captures.too_long
    captures._last = first
    assert not captures.too_long


class Timed(MadeAgent):
    """Its recordings take as long as they are to take, or end by themselves, and hold so many steps of 10 ms each."""

    def __init__(self, folder: pathlib.Path, *counts: int, by_itself_s: float = 0.0) -> None:
        super().__init__()
        if not RECORDED:
            pytest.skip("there are no recorded profiles")
        self._counts, self._by_itself_s = iter(counts), by_itself_s
        self.captures = Captures(str(folder), "python train.py", judge=self.judge)

    def start(self, folder: str, most_bytes: int) -> None:
        super().start(folder, most_bytes)
        self.full = bool(self._by_itself_s)

    def stop(self) -> None:
        super().stop()
        self.seconds = self._by_itself_s or self.captures._length_s

    def judge(self, path: str, name: str) -> TraceReport:
        report = judge_profile(path, name)
        steps = msgspec.structs.replace(report.steps, count=next(self._counts), mean_ms=10.0, median_ms=10.0)
        return msgspec.structs.replace(report, steps=steps)


def test_a_recording_that_begins_or_ends_within_a_long_step_is_made_again(tmp_path: pathlib.Path) -> None:
    agent = Timed(tmp_path, 38, 150, 3, 20)
    found = run(agent.captures, [agent], 45)
    assert [each.tells for each in found] == [False, False, True, True], "at most two, one after the other"
    lengths = [UNKNOWN_S, LENGTH_S, 3 * LENGTH_S]
    gaps = [after.at_s - before.at_s for before, after in itertools.pairwise(found)]
    assert gaps == [
        pytest.approx(length + wait, abs=0.7) for length, wait in zip(lengths, (3.0, 3.0, INTERVALS_S[0]), strict=True)
    ]


@pytest.mark.parametrize("count", [40, 50])
def test_two_steps_at_the_ends_are_no_long_one(tmp_path: pathlib.Path, count: int) -> None:
    agent = Timed(tmp_path, count)
    assert [each.tells for each in run(agent.captures, [agent], FIRST_S + 2)] == [True]


def test_one_that_needed_its_memory_beside_a_long_step_is_made_again_as_it_was(tmp_path: pathlib.Path) -> None:
    agent = Timed(tmp_path, 8, 9, by_itself_s=0.2)
    (first, second) = run(agent.captures, [agent], FIRST_S + 6)
    assert (first.tells, second.tells) == (False, False)
    assert agent.most_bytes == MOST_BYTES
    assert agent.captures._length_s == UNKNOWN_S


def test_recordings_become_rare_once_they_tell_something(captures: Captures) -> None:
    found = run(captures, [MadeAgent()], 420)
    gaps = [round(after.at_s - before.at_s) for before, after in itertools.pairwise(found)]
    expected = [round(each + LENGTH_S) for each in INTERVALS_S]
    assert [abs(gap - want) <= 1 for gap, want in zip(gaps, expected, strict=False)] == [True] * len(gaps)
    assert len(found) == 4


def test_what_tells_nothing_is_recorded_again_for_longer_but_not_all_the_time(captures: Captures) -> None:
    agent = MadeAgent(profile=None)
    assert run(captures, [agent], 30) == []
    assert captures.problem.endswith("DATE/HOST.xplane.pb")
    assert captures._longest_s > LENGTH_S
    assert agent.most_bytes == MOST_BYTES
    run(captures, [agent], 400, begin=30)
    assert captures._longest_s == LONGEST_S
    assert captures._length_s in {UNKNOWN_S, LONGEST_S}  # in turn: the training may have begun meanwhile
    busy = 0
    for tick in range(2000):
        captures.tick(430 + tick / 5, [agent], changed=False)
        busy += captures.busy
    assert busy / 2000 < 0.15


def test_a_change_is_recorded_soon_and_if_nothing_is_new_more_rarely(captures: Captures) -> None:
    agent = MadeAgent()
    run(captures, [agent], 15)
    quiet = run(captures, [agent], 10, begin=15)
    assert quiet == []
    found = run(captures, [agent], 300, begin=30, changed=True)
    gaps = [after.at_s - before.at_s for before, after in itertools.pairwise(found)]
    assert 8 > len(found) > 3
    assert gaps[0] < gaps[-1]


def test_a_program_that_ends_while_it_is_recorded(captures: Captures) -> None:
    agent = MadeAgent()
    run(captures, [agent], FIRST_S + UNKNOWN_S / 2)
    assert captures.busy
    agent.stop()  # at its end a program writes what it has recorded
    agent.lost = True
    assert len(run(captures, [agent], 1, begin=FIRST_S + 1)) == 1
    assert run(captures, [agent], 200, begin=FIRST_S + 3) == []


def test_what_was_recorded_when_the_program_ended_is_read(captures: Captures) -> None:
    agent = MadeAgent()
    assert run(captures, [agent], FIRST_S + UNKNOWN_S / 2) == []
    agent.stop()
    last = captures.end(FIRST_S + 1.2)
    assert last is not None
    assert last.report.verdict == "input_python"
    assert captures.end(FIRST_S + 2) is None


def test_a_process_that_told_something_is_recorded_again_before_others(captures: Captures) -> None:
    silent, reporter = MadeAgent(pid=1, profile=None), MadeAgent(pid=2)
    found = run(captures, [silent, reporter], 200)
    assert {each.pid for each in found} == {2}
    assert len(found) >= 3


def test_a_refusal_of_tensorflow_is_told(captures: Captures) -> None:
    class Refusing(MadeAgent):
        def start(self, folder: str, most_bytes: int) -> None:
            super().start(folder, most_bytes)
            self.recording, self.problem = "", "AlreadyExistsError: Another profiler is running."

    assert run(captures, [Refusing()], 10) == []
    assert captures.problem == "AlreadyExistsError: Another profiler is running."
    assert captures._length_s == UNKNOWN_S, "a longer one would be refused as well"


def test_the_next_is_as_long_as_the_steps_need_and_not_two_seconds(captures: Captures) -> None:
    (first,) = run(captures, [MadeAgent()], FIRST_S + 2)
    few = msgspec.structs.replace(
        first.report, verdict="too_short", steps=msgspec.structs.replace(first.report.steps, mean_ms=10, count=2)
    )
    captures._length_s = SHORTEST_S
    captures._plan(20.0, dataclasses.replace(first, report=few), None)
    assert captures._length_s == pytest.approx(1.5 * SHORTEST_S)


@pytest.mark.parametrize(("verdict", "steps", "most"), [
    ("too_short", 2, [4, 16, 32, 32]), ("too_short", 4, [2.5, 6.25, 15.625, 32]),
    ("too_short", 0, [1, 4, 16, 32]), ("warm_up", 4, [1, 4, 16, 32]),
])  # fmt: skip
def test_steps_that_do_not_fit_get_more_memory(captures: Captures, verdict: str, steps: int, most: list[float]) -> None:
    """What a training needs that has just begun may be its own, and not the profile's."""
    (first,) = run(captures, [MadeAgent()], FIRST_S + 2)
    report = msgspec.structs.replace(
        first.report, verdict=verdict, steps=msgspec.structs.replace(first.report.steps, count=steps)
    )
    captures._full, length_s = True, captures._length_s
    found = []
    for _ in most:
        captures._plan(20.0, dataclasses.replace(first, report=report), None)
        found.append(captures._most_bytes / MOST_BYTES)
    assert found == most
    assert max(found) <= LIMIT_BYTES / MOST_BYTES
    if steps:
        assert captures._length_s == length_s, "it was ended before its time"
    else:
        assert captures._length_s > length_s, "its steps are longer than it was"
    captures._full = False
    captures._plan(20.0, first, None)
    assert captures._most_bytes == most[-1] * MOST_BYTES, "its steps still need it"


def test_one_that_ended_by_itself_is_read_at_once(captures: Captures) -> None:
    captures._length_s, agent = LONGEST_S, MadeAgent()
    assert run(captures, [agent], FIRST_S + 2) == []
    agent.full = True
    assert len(run(captures, [agent], 1, begin=FIRST_S + 2)) == 1


def test_nothing_begins_while_the_program_stands_still(captures: Captures) -> None:
    agent = MadeAgent()
    for tick in range(300):
        captures.tick(tick / 5, [agent], changed=True, stands=True)
    assert not captures.busy
    agent.asked_s = 55.0  # a look that is not answered
    for tick in range(300, 350):
        captures.tick(tick / 5, [agent], changed=True)
    assert not captures.busy
    agent.asked_s = None
    captures.tick(70.0, [agent], changed=False)
    assert agent.recording == "running"


@pytest.mark.parametrize(
    ("owes", "words"), [("asked", "has not begun to record"), ("ending", "has not written what it recorded")]
)
def test_a_recording_that_does_not_end_is_given_up(tmp_path: pathlib.Path, owes: str, words: str) -> None:
    notes: list[str] = []
    captures = Captures(str(tmp_path), "python train.py", note=notes.append)
    agent = MadeAgent(profile=None)
    run(captures, [agent], FIRST_S + 0.4)
    assert agent.recording == "running"
    agent.recording = owes
    other = MadeAgent(pid=8, profile=None)
    run(captures, [agent], ANSWER_S + 2, begin=FIRST_S + 1)
    assert not captures.busy
    assert notes == [f"process 7 {words} within {ANSWER_S:.0f} s"] == [captures.problem]
    run(captures, [agent, other], 60, begin=FIRST_S + 70)
    assert (agent.recording, other.most_bytes) == (owes, MOST_BYTES), "the other one is recorded meanwhile"
    assert len(notes) == 1


def test_an_error_of_the_doctor_s_own_is_a_note(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    def broken(path: str, name: str) -> TraceReport:
        raise ZeroDivisionError("float division by zero")

    notes: list[str] = []
    captures = Captures(str(tmp_path), "python train.py", judge=broken, note=notes.append)
    assert run(captures, [MadeAgent(profile=None)], FIRST_S + 3) == []
    assert notes[0].startswith(
        "the doctor failed to judge a recording (ZeroDivisionError: float division by zero); please"
    )
    assert "Traceback" not in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []
