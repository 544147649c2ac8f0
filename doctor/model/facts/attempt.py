"""What every fact has in common."""

from __future__ import annotations

from typing import Literal

import msgspec

from tfgpu_doctor.model.redaction import Count, Line, Number, Text

Outcome = Literal["answered", "failed", "killed_by_signal", "timed_out", "unparsable", "not_started"]


class Fact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that is so; frozen, and the same after a trip through JSON."""


class Attempt(Fact, frozen=True):
    """How it went to ask something in a child process."""

    outcome: Outcome
    seconds: Number = 0.0
    exit_code: Count | None = None
    signal: Text = ""  # "SIGSEGV"
    phase: Text = ""  # what the child said last that it was about to do
    error: Text = ""  # why it did not start, or the last line of its traceback
    stderr: tuple[Line, ...] = ()  # the last lines
    stuck: bool = False  # not even SIGKILL ended it

    @property
    def answered(self) -> bool:
        """Whether the child came to its end and its answer was understood."""
        return self.outcome == "answered"

    @property
    def ending(self) -> str:
        """How it ended, in words that complete "it ..."."""
        where = f" while at {self.phase!r}" if self.phase else ""
        if self.outcome == "timed_out":
            stuck = " and could not even be killed" if self.stuck else ""
            return f"gave no answer within {self.seconds:.0f} s{where}{stuck}"
        if self.outcome == "killed_by_signal":
            return f"died of {self.signal}{where}"
        if self.outcome == "not_started":
            return f"could not be started: {self.error}"
        if self.outcome == "unparsable":
            return f"gave an answer that cannot be understood{where}"
        if self.outcome == "failed":
            return f"ended with exit code {self.exit_code}{where}: {self.error}"
        return "answered"
