"""A timer that can replay earlier measurements, so that pytest-benchmark stores the times of a comparison."""

from __future__ import annotations

import time
from collections.abc import Sequence


class ReplayTimer:
    """The performance counter, except during a replay: then the readings come in pairs, one given time apart."""

    def __init__(self) -> None:
        self._readings: list[float] = []

    def __call__(self) -> float:
        """Return the current reading in seconds."""
        return self._readings.pop(0) if self._readings else time.perf_counter()

    def replay(self, times_s: Sequence[float]) -> None:
        """Return the next readings in pairs, each pair one of these times apart."""
        for seconds in times_s:
            self._readings += [0.0, seconds]

    def stop(self) -> None:
        """Return to the performance counter."""
        self._readings.clear()


TIMER = ReplayTimer()
