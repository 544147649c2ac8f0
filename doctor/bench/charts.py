"""Charts for a run of the perf suites: speed-ups, curves by size, metrics with their limits, history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tfgpu_doctor.bench.regression import Regression
from tfgpu_doctor.model.facts.bench import Comparison, Metric
from tfgpu_doctor.render.charts import Axis, Curve, Point, change_scale, course, even_axis, log_axis, short
from tfgpu_doctor.render.words import number

TONES = {
    "faster": "good", "not shown": "poor", "slower": "bad", "too noisy": "poor", "not run": "idle",
    "within": "good", "unstable": "poor", "no reference": "idle", "missing": "bad",
}  # fmt: skip
_LEAST_POINTS = 3  # fewer points are not drawn as a curve
_MOST_DIGITS = 16  # of a size
_TIMES = "times as fast"  # prefix of the units of ratios, whose charts have a line where both sides are equal


@dataclass(frozen=True)
class Bar:
    """An interval around a value, in percent of the chart's width."""

    low: float
    at: float
    high: float
    tone: str


@dataclass(frozen=True)
class Share:
    """A metric and its upper limits, in percent of the chart's width."""

    length: float
    reached: float | None  # the maximum measured on this machine
    peak: float | None  # the limit from the data sheet


def speed_up_axis(comparisons: Sequence[Comparison]) -> Axis:
    """Return one scale for all comparisons, so that they can be compared visually."""
    return log_axis(
        [1.0, *(end for comparison in comparisons if comparison.interval for end in comparison.interval)], unit="x"
    )


def speed_up(comparison: Comparison, axis: Axis) -> Bar | None:
    """Return the ratio of a comparison with its interval; None if it was not measured."""
    if comparison.ratio is None or comparison.interval is None:
        return None
    return Bar(
        axis.at(comparison.interval[0]),
        axis.at(comparison.ratio),
        axis.at(comparison.interval[1]),
        TONES[comparison.verdict],
    )


def change_axis(regressions: Sequence[Regression]) -> Axis:
    """Return one scale for all changes, which are shown in percent."""
    ends = [end for each in regressions if each.interval for end in each.interval]
    return change_scale([0.97, 1.03, *ends])


def change(regression: Regression, axis: Axis) -> Bar | None:
    """Return the change of a comparison with its interval; None if there is nothing to compare with."""
    if regression.change is None or regression.interval is None:
        return None
    low, high = regression.interval
    return Bar(axis.at(low), axis.at(regression.change), axis.at(high), TONES[regression.status])


def trend(regression: Regression) -> tuple[Point, ...]:
    """Return the ratios of the earlier runs, oldest first, followed by this run's ratio."""
    if regression.change is None or regression.reference is None or not regression.trend:
        return ()
    return course([*regression.trend, regression.reference * regression.change])


def share(metric: Metric) -> Share | None:
    """Return a metric relative to its limits; None if it has no limits."""
    limits = [each for each in (metric.limit, metric.measured_limit) if each and each > 0]
    if not limits:
        return None
    axis = Axis(0.0, max(*limits, metric.value), logarithmic=False)
    reached, peak = (axis.at(each) if each else None for each in (metric.measured_limit, metric.limit))
    return Share(axis.at(metric.value), reached, peak)


def curves(metrics: Sequence[Metric]) -> tuple[list[Curve], list[Metric]]:
    """Return a curve for each series of metrics that differ only by a number (`batch of 16`, `batch of 64`), and the rest."""
    found: dict[tuple[str, str, str, str], list[tuple[int, Metric]]] = {}
    for metric in metrics:
        if parts := _numbered(metric):
            found.setdefault((metric.suite, parts[0], metric.unit, metric.device), []).append((parts[1], metric))
    rows = {key: sorted(row, key=lambda pair: pair[0]) for key, row in found.items() if len(row) >= _LEAST_POINTS}
    marks = {key: _standing_out(key, metrics) for key in rows}
    drawn = {id(metric) for row in rows.values() for _, metric in row} | {id(mark) for mark in marks.values()}
    rest = [metric for metric in metrics if id(metric) not in drawn]
    return [_curve(key[1], row, marks[key]) for key, row in rows.items()], rest


def _numbered(metric: Metric) -> tuple[str, int] | None:
    name, _, size = metric.name.rpartition(" ")
    return (name, int(size)) if name and size.isdecimal() and len(size) < _MOST_DIGITS and int(size) > 0 else None


def _title(name: str, metric: Metric) -> str:
    return f"{name.removesuffix(' of')}{f' on {metric.device}' if metric.device else ''}"


def _standing_out(key: tuple[str, str, str, str], metrics: Sequence[Metric]) -> Metric | None:
    """Return the crossover or the knee of a series, if it was measured."""
    suite, name, _, device = key
    names = (f"crossover of {name}", f"knee of the {name.removesuffix(' of')} size")
    return next((each for each in metrics if (each.suite, each.device) == (suite, device) and each.name in names), None)


def _curve(name: str, row: Sequence[tuple[int, Metric]], outstanding: Metric | None) -> Curve:
    first = row[0][1]
    ratios = first.unit.startswith(_TIMES)
    sizes, values = [float(size) for size, _ in row], [metric.value for _, metric in row]
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
