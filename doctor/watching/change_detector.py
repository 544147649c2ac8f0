"""Whether the program looks different from outside than when it was last recorded."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Sequence

from tfgpu_doctor.watching.held_gpus import held
from tfgpu_doctor.watching.reading import GpuReading, Reading

_NOW = 3  # looks that are compared
_BEFORE = 5
# What counts as a change: by so much, in the unit of the value.
_CHANGES = {"cpu": 0.25, "queued": 0.25, "throttled": 0.2, "io_stalled": 0.2, "memory_stalled": 0.1, "gpu": 0.25}


class ChangeDetector:
    """The last looks, and how they were when the program was last recorded."""

    def __init__(self) -> None:
        self._looks: deque[dict[str, float]] = deque(maxlen=_BEFORE)
        self._recorded: dict[str, float] = {}

    def add(self, reading: Reading, gpus: Sequence[GpuReading]) -> None:
        """Add a look."""
        whole = max(1.0, reading.cpus or reading.machine_cpus or 1.0)
        used = [gpu.utilization for gpu in held(gpus) if gpu.utilization is not None]
        values = {
            "cpu": reading.cpu / whole,
            "queued": None if reading.queued is None else reading.queued / whole,
            "throttled": reading.throttled, "io_stalled": reading.io_stalled,
            "memory_stalled": reading.memory_stalled, "gpu": statistics.fmean(used) if used else None,
        }  # fmt: skip
        self._looks.append({name: value for name, value in values.items() if value is not None})

    def recorded(self) -> None:
        """The program was recorded just now."""
        self._recorded = self._means(_BEFORE)

    @property
    def changed(self) -> bool:
        """Whether the last looks differ from those of the last recording."""
        if len(self._looks) < _NOW or not self._recorded:
            return False
        now = self._means(_NOW)
        return any(
            abs(value - self._recorded[name]) > _CHANGES[name] for name, value in now.items() if name in self._recorded
        )

    def _means(self, count: int) -> dict[str, float]:
        looks = list(self._looks)[-count:]
        names = set.intersection(*map(set, looks)) if looks else set()
        return {name: statistics.fmean(look[name] for look in looks) for name in names}
