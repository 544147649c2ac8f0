"""A run against earlier ones of the same machine."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Literal

import msgspec

from tfgpu_doctor.bench.ratio import Ratio
from tfgpu_doctor.bench.verdict import NOISE_LIMIT
from tfgpu_doctor.model.facts.bench import Bench, Comparison

Status = Literal["within", "slower", "faster", "unstable", "no reference", "missing"]
LEAST_CHANGE = 0.02  # less is no change that anybody would act on
MOST_UNSEEN = 0.1  # a slowdown by so much has to be ruled out for `within`
_RUNS_FOR_SPREAD = 4  # from so many earlier runs on, their own spread counts as well
_MAD_TO_SIGMA = 1.4826  # of a normal distribution
_SURE = 1.96  # of a normal distribution, 95 %
_LEAST_SPREAD = 0.015  # standard deviation of a ratio's logarithm between quiet runs (tools/measure_comparisons.py)
# More of it where others take all processors in one run and none in the other: of comparisons that had not changed, run
# again and again on 2 processors from idle to overloaded, some moved by 11 to 17 %.
_MOVED_BY_OTHER_WORK = 0.2
_TOLD_FROM = 0.1  # so much of other work is worth a word


class Regression(msgspec.Struct, frozen=True, kw_only=True):
    """A comparison's ratio now against its ratio then. `change`: 0.9 is ten per cent slower than the reference."""

    suite: str
    name: str
    status: Status
    change: float | None = None
    interval: tuple[float, float] | None = None  # of the change, 95 %
    reference: float | None = None  # the ratio then
    runs: int = 0  # earlier runs that it was compared with
    trend: tuple[float, ...] = ()  # the ratios of the earlier runs, oldest first
    reason: str = ""


def compare(now: Bench, reference: Bench, earlier: Sequence[Bench] = ()) -> list[Regression]:
    """Every comparison of either run. `earlier` are runs of the same machine, the reference among them or not.

    What is compared is how many times as fast the candidate is than its baseline: both sides were measured
    interleaved, so that a machine which is busier today than then hardly shows as a change. As far as it does, since
    other work slows one side more than the other, the interval is wider.
    """
    old = {comparison.key: comparison for comparison in reference.comparisons}
    new = {comparison.key: comparison for comparison in now.comparisons}
    history = [{comparison.key: comparison for comparison in run.comparisons} for run in earlier]
    found = [
        _status(comparison, old.get(key), [run[key] for run in history if key in run])
        for key, comparison in new.items()
    ]
    return found + [
        _missing(comparison, "it did not run") for key, comparison in old.items() if key not in new and comparison.ratio
    ]


def _missing(comparison: Comparison, why: str) -> Regression:
    return Regression(
        suite=comparison.suite, name=comparison.name, status="missing", reference=comparison.ratio, reason=why
    )


def _status(now: Comparison, then: Comparison | None, earlier: Sequence[Comparison]) -> Regression:
    if not (now.ratio and now.interval):
        if then and then.ratio:
            return _missing(now, now.reason)
        return Regression(suite=now.suite, name=now.name, status="no reference", reason="it was measured neither time")
    if not (then and then.ratio and then.interval):
        why = "the reference does not have it" if then is None else f"it was not measured then: {then.reason}"
        return Regression(suite=now.suite, name=now.name, status="no reference", reason=why)
    ratios = [comparison.ratio for comparison in earlier if comparison.ratio]
    low, change, high = _change(now, then, ratios)
    status, reason = _judge(low, change, high)
    reason += _told_of_other_work(now, then)
    return Regression(
        suite=now.suite, name=now.name, status=status, change=change, interval=(low, high), reference=then.ratio,
        runs=len(ratios), trend=tuple(ratios), reason=reason,
    )  # fmt: skip


def _change(now: Comparison, then: Comparison, earlier: Sequence[float]) -> tuple[float, float, float]:
    """Low end, value and high end of the change."""
    assert now.ratio and then.ratio
    moved = _MOVED_BY_OTHER_WORK * abs((now.other_work or 0.0) - (then.other_work or 0.0))
    error = math.hypot(_error(now), _error(then), max(_LEAST_SPREAD, _spread(earlier)), moved)
    change = math.log(now.ratio / then.ratio)
    return math.exp(change - _SURE * error), math.exp(change), math.exp(change + _SURE * error)


def _error(comparison: Comparison) -> float:
    """The standard error of the ratio's logarithm; bursts of other work that outlast the comparison are not in its rounds."""
    assert comparison.ratio and comparison.interval
    return Ratio(comparison.ratio, *comparison.interval).log_error * (1 + (comparison.other_work or 0.0))


def _told_of_other_work(now: Comparison, then: Comparison) -> str:
    shares = (now.other_work or 0.0, then.other_work or 0.0)
    if max(shares) < _TOLD_FROM:
        return ""
    return f"; others took {shares[0]:.0%} of the processors' time, then {shares[1]:.0%}"


def _spread(ratios: Sequence[float]) -> float:
    """How much the ratio's logarithm varies from run to run, as a robust standard deviation; 0 with too few runs."""
    if len(ratios) < _RUNS_FOR_SPREAD:
        return 0.0
    logs = [math.log(each) for each in ratios]
    middle = statistics.median(logs)
    return _MAD_TO_SIGMA * statistics.median(abs(each - middle) for each in logs)


def _judge(low: float, change: float, high: float) -> tuple[Status, str]:
    interval = f"{change:.2f} of the reference's speed-up, 95 % interval {low:.2f} to {high:.2f}"
    if (high - low) / (2 * change) <= NOISE_LIMIT:  # what a wider one says to one side may be chance
        if high < 1 - LEAST_CHANGE:
            return "slower", interval
        if low > 1 + LEAST_CHANGE:
            return "faster", interval
    if low < 1 - MOST_UNSEEN:
        return "unstable", f"{interval}: a slowdown by {MOST_UNSEEN:.0%} is not ruled out"
    return "within", interval
