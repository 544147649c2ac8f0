"""A timer that can say over what was measured before: so that pytest-benchmark keeps what a comparison measured."""

from __future__ import annotations

import time
from collections.abc import Sequence


class ReplayTimer:
    """The usual clock, but while it replays: then every second reading lies one of the given times later."""

    def __init__(self) -> None:
        self._readings: list[float] = []

    def __call__(self) -> float:
        """Seconds."""
        return self._readings.pop(0) if self._readings else time.perf_counter()

    def replay(self, times_s: Sequence[float]) -> None:
        """The next readings come in pairs, each pair as far apart as one of these times."""
        for seconds in times_s:
            self._readings += [0.0, seconds]

    def stop(self) -> None:
        """Be the usual clock again."""
        self._readings.clear()


TIMER = ReplayTimer()
