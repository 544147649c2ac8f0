"""The time of one call on a device, from readings that are long enough for what the clock and the waiting cost."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from typing import Any

from tfgpu_doctor.perf_tests.notes import alive

LEAST_READING_S = 0.02  # a large GPU needs 40 us for a product of 2048 x 2048: one call would measure its launch
MOST_CALLS = 2000
_ROUNDS = 9


class Stopwatch:
    """Times calls. `wait` returns when the devices have finished; what it costs by itself does not count."""

    def __init__(self, wait: Callable[[], object], least_s: float = LEAST_READING_S) -> None:
        self._wait, self._least_s = wait, least_s
        wait()
        self._idle_s = statistics.median(_seconds(wait) for _ in range(_ROUNDS))

    def readings(self, call: Callable[[], Any], *, seconds: float = 0.0, rounds: int = _ROUNDS) -> list[float]:
        """Return the seconds of one call in each reading, after a first one: at least so many, for at least so long."""
        calls = self.calls(call)
        found: list[float] = []
        began = time.perf_counter()
        while len(found) < rounds or time.perf_counter() - began < seconds:
            found.append(self._read(call, calls))
            alive()
        return found

    def per_call(self, call: Callable[[], Any]) -> float:
        """Return the median seconds of one call."""
        return statistics.median(self.readings(call))

    def calls(self, call: Callable[[], Any]) -> int:
        """Return how many calls fill a reading: a few more each time, as one call may be mostly its launch."""
        calls = 1
        while calls < MOST_CALLS:
            took_s = self._read(call, calls) * calls
            if took_s >= self._least_s:
                break
            calls = min(MOST_CALLS, max(2 * calls, math.ceil(calls * self._least_s / max(took_s, 1e-6))))
        return calls

    def _read(self, call: Callable[[], Any], calls: int) -> float:
        started = time.perf_counter()
        for _ in range(calls):
            call()
        self._wait()
        return max(time.perf_counter() - started - self._idle_s, 1e-9) / calls


def _seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started
