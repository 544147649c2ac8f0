"""When the training is recorded, for how long, and what each recording says."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from tfgpu_doctor.tracing import AGAIN, TraceReport, Unreadable, judge_profile
from tfgpu_doctor.watching.agent import Agent

FIRST_S = 5.0  # after the import of TensorFlow
SHORTEST_S, LENGTH_S, LONGEST_S = (
    0.5,
    2.0,
    20.0,
)  # TensorFlow keeps in memory what it recorded: 200 steps/s, 0.1 GB a second
STEPS, ENOUGH_STEPS = 5, 20  # in a recording: at least, and more only within LENGTH_S
INTERVALS_S = (20.0, 60.0, 120.0, 300.0)  # after a recording that told something; the last one repeats
_SOON_S = 3.0
_REST = 9.0  # times the length of a recording that told nothing: a tenth of the time is spent on such
_EARLY_S = 60.0  # of the training; the first answer is worth more
_CHANGED_S = 12.0  # between recordings because something changed
_MOST_CHANGED_S = 120.0


@dataclass(frozen=True)
class Capture:
    """A recording that was read: when it was made (monotonic, in s), of which process, and what it says."""

    at_s: float
    pid: int
    report: TraceReport

    @property
    def tells(self) -> bool:
        """Whether it holds enough steps to judge."""
        return self.report.verdict not in AGAIN


class Captures:
    """Records one process after the other; `tick` starts, ends and reads recordings, and returns each that is new."""

    def __init__(self, folder: str, command: str, *, every_s: float | None = None) -> None:
        self._folder, self._command = folder, command
        self._intervals = INTERVALS_S if every_s is None else (every_s,)
        self.count = 0  # that were read
        self.problem = ""  # why the last one failed
        self._number = self._told = 0
        self._began_s: float | None = None  # the first process was there
        self._next_s = 0.0
        self._length_s, self._changed_s = SHORTEST_S, _CHANGED_S
        self._agent: Agent | None = None
        self._since_s = self._last_s = 0.0
        self._reading: threading.Thread | None = None
        self._read: Capture | None = None
        self._last: Capture | None = None
        self._for_change = False

    @property
    def busy(self) -> bool:
        """Whether a process is being recorded now."""
        return self._agent is not None

    def tick(self, now: float, agents: Sequence[Agent], *, changed: bool) -> Capture | None:
        """Do what is due. `changed`: the picture from outside is another one since the last recording."""
        if self._began_s is None and agents:
            self._began_s, self._next_s = now, now + FIRST_S
        if self._reading is not None:
            return self._finish(now)
        if self._agent is not None:
            self._go_on(now, self._agent)
        elif (chosen := self._choose(agents)) and self._is_due(now, changed):
            self._for_change = now < self._next_s
            self._begin(now, chosen)
        return None

    def end(self, now: float) -> Capture | None:
        """The program has ended: return what it wrote at its end, if it was being recorded."""
        if self._agent is not None:
            self._read_it(self._agent)
        if self._reading is None:
            return None
        self._reading.join()
        return self._finish(now)

    def _is_due(self, now: float, changed: bool) -> bool:
        return now >= self._next_s or (changed and now >= self._last_s + self._changed_s)

    def _choose(self, agents: Sequence[Agent]) -> Agent | None:
        """The process that told something before, else one after the other."""
        found = [each for each in agents if not each.lost and each.over is None]
        if self._last and self._last.tells:
            found = [each for each in found if each.pid == self._last.pid] or found
        return found[self._number % len(found)] if found else None

    def _begin(self, now: float, agent: Agent) -> None:
        self._number += 1
        folder = os.path.join(self._folder, str(self._number))
        os.makedirs(folder, exist_ok=True)
        self._agent, self._since_s = agent, now
        agent.start(folder)

    def _go_on(self, now: float, agent: Agent) -> None:
        if agent.lost or agent.over is not None:
            self._read_it(agent)  # at its end a program writes what it has recorded
        elif agent.recording == "running":
            if now - self._since_s >= self._length_s:
                agent.stop()
        elif agent.recording == "asked":
            self._since_s = now
        elif agent.recording == "":
            self._read_it(agent)

    def _read_it(self, agent: Agent) -> None:
        self._agent, self._last_s = None, self._since_s
        folder = os.path.join(self._folder, str(self._number))
        self._reading = threading.Thread(target=self._judge, args=(folder, agent), daemon=True)
        self._reading.start()

    def _judge(self, folder: str, agent: Agent) -> None:
        self._read, self.problem = None, "the doctor failed to judge the recording"
        try:
            report = judge_profile(folder, self._command)
            self._read, self.problem = Capture(self._since_s, agent.pid, report), ""
        except Unreadable as error:
            self.problem = agent.problem or str(error).replace(folder, "the recording")
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _finish(self, now: float) -> Capture | None:
        assert self._reading is not None
        if self._reading.is_alive():
            return None
        self._reading = None
        found, before = self._read, self._last
        if found is not None:
            self.count += 1
            self._last = found
        self._plan(now, found, before)
        return found

    def _plan(self, now: float, found: Capture | None, before: Capture | None) -> None:
        if found is not None and found.tells:
            if self._for_change:
                same = before is not None and before.report.verdict == found.report.verdict
                self._changed_s = min(_MOST_CHANGED_S, 2 * self._changed_s) if same else _CHANGED_S
            self._next_s = now + self._intervals[min(self._told, len(self._intervals) - 1)]
            self._told += 1
            step_s = found.report.steps.mean_ms / 1000
            wanted_s = max(SHORTEST_S, STEPS * step_s, min(LENGTH_S, ENOUGH_STEPS * step_s))
            self._length_s = min(LONGEST_S, wanted_s)
            return
        early = now - (self._began_s or now) < _EARLY_S
        self._next_s = now + (_SOON_S if early else _REST * self._length_s)
        self._length_s = min(LONGEST_S, max(LENGTH_S, 2 * self._length_s))
