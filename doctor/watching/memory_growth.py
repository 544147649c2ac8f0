"""Whether the memory that the program holds grows until there is none left, and does not only fill."""

from __future__ import annotations

import itertools
import statistics
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from tfgpu_doctor.watching.reading import GpuReading, Reading
from tfgpu_doctor.watching.units import duration, size

WARM_UP_S, WINDOW_S = 120.0, 300.0
_BINS = 30  # medians in a window: single looks do not count
_MOST_BINS = 420
_HORIZON_S = 12 * 3600.0  # what lasts longer is no trouble today
_SEEN = 0.25  # of the time that is left: a longer way needs a longer look
_LONGEST_WINDOWS = 12.0
_LEAST_BYTES, _LEAST_SHARE = 16 << 20, 0.02  # of what is held
_EVEN = 0.3  # of a mean fifth: what each fifth of the window must grow by
_JUMP = 0.4  # of the growth, at once: a larger buffer, no leak
_LEVELS_OFF = 0.8  # the second half against the first
_NOISE = 0.125  # of the growth

Point = tuple[float, float]  # s, bytes


@dataclass
class Growth:
    """One series of bytes."""

    warm_up_s: float = WARM_UP_S
    window_s: float = WINDOW_S
    _first_s: float | None = None
    _bin: list[Point] = field(default_factory=list)
    _points: deque[Point] = field(default_factory=lambda: deque(maxlen=_MOST_BINS))
    _highest: float = 0.0  # of what lies before those that are kept, and of the warm-up
    _words: str = ""

    def add(self, at_s: float, held_bytes: int, limit_bytes: int | None) -> str:
        """Return how it grows; empty if it does not."""
        self._first_s = at_s if self._first_s is None else self._first_s
        self._bin.append((at_s, float(held_bytes)))
        if at_s - self._bin[0][0] < self.window_s / _BINS:
            return self._words
        middle = (
            statistics.median(at for at, _ in self._bin), statistics.median(held for _, held in self._bin)
        )  # fmt: skip
        self._bin.clear()
        if middle[0] - self._first_s < self.warm_up_s:
            self._highest = max(self._highest, middle[1])
            return ""
        if len(self._points) == _MOST_BINS:
            self._highest = max(self._highest, self._points[0][1])
        self._points.append(middle)
        self._words = self._judged(limit_bytes) if limit_bytes else ""
        return self._words

    def _judged(self, limit_bytes: int) -> str:
        last_s, held = self._points[-1]
        slope = _slope(self._last(self.window_s))
        if slope <= 0 or (limit_bytes - held) / slope > _HORIZON_S:
            return ""
        left_s = (limit_bytes - held) / slope
        looked_s = max(self.window_s, min(_LONGEST_WINDOWS * self.window_s, _SEEN * left_s))
        if last_s - self._points[0][0] < 0.95 * looked_s:
            return ""
        points = self._last(looked_s)
        earlier = [each for at, each in self._points if at < points[0][0]]
        if not grows(points, limit_bytes) or held <= max([self._highest, *earlier]):
            return ""
        slope = _slope(points)
        left_s = max(0.0, limit_bytes - held) / slope
        return (
            f"grows by {size(round(60 * slope))} a minute, from {size(round(points[0][1]))} to {size(round(held))} in "
            f"{duration(points[-1][0] - points[0][0])}; at this rate it reaches {{limit}} in {duration(left_s)}"
        )

    def _last(self, seconds: float) -> list[Point]:
        """The points of the last seconds, at most as many as a window has."""
        ends = self._points[-1][0]
        points = [each for each in self._points if each[0] > ends - seconds - 1e-6]
        size_ = -(-len(points) // _BINS)
        return [
            (statistics.fmean(at for at, _ in part), statistics.median(held for _, held in part))
            for part in (points[place : place + size_] for place in range(0, len(points), size_))
        ]


def grows(points: Sequence[Point], limit_bytes: float) -> bool:
    """Whether a series grows evenly: in each fifth, not by jumps, and without levelling off below the limit."""
    if len(points) < 10:
        return False
    slope = _slope(points)
    held, growth = points[-1][1], slope * (points[-1][0] - points[0][0])
    if growth < max(_LEAST_BYTES, _LEAST_SHARE * held):
        return False
    fifths = [statistics.median(held for _, held in part) for part in _parts(points, 5)]
    if any(later - earlier < _EVEN * growth / 5 for earlier, later in itertools.pairwise(fifths)):
        return False
    if max(later[1] - earlier[1] for earlier, later in itertools.pairwise(points)) > _JUMP * growth:
        return False
    middle = statistics.median(each - slope * at for at, each in points)
    if statistics.median(abs(each - slope * at - middle) for at, each in points) > _NOISE * growth:
        return False
    first, second = (_slope(part) for part in _parts(points, 2))
    ratio = second / first if first > 0 else 1.0
    return ratio >= _LEVELS_OFF or held + growth / 2 * ratio / (1 - ratio) > limit_bytes


def _parts(points: Sequence[Point], count: int) -> list[Sequence[Point]]:
    places = [round(each * len(points) / count) for each in range(count + 1)]
    return [points[begin:end] for begin, end in itertools.pairwise(places)]


def _slope(points: Sequence[Point]) -> float:
    """The median of all slopes between two points (Theil and Sen), in bytes a second."""
    slopes = [
        (later[1] - earlier[1]) / (later[0] - earlier[0])
        for earlier, later in itertools.combinations(points, 2)
        if later[0] > earlier[0]
    ]
    return statistics.median(slopes) if slopes else 0.0


class GrowthWatch:
    """The memory of the program, and what it holds on each GPU."""

    def __init__(self, *, warm_up_s: float = WARM_UP_S, window_s: float = WINDOW_S) -> None:
        self._times = warm_up_s, window_s
        self._series: dict[str, Growth] = {}

    def judge(self, reading: Reading, gpus: Sequence[GpuReading]) -> list[tuple[float, str, str]]:
        """How bad it is, the label and the evidence of each that grows."""
        limit, whose = reading.memory_limit_bytes, "the limit of"
        if limit is None:
            limit, whose = reading.machine_memory_bytes, "the machine's"
        rows = [("the program's memory", reading.memory_bytes, limit, whose)] if reading.memory_bytes else []
        rows += [
            (f"the program's memory on GPU {gpu.index}", gpu.own_bytes, gpu.total_bytes, "the GPU's")
            for gpu in gpus
            if gpu.own_bytes
        ]
        found = []
        for name, held, most, words in rows:
            series = self._series.setdefault(name, Growth(*self._times))
            if said := series.add(reading.at_s, held, most):
                share = min(1.0, held / most) if most else 0.0
                found.append((share, "memory_growth", f"{name} {said.format(limit=f'{words} {size(most or 0)}')}"))
        return found
