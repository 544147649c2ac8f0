"""The charts of a run of the perf suites: speed-ups, curves over sizes, figures beside their limits, history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tfgpu_doctor.bench.compare import Comparison
from tfgpu_doctor.model.facts.bench import Duel, Figure
from tfgpu_doctor.render.charts import Axis, Curve, Point, change_scale, course, even_axis, log_axis, short
from tfgpu_doctor.render.words import number

TONES = {
    "faster": "good", "not shown": "poor", "slower": "bad", "too noisy": "poor", "not run": "idle",
    "within": "good", "unstable": "poor", "no reference": "idle", "missing": "bad",
}  # fmt: skip
_LEAST_POINTS = 3  # fewer are no curve
_MOST_DIGITS = 16  # of a size
_TIMES = "times as fast"  # how units of ratios begin: they have a line at which both sides are equal


@dataclass(frozen=True)
class Bar:
    """An interval around a value, in per cent of the chart's width."""

    low: float
    at: float
    high: float
    tone: str


@dataclass(frozen=True)
class Share:
    """A figure beside what it could be at most, in per cent of the chart's width."""

    length: float
    reached: float | None  # the most that was measured on this machine
    peak: float | None  # what the data sheet says


def speed_up_axis(duels: Sequence[Duel]) -> Axis:
    """One scale for all duels, so that they can be compared by eye."""
    return log_axis([1.0, *(end for duel in duels if duel.interval for end in duel.interval)], unit="x")


def speed_up(duel: Duel, axis: Axis) -> Bar | None:
    """The ratio of a duel with its interval; None where it was not measured."""
    if duel.ratio is None or duel.interval is None:
        return None
    return Bar(axis.at(duel.interval[0]), axis.at(duel.ratio), axis.at(duel.interval[1]), TONES[duel.verdict])


def change_axis(comparisons: Sequence[Comparison]) -> Axis:
    """One scale for all changes, which are told in per cent."""
    ends = [end for each in comparisons if each.interval for end in each.interval]
    return change_scale([0.97, 1.03, *ends])


def change(comparison: Comparison, axis: Axis) -> Bar | None:
    """The change of a duel with its interval; None where there is nothing to compare with."""
    if comparison.change is None or comparison.interval is None:
        return None
    low, high = comparison.interval
    return Bar(axis.at(low), axis.at(comparison.change), axis.at(high), TONES[comparison.standing])


def trend(comparison: Comparison) -> tuple[Point, ...]:
    """The ratios of earlier runs, oldest first, and of this one at the end."""
    if comparison.change is None or comparison.reference is None or not comparison.trend:
        return ()
    return course([*comparison.trend, comparison.reference * comparison.change])


def share(figure: Figure) -> Share | None:
    """A figure beside its limits; None where it has none."""
    limits = [each for each in (figure.limit, figure.measured_limit) if each and each > 0]
    if not limits:
        return None
    axis = Axis(0.0, max(*limits, figure.value), logarithmic=False)
    reached, peak = (axis.at(each) if each else None for each in (figure.measured_limit, figure.limit))
    return Share(axis.at(figure.value), reached, peak)


def curves(figures: Sequence[Figure]) -> tuple[list[Curve], list[Figure]]:
    """A curve for each row of figures that differ by a number alone (`batch of 16`, `batch of 64`), and what no curve shows."""
    found: dict[tuple[str, str, str, str], list[tuple[int, Figure]]] = {}
    for figure in figures:
        if parts := _numbered(figure):
            found.setdefault((figure.suite, parts[0], figure.unit, figure.device), []).append((parts[1], figure))
    rows = {key: sorted(row, key=lambda pair: pair[0]) for key, row in found.items() if len(row) >= _LEAST_POINTS}
    marks = {key: _standing_out(key, figures) for key in rows}
    drawn = {id(figure) for row in rows.values() for _, figure in row} | {id(mark) for mark in marks.values()}
    rest = [figure for figure in figures if id(figure) not in drawn]
    return [_curve(key[1], row, marks[key]) for key, row in rows.items()], rest


def _numbered(figure: Figure) -> tuple[str, int] | None:
    name, _, size = figure.name.rpartition(" ")
    return (name, int(size)) if name and size.isdecimal() and len(size) < _MOST_DIGITS and int(size) > 0 else None


def _title(name: str, figure: Figure) -> str:
    return f"{name.removesuffix(' of')}{f' on {figure.device}' if figure.device else ''}"


def _standing_out(key: tuple[str, str, str, str], figures: Sequence[Figure]) -> Figure | None:
    """The crossover or the knee of that row."""
    suite, name, _, device = key
    names = (f"crossover of {name}", f"knee of the {name.removesuffix(' of')} size")
    return next((each for each in figures if (each.suite, each.device) == (suite, device) and each.name in names), None)


def _curve(name: str, row: Sequence[tuple[int, Figure]], outstanding: Figure | None) -> Curve:
    first = row[0][1]
    ratios = first.unit.startswith(_TIMES)
    sizes, values = [float(size) for size, _ in row], [figure.value for _, figure in row]
    x = log_axis(sizes, at=sizes)
    y = log_axis([1.0, *values], unit="x") if ratios else even_axis(values)
    points = tuple(
        Point(x.at(size), round(100 - y.at(value), 2), f"{short(size)}: {short(value)} {first.unit}")
        for size, value in zip(sizes, values, strict=True)
    )
    at = next(
        (point for point, size in zip(points, sizes, strict=True) if outstanding and size == outstanding.value), None
    )
    return Curve(
        title=_title(name, first),
        x_name=outstanding.unit if outstanding else "size",
        y_name=first.unit,
        x=x,
        y=y,
        points=points,
        rows=tuple((f"{size:.0f}", number(value)) for size, value in zip(sizes, values, strict=True)),
        even=round(100 - y.at(1.0), 2) if ratios else None,
        mark=at,
        about=f"{outstanding.name}: {outstanding.value:.0f}, {outstanding.about}" if outstanding else first.about,
    )
