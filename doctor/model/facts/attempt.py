"""The common base of all facts."""

from __future__ import annotations

from typing import Literal

import msgspec

from tfgpu_doctor.model.redaction import Count, Line, Number, Text

Outcome = Literal["answered", "failed", "killed_by_signal", "timed_out", "unparsable", "not_started"]


# The kernel sends SIGKILL if memory runs out, users and job schedulers send any of them; a fault of a GPU or a library none.
_FROM_OUTSIDE = ("SIGHUP", "SIGINT", "SIGKILL", "SIGTERM")


class Fact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One piece of information; immutable, and unchanged by a JSON round trip."""


class Attempt(Fact, frozen=True):
    """The course of a query in a child process."""

    outcome: Outcome
    seconds: Number = 0.0
    exit_code: Count | None = None
    signal: Text = ""  # "SIGSEGV"
    phase: Text = ""  # the last step that the child announced
    error: Text = ""  # why it did not start or was ended, or the last line of its traceback
    stderr: tuple[Line, ...] = ()  # the last lines
    stuck: bool = False  # not even SIGKILL ended it

    @property
    def answered(self) -> bool:
        """Whether the child completed and its answer could be parsed."""
        return self.outcome == "answered"

    @property
    def ended_from_outside(self) -> bool:
        """Whether a signal ended it that somebody else sent: the kernel where memory ran out, a user, a job scheduler."""
        return self.outcome == "killed_by_signal" and self.signal in _FROM_OUTSIDE

    @property
    def ending(self) -> str:
        """How it ended, in words that complete "it ..."."""
        where = f" during {self.phase!r}" if self.phase else ""
        if self.outcome == "timed_out":
            stuck = " and could not be killed" if self.stuck else ""
            return f"did not respond within {self.seconds:.0f} s{where}{stuck}"
        if self.outcome == "killed_by_signal":
            return f"was killed by {self.signal}{where}"
        if self.outcome == "not_started":
            return f"could not be started: {self.error}"
        if self.outcome == "unparsable":
            return f"returned an answer that cannot be parsed{where}" + (f": {self.error}" if self.error else "")
        if self.outcome == "failed" and self.exit_code is None:
            return f"was ended by the doctor{where}: {self.error}"
        if self.outcome == "failed":
            return f"ended with exit code {self.exit_code}{where}: {self.error}"
        return "answered"
