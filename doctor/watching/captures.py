"""When the training is recorded, for how long, and what each recording says."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from tfgpu_doctor._project import report_it
from tfgpu_doctor.tracing import AGAIN, StepTimes, TraceReport, Unreadable, judge_profile, looks_besides_steps
from tfgpu_doctor.watching.agent import Agent

FIRST_S = 5.0  # after the import of TensorFlow
SHORTEST_S, UNKNOWN_S, LENGTH_S, LONGEST_S = 0.15, 0.5, 2.0, 20.0  # UNKNOWN_S: no step is known yet
STEPS, ENOUGH_STEPS = 5, 20  # in a recording: at least, and more only within LENGTH_S
MOST_BYTES, LIMIT_BYTES = 16 << 20, 512 << 20  # what it may need in the program; more if too few steps fit in it
_GROWTH = 3.0  # where a recording holds no step, or its steps cover little of it
_CUT, _CUT_STEPS = 0.2, 5.0  # of a recording, and steps: more than its steps cover is part of a long one
_MOST_CUTS = 2  # one after the other
_UNEVEN = 1.5  # mean step by median step: few steps take much of the time, and 20 steps hold too few of them
ANSWER_S = 60.0  # for TensorFlow to begin a recording, or to write it
INTERVALS_S = (20.0, 60.0, 120.0, 300.0)  # after a recording that told something; the last one repeats
_SOON_S = 3.0
_SILENT_S = 5.0  # without an answer to a look
_REST = 9.0  # times the length of a recording that told nothing: a tenth of the time is spent on such
_EARLY_S = 60.0  # of the training; the first answer is worth more
_CHANGED_S = 12.0  # between recordings because something changed
_MOST_CHANGED_S = 120.0


Judge = Callable[[str, str], TraceReport]


@dataclass(frozen=True)
class Capture:
    """A recording that was read: when it was made (monotonic, in s), of which process, and what it says."""

    at_s: float
    pid: int
    report: TraceReport
    besides: int = 0  # of the looks at the main thread during the recording: those that found it at no step
    looks: int = 0
    cut: bool = False  # much of it is part of a long step, and a longer recording may hold such steps whole

    @property
    def tells(self) -> bool:
        """Whether it holds enough steps to judge."""
        return self.report.verdict not in AGAIN and not self.cut


class Captures:
    """Records one process after the other; `tick` starts, ends and reads recordings, and returns each that is new."""

    def __init__(
        self, folder: str, command: str, *, every_s: float | None = None, judge: Judge = judge_profile,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:  # fmt: skip
        """Record into new folders below `folder`. `judge` raises Unreadable; `note` hears of what should not be."""
        self._folder, self._command = folder, command
        self._judge, self._note = judge, note
        self._intervals = INTERVALS_S if every_s is None else (every_s,)
        self.count = 0  # that were read
        self.problem = ""  # why the last one failed
        self._number = self._told = 0
        self._began_s: float | None = None  # the first process was there
        self._next_s = 0.0
        self._length_s, self._changed_s = UNKNOWN_S, _CHANGED_S
        self._longest_s = UNKNOWN_S  # of those that held no step
        self._most_bytes = MOST_BYTES
        self._wide = 0  # recordings that needed it all, and told nothing
        self._uneven = False  # a recording held steps that differ much
        self._cuts = 0  # of the last recordings
        self._agent: Agent | None = None
        self._since_s = self._last_s = 0.0
        self._asked_s = 0.0  # the agent was told to begin, or to end
        self._full = self._refused = False  # the last one, by its memory, or by TensorFlow
        self._reading: Future[Capture] | None = None
        self._last: Capture | None = None
        self._for_change = False

    @property
    def busy(self) -> bool:
        """Whether a process is being recorded now."""
        return self._agent is not None

    @property
    def step_s(self) -> float:
        """The mean step of the last recording that was read, in s; 0 if it held none."""
        return self._last.report.steps.mean_ms / 1000 if self._last else 0.0

    @property
    def too_long(self) -> bool:
        """Whether not even the longest recording held a whole step."""
        return self._last is not None and self._longest_s >= LONGEST_S and not self.step_s

    def tick(self, now: float, agents: Sequence[Agent], *, changed: bool, stands: bool = False) -> Capture | None:
        """Do what is due. `changed`: the picture from outside is another one since the last recording.

        `stands`: the program makes no step, and no recording begins.
        """
        if self._began_s is None and agents:
            self._began_s, self._next_s = now, now + FIRST_S
        if self._reading is not None:
            return self._finish(now)
        if self._agent is not None:
            self._go_on(now, self._agent)
        elif not stands and (chosen := self._choose(now, agents)) and self._is_due(now, changed):
            self._for_change = now < self._next_s
            self._begin(now, chosen)
        return None

    def end(self, now: float) -> Capture | None:
        """The program has ended: return what it wrote at its end, if it was being recorded."""
        if self._agent is not None:
            self._read_it(self._agent)
        if self._reading is None:
            return None
        self._reading.exception()  # waits
        return self._finish(now)

    def _is_due(self, now: float, changed: bool) -> bool:
        return now >= self._next_s or (changed and now >= self._last_s + self._changed_s)

    def _choose(self, now: float, agents: Sequence[Agent]) -> Agent | None:
        """The process that told something before, else one after the other; none that owes an answer."""
        found = [each for each in agents if not each.lost and each.over is None and not each.recording]
        found = [each for each in found if each.asked_s is None or now - each.asked_s < _SILENT_S]
        if self._last and self._last.tells:
            found = [each for each in found if each.pid == self._last.pid] or found
        return found[self._number % len(found)] if found else None

    def _begin(self, now: float, agent: Agent) -> None:
        self._number += 1
        folder = os.path.join(self._folder, str(self._number))
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:  # TMPDIR is full, or gone
            self._since_s = now
            self._fail(now, f"nothing can be recorded in {self._folder}: {error.strerror or error}")
            return
        self._agent, self._since_s, self._asked_s = agent, now, now
        agent.start(folder, self._most_bytes)

    def _go_on(self, now: float, agent: Agent) -> None:
        if agent.lost or agent.over is not None:
            self._read_it(agent)  # at its end a program writes what it has recorded
        elif agent.recording == "running":
            if now - self._since_s >= self._length_s or agent.full:  # it has ended by itself
                self._asked_s = now
                agent.stop()
        elif agent.recording == "":
            self._read_it(agent)
        elif now - self._asked_s > ANSWER_S:
            self._give_up(now, agent)
        elif agent.recording == "asked":
            self._since_s = now

    def _give_up(self, now: float, agent: Agent) -> None:
        """TensorFlow does not answer; the process is recorded again once it has."""
        self._agent = None
        what = "begun to record" if agent.recording == "asked" else "written what it recorded"
        self._fail(now, f"process {agent.pid} has not {what} within {ANSWER_S:.0f} s")

    def _fail(self, now: float, problem: str) -> None:
        self.problem, self._last_s = problem, self._since_s
        self._note(problem)
        self._next_s = now + _REST * self._length_s

    def _read_it(self, agent: Agent) -> None:
        self._agent, self._last_s = None, self._since_s
        self._full, self._refused = agent.full, bool(agent.problem)
        folder = os.path.join(self._folder, str(self._number))
        reader = ThreadPoolExecutor(1, "tfgpu-doctor")
        try:
            self._reading = reader.submit(self._read, folder, agent)
        except RuntimeError as error:  # no more threads may be started
            shutil.rmtree(folder, ignore_errors=True)
            self._fail(self._since_s, f"a recording cannot be read: {error}")
        reader.shutdown(wait=False)

    def _read(self, folder: str, agent: Agent) -> Capture:
        """Judge a recording; raises Unreadable with the reason in words."""
        try:
            report = self._judge(folder, self._command)
            cut = self._cuts < _MOST_CUTS and report.verdict not in AGAIN and _is_cut(agent.seconds, report.steps)
            return Capture(self._since_s, agent.pid, report, *looks_besides_steps(folder), cut)
        except Unreadable as error:
            raise Unreadable(agent.problem or str(error).replace(folder, "the recording")) from None
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _finish(self, now: float) -> Capture | None:
        reading, before, found = self._reading, self._last, None
        assert reading is not None
        if not reading.done():
            return None
        self._reading = None
        if (error := reading.exception()) is None:
            found = self._last = reading.result()
            self.count += 1
            self.problem = ""
        elif isinstance(error, Unreadable):
            self.problem = str(error)
        else:
            self.problem = f"the doctor failed to judge a recording ({type(error).__name__}: {error})"
            self._note(f"{self.problem}; please {report_it('the command')}")
        self._plan(now, found, before)
        return found

    def _plan(self, now: float, found: Capture | None, before: Capture | None) -> None:
        self._cuts = self._cuts + 1 if found is not None and found.cut else 0
        if found is not None and found.tells:
            if self._for_change:
                same = before is not None and before.report.verdict == found.report.verdict
                self._changed_s = min(_MOST_CHANGED_S, 2 * self._changed_s) if same else _CHANGED_S
            self._next_s = now + self._intervals[min(self._told, len(self._intervals) - 1)]
            self._told += 1
            steps = found.report.steps
            self._uneven = self._uneven or steps.mean_ms > _UNEVEN * steps.median_ms
            enough_s = _enough_s(steps.mean_ms / 1000)
            # Where a call runs many steps, what happens between two calls needs its share, too.
            fair = self._uneven or steps.found_by == "graph"
            self._length_s = max(LENGTH_S, enough_s) if fair else enough_s
            return
        early = now - (self._began_s or now) < _EARLY_S
        self._next_s = now + (_SOON_S if early else _REST * self._length_s)
        if not self._refused:
            self._lengthen(found)

    def _lengthen(self, found: Capture | None) -> None:
        """The last recording told nothing: the next is as long as the steps need, if any was seen."""
        steps = found.report.steps if found else None
        if found and found.cut:
            # More memory would not help: it is not the long step that needed it.
            self._length_s = self._length_s if self._full else min(LONGEST_S, max(LENGTH_S, _GROWTH * self._length_s))
            return
        if self._full:
            self._widen(steps.count if found and steps and found.report.verdict == "too_short" else 0)
            if steps and not steps.count:  # steps that are longer than it was: a compilation, which itself needs memory
                self._length_s = min(LONGEST_S, _GROWTH * self._length_s)
            return
        if step_s := steps.mean_ms / 1000 if steps else 0.0:
            self._length_s = min(LONGEST_S, max(1.5 * self._length_s, _enough_s(step_s)))
        elif self._length_s > UNKNOWN_S:  # the training may only have begun meanwhile, with short steps
            self._longest_s, self._length_s = self._length_s, UNKNOWN_S
        else:
            self._length_s = min(LONGEST_S, _GROWTH * self._longest_s)

    def _widen(self, steps: int) -> None:
        """So many whole steps took the memory that a recording may need; none: it may have been the program's own, once."""
        self._wide += 1
        if steps or self._wide > 1:
            more = min(4.0, max(2.0, 2 * STEPS / steps)) if steps else 4.0
            self._most_bytes = min(LIMIT_BYTES, round(more * self._most_bytes))


def _is_cut(seconds: float, steps: StepTimes) -> bool:
    """Whether a recording of this length (0: not known) must hold part of a step that is much longer than its whole ones."""
    rest_s = seconds - steps.count * steps.mean_ms / 1e3
    return rest_s > max(_CUT * seconds, _CUT_STEPS * steps.mean_ms / 1e3)


def _enough_s(step_s: float) -> float:
    """How long a recording is to be for steps of this length."""
    return min(LONGEST_S, max(SHORTEST_S, STEPS * step_s, min(LENGTH_S, ENOUGH_STEPS * step_s)))
