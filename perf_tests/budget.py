"""The time budget of a run, and the share of it for each comparison."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

LEAST_S = 1.5  # a measurement takes at least this long
MOST_S = 20.0
USUAL_S = 5.0
_PATTERN = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h)?")
_UNITS = {None: 1, "s": 1, "m": 60, "min": 60, "h": 3600}


def parse_budget(text: str) -> float | None:
    """Return the seconds of "60s", "5m", "90"; None for "full". Raises ValueError."""
    if text.strip() == "full":
        return None
    found = _PATTERN.fullmatch(text.strip())
    if not found or float(found.group(1)) <= 0:
        raise ValueError(f"a budget is a time such as 60s or 5m, or full; not {text!r}")
    return float(found.group(1)) * _UNITS[found.group(2)]


class Budget:
    """The time left until `ends` (of `clock`) for `waiting` comparisons; without an end each takes the time it needs."""

    def __init__(self, ends: float | None, waiting: int = 0, clock: Callable[[], float] = time.time) -> None:
        self._ends, self._waiting, self._clock = ends, waiting, clock

    @property
    def left_s(self) -> float:
        """The seconds left."""
        return float("inf") if self._ends is None else self._ends - self._clock()

    def expect(self, comparisons: int) -> None:
        """Set how many comparisons share the time left."""
        self._waiting = comparisons

    def one_is_done(self) -> None:
        """Count one waiting comparison as finished, measured or not."""
        self._waiting -= 1

    def share_s(self, needs_s: float = LEAST_S) -> float | None:
        """Return the seconds for the next comparison; None if less time is left than it needs, preparation included."""
        if self._ends is None:
            return MOST_S
        if self.left_s < max(LEAST_S, needs_s):
            return None
        return min(self.left_s, USUAL_S, max(LEAST_S, self.left_s / max(1, self._waiting)))
