"""Positions in a chart, as percentages of its width and height, so that it fits any window."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_MARGIN = 0.06  # of the length of an axis, empty at each end
_STEPS = (1, 2, 5)  # ticks at these times a power of ten
_MOST_TICKS = 8
_ROOM_FOR_A_TICK = 18.0  # per cent of the axis: the width of "+20%" in a narrow column


@dataclass(frozen=True)
class Tick:
    """A mark on an axis: its position (per cent from the low end), and its label."""

    at: float
    text: str


@dataclass(frozen=True)
class Axis:
    """An axis from low to high, linear or logarithmic."""

    low: float
    high: float
    logarithmic: bool
    ticks: tuple[Tick, ...] = ()

    def at(self, value: float) -> float:
        """Return the position of a value in per cent from the low end; values outside the axis are placed at its end."""
        low, high, value = (self._scaled(each) for each in (self.low, self.high, value))
        share = (value - low) / (high - low) if high > low else 0.5
        return round(100 * min(1.0, max(0.0, share)), 2)

    def _scaled(self, value: float) -> float:
        return math.log(max(value, 1e-12)) if self.logarithmic else value


@dataclass(frozen=True)
class Point:
    """A point of a curve, in per cent from the left and from the top, and its label."""

    x: float
    y: float
    text: str


def course(values: Sequence[float]) -> tuple[Point, ...]:
    """Return the points of a small chart without axes: evenly spaced from left to right, labelled with two decimals."""
    axis, steps = log_axis(values), max(1, len(values) - 1)
    return tuple(
        Point(round(4 + 92 * place / steps, 2), round(100 - axis.at(value), 2), f"{value:.2f}")
        for place, value in enumerate(values)
    )


@dataclass(frozen=True)
class Curve:
    """A line through measured points, with its notable points."""

    title: str
    x_name: str
    y_name: str
    x: Axis
    y: Axis
    points: tuple[Point, ...]
    rows: tuple[tuple[str, str], ...]  # the same values as text, for a table
    even: float | None = None  # distance from the top of the line where both are equal
    mark: Point | None = None  # the crossover, the knee
    about: str = ""

    @property
    def lines(self) -> list[tuple[Point, Point]]:
        """The segments between consecutive points."""
        return list(zip(self.points, self.points[1:], strict=False))


def log_axis(values: Iterable[float], *, unit: str = "", at: Sequence[float] = ()) -> Axis:
    """Return a logarithmic axis that contains all values; its ticks are `at` the given values, else at round numbers."""
    known = [value for value in values if value > 0 and math.isfinite(value)] or [1.0]
    low, high = math.log10(min(known)), math.log10(max(known))
    spare = max(_MARGIN * (high - low), 0.03)
    axis = Axis(10 ** (low - spare), 10 ** (high + spare), logarithmic=True)
    return _with_ticks(axis, at or _round_ratios(axis), unit)


def even_axis(values: Iterable[float], *, unit: str = "") -> Axis:
    """Return a linear axis from 0 that contains all values."""
    high = max([value for value in values if math.isfinite(value)], default=1.0) or 1.0
    axis = Axis(0.0, high * (1 + _MARGIN), logarithmic=False)
    step = _round_up(axis.high / 5)
    return _with_ticks(axis, [step * count for count in range(int(axis.high / step) + 1)], unit)


def change_scale(ratios: Iterable[float]) -> Axis:
    """Return a logarithmic axis around 1, of a factor of at most 100, with ticks in per cent of change: -10 %, 0 %, +10 %."""
    furthest = max((abs(math.log(ratio)) for ratio in ratios if ratio > 0), default=0.0)
    furthest = min(furthest, math.log(100))
    axis = Axis(math.exp(-furthest * (1 + _MARGIN)), math.exp(furthest * (1 + _MARGIN)), logarithmic=True)
    step = _round_up((1 - axis.low) / 2)
    low, high = (math.floor(abs(end - 1) / step) for end in (axis.low, axis.high))
    places = range(-low, high + 1)
    ticks = [Tick(axis.at(1 + step * place), f"{100 * step * place:+.3g}%" if place else "0%") for place in places]
    return Axis(axis.low, axis.high, axis.logarithmic, _with_room(ticks))


def _with_room(ticks: Sequence[Tick]) -> tuple[Tick, ...]:
    """Return the middle tick, and on each side the ticks whose labels do not overlap the previous one's."""
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
    """Return the round numbers on the axis, only as many per power of ten as there is room for."""
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
    """Format a number in few characters: 0.25, 12, 4k, 3.2M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if letter == 'k' else size):.3g}{letter}"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
