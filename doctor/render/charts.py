"""Where things lie in a chart: numbers to shares of its width and height, in per cent, so that it fits any window."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_MARGIN = 0.06  # of the length of an axis, free at either end
_STEPS = (1, 2, 5)  # ticks at these times a power of ten
_MOST_TICKS = 8
_ROOM_FOR_A_TICK = 18.0  # per cent of the axis, on which "+20%" is at home in a narrow column


@dataclass(frozen=True)
class Tick:
    """A mark on an axis: where (per cent from its low end), and what it says."""

    at: float
    text: str


@dataclass(frozen=True)
class Axis:
    """From the low to the high end, in even steps or (logarithmic) in even ratios."""

    low: float
    high: float
    logarithmic: bool
    ticks: tuple[Tick, ...] = ()

    def at(self, value: float) -> float:
        """Where a value lies, in per cent from the low end; what is outside lies on the edge."""
        low, high, value = (self._scaled(each) for each in (self.low, self.high, value))
        share = (value - low) / (high - low) if high > low else 0.5
        return round(100 * min(1.0, max(0.0, share)), 2)

    def _scaled(self, value: float) -> float:
        return math.log(max(value, 1e-12)) if self.logarithmic else value


@dataclass(frozen=True)
class Point:
    """A point of a curve, in per cent from the left and from the top, and what it says."""

    x: float
    y: float
    text: str


def course(values: Sequence[float]) -> tuple[Point, ...]:
    """The points of a small chart without axes: from left to right in even steps, with their values to two digits."""
    axis, steps = log_axis(values), max(1, len(values) - 1)
    return tuple(
        Point(round(4 + 92 * place / steps, 2), round(100 - axis.at(value), 2), f"{value:.2f}")
        for place, value in enumerate(values)
    )


@dataclass(frozen=True)
class Curve:
    """A line through measured points, with what stands out on it."""

    title: str
    x_name: str
    y_name: str
    x: Axis
    y: Axis
    points: tuple[Point, ...]
    rows: tuple[tuple[str, str], ...]  # the same as words, for a table
    even: float | None = None  # how far from the top the line lies at which both are equal
    mark: Point | None = None  # the crossover, the knee
    about: str = ""

    @property
    def lines(self) -> list[tuple[Point, Point]]:
        """From each point to the next."""
        return list(zip(self.points, self.points[1:], strict=False))


def log_axis(values: Iterable[float], *, unit: str = "", at: Sequence[float] = ()) -> Axis:
    """An axis of even ratios that holds all values; ticks `at` those given, else at round numbers."""
    known = [value for value in values if value > 0 and math.isfinite(value)] or [1.0]
    low, high = math.log10(min(known)), math.log10(max(known))
    spare = max(_MARGIN * (high - low), 0.03)
    axis = Axis(10 ** (low - spare), 10 ** (high + spare), logarithmic=True)
    return _with_ticks(axis, at or _round_ratios(axis), unit)


def even_axis(values: Iterable[float], *, unit: str = "") -> Axis:
    """An axis from 0 that holds all values."""
    high = max([value for value in values if math.isfinite(value)], default=1.0) or 1.0
    axis = Axis(0.0, high * (1 + _MARGIN), logarithmic=False)
    step = _round_up(axis.high / 5)
    return _with_ticks(axis, [step * count for count in range(int(axis.high / step) + 1)], unit)


def change_scale(ratios: Iterable[float]) -> Axis:
    """An axis of even ratios around 1, with ticks in per cent of change: -10 %, 0 %, +10 %. A hundredfold at most."""
    furthest = max((abs(math.log(ratio)) for ratio in ratios if ratio > 0), default=0.0)
    furthest = min(furthest, math.log(100))
    axis = Axis(math.exp(-furthest * (1 + _MARGIN)), math.exp(furthest * (1 + _MARGIN)), logarithmic=True)
    step = _round_up((1 - axis.low) / 2)
    low, high = (math.floor(abs(end - 1) / step) for end in (axis.low, axis.high))
    places = range(-low, high + 1)
    ticks = [Tick(axis.at(1 + step * place), f"{100 * step * place:+.3g}%" if place else "0%") for place in places]
    return Axis(axis.low, axis.high, axis.logarithmic, _with_room(ticks))


def _with_room(ticks: Sequence[Tick]) -> tuple[Tick, ...]:
    """The tick in the middle, and to either side those whose words do not run into the last one's."""
    middle = next(place for place, tick in enumerate(ticks) if tick.text == "0%")
    kept = [ticks[middle]]
    for side in (ticks[middle + 1 :], ticks[:middle][::-1]):
        last = ticks[middle]
        for tick in side:
            if abs(tick.at - last.at) >= _ROOM_FOR_A_TICK:
                kept.append(tick)
                last = tick
    return tuple(sorted(kept, key=lambda tick: tick.at))


def _round_ratios(axis: Axis) -> list[float]:
    """Round numbers within: as few to a power of ten as there is room for."""
    powers = range(math.floor(math.log10(axis.low)), math.ceil(math.log10(axis.high)) + 1)
    found: list[float] = []
    for steps in (_STEPS, (1, 3), (1,)):
        found = [
            step * 10.0**power for power in powers for step in steps if axis.low <= step * 10.0**power <= axis.high
        ]
        if len(found) <= _MOST_TICKS:
            return found
    return found[:: math.ceil(len(found) / _MOST_TICKS)]


def _round_up(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)


def _with_ticks(axis: Axis, values: Sequence[float], unit: str) -> Axis:
    ticks = tuple(Tick(axis.at(value), f"{short(value)}{unit}") for value in values)
    return Axis(axis.low, axis.high, axis.logarithmic, ticks)


def short(value: float) -> str:
    """A number in few characters: 0.25, 12, 4k, 3.2M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if letter == 'k' else size):.3g}{letter}"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
