"""Record a profile of a program that the doctor starts: when it trains, for some seconds, again if that was not enough."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

from tfgpu_doctor.host.recorded_program import RecordedProgram
from tfgpu_doctor.host.talk import ProgramLost, ProgramSilent, Talk
from tfgpu_doctor.host.watched import ended_by
from tfgpu_doctor.tracing.examine import Verdict, examine
from tfgpu_doctor.tracing.intervals import length
from tfgpu_doctor.tracing.reading import Unreadable, find_file, read_profile
from tfgpu_doctor.tracing.recorded import Profile

STARTUP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "startup")
AGAIN = ("too_short", "warm_up")  # verdicts that a later, longer recording may settle
_TICK_S = 0.2
_LINGERS_S = 3.0  # a process that is recorded no more, until it has ended
_LONGEST_S = 60.0
_GROWTH = 2.0
# Of very many events the profiler may keep none of a step: after so many recordings without any comes a short one.
_WITHOUT, _SHORT, _SHORTEST_S = 2, 0.25, 0.5
_LEAST_COVERED = 0.25  # of a recording by the steps that are judged: else it holds the begin of a training
_MOST_FOR_MORE = 3  # recordings: some programs never cover more


class NotRecorded(Exception):
    """No profile came to be; the message says why and what to do."""


class Recorder:
    """Records one program; `after_s` after TensorFlow's import, `seconds` long, and gives up after `patience_s`."""

    def __init__(
        self, argv: Sequence[str], environment: dict[str, str], *, after_s: float, seconds: float, patience_s: float,
        note: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._argv, self._environment = argv, environment
        self._after_s, self._seconds, self._patience_s = after_s, seconds, patience_s
        self._note = note
        self._lost = False  # the process ended while it was recorded, or stopped responding
        self._over: list[Talk] = []  # processes that have ended

    def record(self, folder: str) -> tuple[Profile, Verdict, str]:
        """Start the program, record it into the folder, end it. Raises NotRecorded, and OSError if it cannot start."""
        with RecordedProgram(self._argv, environment=self._environment, startup=STARTUP) as program:
            talk = self._wait_for_tensorflow(program, time.monotonic() + self._patience_s)
            program.wait(self._after_s)
            until = time.monotonic() + self._patience_s
            seconds, longest, number, without = self._seconds, self._seconds, 0, 0
            best: tuple[Profile, Verdict, str] | None = None
            while True:
                number += 1
                found = self._once(program, talk, os.path.join(folder, str(number)), seconds)
                if found and (best is None or found[1].word not in AGAIN or best[1].word in AGAIN):
                    best = found
                why = _why_again(found[1], seconds) if found else "nothing was recorded"
                if best and (not why or (number >= _MOST_FOR_MORE and best[1].word not in AGAIN)):
                    return best
                told = best is not None and best[1].word not in AGAIN
                other = self._next_process(program, talk.pid, until) if talk in self._over and not told else None
                if other is not None:
                    self._lost, talk = False, other
                    continue
                without = 0 if found and found[1].case else without + 1
                if without == _WITHOUT:
                    seconds = max(_SHORTEST_S, _SHORT * self._seconds)
                else:
                    seconds = longest = min(_LONGEST_S, _GROWTH * longest)
                if self._lost or program.exit_code is not None or time.monotonic() + seconds > until:
                    break
                self._note(f"{why}; recording again, for {seconds:.3g} s")
            if best is None:
                raise NotRecorded(_ended(program, lost=self._lost))
            return best

    def _next_process(self, program: RecordedProgram, pid: int, until: float) -> Talk | None:
        """After one that has ended, such as a script's first step: the next that imports TensorFlow; None if none comes."""
        end = min(until, time.monotonic() + _LINGERS_S)
        while _is_there(pid) and program.exit_code is None and time.monotonic() < end:
            program.wait(_TICK_S)
        if program.exit_code is not None or time.monotonic() >= end:
            return None
        self._note("the recorded process has ended, and the program runs on; waiting for the next one with TensorFlow")
        try:
            talk = self._wait_for_tensorflow(program, until)
        except NotRecorded:
            return None
        program.wait(self._after_s)
        return talk

    def _wait_for_tensorflow(self, program: RecordedProgram, until: float) -> Talk:
        """Wait until a process of the program has imported TensorFlow."""
        while not (ready := [each for each in program.ready() if each not in self._over]):
            if program.exit_code is not None:
                raise NotRecorded(_ended(program))
            if time.monotonic() > until:
                raise NotRecorded(
                    f"the program did not import TensorFlow within {self._patience_s:.0f} s; python -S, -I and -E keep "
                    f"the recorder out, as does a program that clears PYTHONPATH"
                )
            program.wait(_TICK_S)
        return ready[0]

    def _once(
        self, program: RecordedProgram, talk: Talk, folder: str, seconds: float
    ) -> tuple[Profile, Verdict, str] | None:
        """Record once; None if the program ended before anything was written."""
        os.makedirs(folder)
        try:
            _checked(talk.ask(do="start", folder=folder))
            program.wait(seconds)
            _checked(talk.ask(do="stop"))
        except ProgramSilent:
            self._lost = True
        except ProgramLost:
            self._lost = True  # at its end a program writes what it has recorded
            self._over.append(talk)
        try:
            path = find_file(folder)
            profile = read_profile(path)
        except Unreadable:
            return None
        return profile, examine(profile), path


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _why_again(verdict: Verdict, seconds: float) -> str:
    """Return why a recording of so many seconds does not settle it; empty if it does."""
    if verdict.word in AGAIN:
        return verdict.why
    covered_s = length([verdict.case.steps.window]) / 1000 if verdict.case else seconds
    if covered_s >= _LEAST_COVERED * seconds:
        return ""
    return f"the training had just begun: its steps cover {covered_s:.1f} of {seconds:.0f} s"


def _checked(answer: dict[str, str]) -> None:
    error = answer.get("error", "")
    if "AlreadyExists" in error or "another profil" in error.lower():
        raise NotRecorded(
            "the program records a profile of its own at the same time (keras.callbacks.TensorBoard does: profile_batch=0 "
            f"turns that off): {error.splitlines()[0]}"
        )
    if error:
        raise NotRecorded(f"TensorFlow could not record: {error.splitlines()[0]}")


def _ended(program: RecordedProgram, *, lost: bool = False) -> str:
    code = program.exit_code
    if code is None and lost:
        return (
            "the program was over, or stopped responding, before a profile was recorded; its training may be shorter than the "
            "recording (--after 0 --seconds 2)"
        )
    if code is None:
        return (
            "the program trained nothing that could be recorded; try a later time (--after) or a longer one (--seconds)"
        )
    if number := ended_by(code):
        return f"the program was ended by {number} before a profile was recorded"
    return (
        f"the program ended with exit code {code} before a profile was recorded; its training may be shorter than the "
        "recording (--after 0 --seconds 2), or it uses no TensorFlow"
    )
