"""When a training is recorded, and what becomes of a recording; the profiles are real."""

from __future__ import annotations

import dataclasses
import itertools
import lzma
import pathlib
import time

import msgspec
import pytest

from tfgpu_doctor.watching.agent import Look
from tfgpu_doctor.watching.captures import FIRST_S, INTERVALS_S, LENGTH_S, LONGEST_S, SHORTEST_S, Capture, Captures

RECORDED = sorted((pathlib.Path(__file__).parent.parent / "tracing/recorded").glob("2.21*.xz"))


class MadeAgent:
    """A process that answers at once, and writes a real profile, or none."""

    def __init__(self, pid: int = 7, profile: pathlib.Path | None = RECORDED[0] if RECORDED else None) -> None:
        self.pid, self.profile = pid, profile
        self.look: Look | None = None
        self.asked_s: float | None = None
        self.recording, self.problem, self.folder = "", "", pathlib.Path()
        self.over: str | None = None
        self.lost = False
        self.recorded: list[float] = []

    def ask(self, *, others: bool) -> None:
        pass

    def start(self, folder: str) -> None:
        self.folder, self.recording = pathlib.Path(folder), "running"

    def stop(self) -> None:
        self.recording = ""
        if self.profile is not None:
            with lzma.open(self.profile) as file:
                (self.folder / "host.xplane.pb").write_bytes(file.read())


def run(
    captures: Captures, agents: list[MadeAgent], seconds: float, *, begin: float = 0.0, changed: bool = False
) -> list[Capture]:
    """Let that many seconds pass, five ticks each; a thread that reads is waited for."""
    found = []
    for tick in range(round(seconds * 5)):
        got = captures.tick(begin + tick / 5, agents, changed=changed)
        while captures._reading is not None and captures._reading.is_alive():
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
    (first,) = run(captures, [agent], SHORTEST_S + 2, begin=FIRST_S)
    assert first.tells
    assert first.report.verdict == "input_python"
    assert first.report.file == "python train.py"
    assert list(tmp_path.iterdir()) == []
    assert captures.problem == ""


@pytest.mark.parametrize(("step_ms", "length_s"), [(5, 0.5), (50, 1.0), (200, 2.0), (1000, 5.0), (9000, LONGEST_S)])
def test_a_recording_is_as_long_as_its_steps_need(captures: Captures, step_ms: float, length_s: float) -> None:
    (first,) = run(captures, [MadeAgent()], FIRST_S + 2)
    slow = msgspec.structs.replace(first.report, steps=msgspec.structs.replace(first.report.steps, mean_ms=step_ms))
    captures._plan(20.0, dataclasses.replace(first, report=slow), None)
    assert captures._length_s == pytest.approx(length_s)


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
    assert captures._length_s > LENGTH_S
    run(captures, [agent], 400, begin=30)
    assert captures._length_s == LONGEST_S
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
    run(captures, [agent], FIRST_S + SHORTEST_S / 2)
    assert captures.busy
    agent.stop()  # at its end a program writes what it has recorded
    agent.lost = True
    assert len(run(captures, [agent], 1, begin=FIRST_S + 1)) == 1
    assert run(captures, [agent], 200, begin=FIRST_S + 3) == []


def test_what_was_recorded_when_the_program_ended_is_read(captures: Captures) -> None:
    agent = MadeAgent()
    assert run(captures, [agent], FIRST_S + SHORTEST_S / 2) == []
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
        def start(self, folder: str) -> None:
            super().start(folder)
            self.recording, self.problem = "", "AlreadyExistsError: Another profiler is running."

    assert run(captures, [Refusing()], 10) == []
    assert captures.problem == "AlreadyExistsError: Another profiler is running."
