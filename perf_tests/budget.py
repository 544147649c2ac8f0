"""The time budget of a run, and the share of it for each comparison."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import NamedTuple

LEAST_S = 3.0  # less shows one process nothing of what wanders (docs/calibration.md)
MOST_S = 20.0
USUAL_S = 5.0
_PATTERN = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h)?")
_LATER_START_S = 6.0  # at most, of a process that starts when the files of TensorFlow are in memory already
_FOR_COMPARISONS = 0.75  # of the time; the rest is for figures and checks
_FROM_S = 180.0  # a budget for more than the fewest processes
_UNITS = {None: 1, "s": 1, "m": 60, "min": 60, "h": 3600}


def parse_budget(text: str) -> float | None:
    """Return the seconds of "60s", "5m", "90"; None for "full". Raises ValueError."""
    if text.strip() == "full":
        return None
    found = _PATTERN.fullmatch(text.strip())
    if not found or float(found.group(1)) <= 0:
        raise ValueError(f"a budget is a time such as 60s or 5m, or full; not {text!r}")
    return float(found.group(1)) * _UNITS[found.group(2)]


class Passes(NamedTuple):
    """In how many processes, one after the other, a run measures each comparison, and for how many seconds in each."""

    processes: int
    seconds: float


def passes_for(budget_s: float | None) -> Passes:
    """Return what the budget allows; each row keeps what docs/calibration.md promises."""
    if budget_s is None:
        return Passes(7, 1.0)
    return Passes(3, 0.5) if budget_s < _FROM_S else Passes(5, 0.3 if budget_s < 5 * _FROM_S else 1.0)


class Budget:
    """The time left until `ends` (of `clock`) for `waiting` comparisons; without an end each takes the time it needs.

    `processes`: this is the first of so many processes that measure the same.
    """

    def __init__(
        self, ends: float | None, waiting: int = 0, clock: Callable[[], float] = time.time, processes: int = 1
    ) -> None:
        self._ends, self._waiting, self._clock = ends, waiting, clock
        self._processes, self._began = processes, clock()

    @property
    def left_s(self) -> float:
        """The seconds left."""
        return float("inf") if self._ends is None else self._ends - self._clock()

    def _leave_time(self) -> None:
        """End early, if this is the first of several processes that do the same: leave the others their time."""
        if self._ends is None or self._processes == 1:
            return
        now = self._clock()
        starts_s = (self._processes - 1) * min(now - self._began, _LATER_START_S)
        self._ends = now + max(0.0, _FOR_COMPARISONS * (self._ends - now) - starts_s) / self._processes
        self._processes = 1

    def expect(self, comparisons: int) -> None:
        """Set how many comparisons share the time left."""
        self._waiting = comparisons

    def one_is_done(self) -> None:
        """Count one waiting comparison as finished, measured or not."""
        self._waiting -= 1

    def share_s(self, needs_s: float = 0.0, fixed_s: float | None = None) -> float | None:
        """Return the seconds for the next comparison; None if less time is left than it needs, preparation included.

        `fixed_s`: its seconds in each of several processes, which must all measure alike.
        """
        self._leave_time()
        if fixed_s is not None:
            return None if self.left_s < max(fixed_s, needs_s) else fixed_s
        if self._ends is None:
            return MOST_S
        if self.left_s < max(LEAST_S, needs_s):
            return None
        return min(self.left_s, USUAL_S, max(LEAST_S, self.left_s / max(1, self._waiting)))
