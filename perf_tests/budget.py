"""The time that a run may take, and the share of it that each comparison gets."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

LEAST_S = 1.5  # less is no measurement
MOST_S = 20.0
USUAL_S = 5.0
_PATTERN = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h)?")
_UNITS = {None: 1, "s": 1, "m": 60, "min": 60, "h": 3600}


def parse_budget(text: str) -> float | None:
    """Seconds: "60s", "5m", "90"; None for "full". Raises ValueError."""
    if text.strip() == "full":
        return None
    found = _PATTERN.fullmatch(text.strip())
    if not found or float(found.group(1)) <= 0:
        raise ValueError(f"a budget is a time such as 60s or 5m, or full; not {text!r}")
    return float(found.group(1)) * _UNITS[found.group(2)]


class Budget:
    """What is left until `ends` (of `clock`), for `waiting` comparisons; without an end each takes what it needs."""

    def __init__(self, ends: float | None, waiting: int = 0, clock: Callable[[], float] = time.time) -> None:
        self._ends, self._waiting, self._clock = ends, waiting, clock

    @property
    def left_s(self) -> float:
        """Seconds left."""
        return float("inf") if self._ends is None else self._ends - self._clock()

    def expect(self, comparisons: int) -> None:
        """So many comparisons share what is left."""
        self._waiting = comparisons

    def one_is_done(self) -> None:
        """One of those that wait has come to its end, measured or not."""
        self._waiting -= 1

    def share_s(self, needs_s: float = LEAST_S) -> float | None:
        """What the next comparison may take; None where less is left than it needs, what it does before included."""
        if self._ends is None:
            return MOST_S
        if self.left_s < max(LEAST_S, needs_s):
            return None
        return min(self.left_s, USUAL_S, max(LEAST_S, self.left_s / max(1, self._waiting)))
