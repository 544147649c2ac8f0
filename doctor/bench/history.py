"""The history of a machine: how the ratio of each comparison changed from run to run."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Literal

import msgspec

from tfgpu_doctor.model.facts.bench import Bench

Trend = Literal["rising", "falling", "steady", "too few runs"]
LEAST_RUNS = 6  # with fewer, three equal steps in one direction are not rare
LEAST_STEP = 0.002  # per run; a smaller trend is not actionable


class PastRun(msgspec.Struct, frozen=True, kw_only=True):
    """A saved run: when it was saved (seconds since 1970), and under which name."""

    kept: float
    name: str
    bench: Bench


class ComparisonHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The ratios of one comparison, oldest first, each with the index in `History.runs` of the run that measured it."""

    suite: str
    name: str
    runs: tuple[int, ...]
    ratios: tuple[float, ...]
    median: float
    spread: float  # half the distance between the quartiles, as a share of the median
    trend: Trend
    step: float | None = None  # relative change per run, if there are enough runs


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A summary of one run."""

    kept: float
    name: str
    comparisons: int
    faster: int


class History(msgspec.Struct, frozen=True, kw_only=True):
    """All saved runs of one machine; without a `place` where no run of any machine is saved."""

    schema: int = 2
    place: str
    runs: tuple[RunSummary, ...]
    comparisons: tuple[ComparisonHistory, ...]


def history_of(place: str, runs: Sequence[PastRun]) -> History:
    """Return the history of one machine from its runs, oldest first."""
    series: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for number, run in enumerate(runs):
        for comparison in run.bench.comparisons:
            if comparison.ratio:
                series.setdefault((comparison.suite, comparison.name), []).append((number, comparison.ratio))
    return History(
        place=place,
        runs=tuple(_summary(run) for run in runs),
        comparisons=tuple(_history(*key, points) for key, points in sorted(series.items())),
    )


def _summary(run: PastRun) -> RunSummary:
    verdicts = [comparison.verdict for comparison in run.bench.comparisons]
    return RunSummary(kept=run.kept, name=run.name, comparisons=len(verdicts), faster=verdicts.count("faster"))


def _history(suite: str, name: str, points: list[tuple[int, float]]) -> ComparisonHistory:
    numbers, ratios = zip(*points, strict=True)
    middle = statistics.median(ratios)
    quarters = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else (middle, middle, middle)
    trend, step = trend_of(numbers, ratios)
    return ComparisonHistory(
        suite=suite, name=name, runs=numbers, ratios=ratios, median=middle,
        spread=(quarters[2] - quarters[0]) / (2 * middle), trend=trend, step=step,
    )  # fmt: skip


def trend_of(runs: Sequence[int], ratios: Sequence[float]) -> tuple[Trend, float | None]:
    """Return the trend of the ratios and their relative change per run, from the median of the slopes between all pairs.

    A trend is reported if the whole 95 % interval of that slope is on one side of zero (Theil 1950; Sen, Journal of the
    American Statistical Association 63, 1968, page 1379: the estimate is robust against single outliers).
    """
    if len(ratios) < LEAST_RUNS:
        return "too few runs", None
    from scipy.stats import theilslopes

    slope, _, low, high = theilslopes([math.log(ratio) for ratio in ratios], runs, 0.95)
    step = math.exp(float(slope)) - 1
    if abs(step) >= LEAST_STEP and low > 0:
        return "rising", step
    if abs(step) >= LEAST_STEP and high < 0:
        return "falling", step
    return "steady", step
