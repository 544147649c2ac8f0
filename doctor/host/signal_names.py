"""Which signal ended a process, from its exit code."""

from __future__ import annotations

import signal


def number_in(code: int) -> int:
    """The signal that an exit code tells: a negative one does, and 128 and more as a shell says it; 0 if it tells none."""
    return -code if code < 0 else max(0, code - 128)


def name_of(number: int) -> str:
    """`SIGKILL`; empty if no signal has that number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""
