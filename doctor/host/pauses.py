"""How long this process stood still: stopped by Ctrl-Z or with its job, or without a CPU. No deadline of others counts that."""

from __future__ import annotations

import time
from collections.abc import Callable

_LONG_S = 2.0


class Pauses:
    """Of a loop whose turns take at most `turn_s`, unless this process stands still; `clock` gives s."""

    def __init__(self, turn_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._turn_s, self._clock, self._last = turn_s, clock, clock()

    def passed(self) -> float:
        """Call it in each turn: how much longer than a turn the time since the last call was, in s; 0 if it was not long."""
        before, self._last = self._last, self._clock()
        excess = self._last - before - self._turn_s
        return excess if excess >= _LONG_S else 0.0
