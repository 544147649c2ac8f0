"""Compare a run with earlier runs on the same machine."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from tfgpu_doctor.bench.ratio import Ratio
from tfgpu_doctor.bench.verdict import NOISE_LIMIT
from tfgpu_doctor.model.facts.bench import Bench, Comparison

Status = Literal["within", "slower", "faster", "unstable", "no reference", "missing"]
LEAST_CHANGE = 0.02  # a smaller change is not actionable
MOST_UNSEEN = 0.1  # a slowdown by this much has to be ruled out for `within`
_RUNS_FOR_SPREAD = 4  # with at least this many earlier runs, their own spread counts as well
_MAD_TO_SIGMA = 1.4826  # for a normal distribution
_SURE = 1.96  # 95 % of a normal distribution
_LEAST_SPREAD = 0.015  # standard deviation of a ratio's logarithm between quiet runs (tools/measure_comparisons.py)
_LEVEL = 0.05  # the chance that a run without a change has any `slower`; likewise any `faster`
# Additional deviation if other processes use all CPUs in one run and none in the other: among unchanged comparisons that
# ran repeatedly on 2 CPUs, from idle to overloaded, some changed by 11 to 17 %.
_MOVED_BY_OTHER_WORK = 0.2
_TOLD_FROM = 0.1  # other work is reported from this share on


class Regression(msgspec.Struct, frozen=True, kw_only=True):
    """The ratio of a comparison now against the reference. `change`: 0.9 is 10 percent slower than the reference."""

    suite: str
    name: str
    status: Status
    change: float | None = None
    interval: tuple[float, float] | None = None  # of the change, 95 %
    reference: float | None = None  # the ratio in the reference
    runs: int = 0  # number of earlier runs that it was compared with
    trend: tuple[float, ...] = ()  # the ratios of the earlier runs, oldest first
    reason: str = ""


class _Change(NamedTuple):
    """The logarithm of a change, and its standard error."""

    log: float
    error: float

    @property
    def interval(self) -> tuple[float, float, float]:
        """The low end, the value and the high end of the change, 95 %."""
        wide = _SURE * self.error
        return math.exp(self.log - wide), math.exp(self.log), math.exp(self.log + wide)


def compare(now: Bench, reference: Bench, earlier: Sequence[Bench] = ()) -> list[Regression]:
    """Return the status of every comparison of either run. `earlier`: runs of the same machine, with or without the reference.

    The function compares ratios (how many times as fast the candidate is as its baseline). Both sides were measured
    interleaved, so a busier machine hardly appears as a change. Because other work may still slow one side more than
    the other, it widens the interval. A run has dozens of comparisons: what is `slower` or `faster` is chosen among all of
    them, so that a run without a change rarely has any.
    """
    old = {comparison.key: comparison for comparison in reference.comparisons}
    new = {comparison.key: comparison for comparison in now.comparisons}
    history = [{comparison.key: comparison for comparison in run.comparisons} for run in earlier]
    ratios = {key: [run[key].ratio or 0.0 for run in history if key in run and run[key].ratio] for key in new}
    changes = {
        key: _change(comparison, then, ratios[key])
        for key, comparison in new.items()
        if _is_measured(comparison) and (then := old.get(key)) and _is_measured(then)
    }
    sure = {*_sure(changes, 1), *_sure(changes, -1)}
    found = [
        _status(comparison, old.get(key), changes.get(key), ratios[key], key in sure) for key, comparison in new.items()
    ]
    return found + [
        _missing(comparison, "it did not run") for key, comparison in old.items() if key not in new and comparison.ratio
    ]


def _missing(comparison: Comparison, why: str) -> Regression:
    return Regression(
        suite=comparison.suite, name=comparison.name, status="missing", reference=comparison.ratio, reason=why
    )


def _is_measured(comparison: Comparison) -> bool:
    return bool(comparison.ratio and comparison.interval)


def _status(
    now: Comparison, then: Comparison | None, change: _Change | None, ratios: Sequence[float], is_sure: bool
) -> Regression:
    if not _is_measured(now):
        if then and then.ratio:
            return _missing(now, now.reason)
        return Regression(
            suite=now.suite, name=now.name, status="no reference", reason="it was not measured in either run"
        )
    if then is None or change is None:
        why = "it is not in the reference" if then is None else f"it was not measured in the reference: {then.reason}"
        return Regression(suite=now.suite, name=now.name, status="no reference", reason=why)
    low, middle, high = change.interval
    status, reason = _judge(low, middle, high, is_sure)
    reason += _told_of_other_work(now, then)
    return Regression(
        suite=now.suite, name=now.name, status=status, change=middle, interval=(low, high), reference=then.ratio,
        runs=len(ratios), trend=tuple(ratios), reason=reason,
    )  # fmt: skip


def _change(now: Comparison, then: Comparison, earlier: Sequence[float]) -> _Change:
    """Return the change of a ratio, and its error: both runs vary from run to run."""
    assert now.ratio and then.ratio
    moved = _MOVED_BY_OTHER_WORK * abs((now.other_work or 0.0) - (then.other_work or 0.0))
    spread = math.sqrt(2) * max(_LEAST_SPREAD, _spread(earlier))
    return _Change(math.log(now.ratio / then.ratio), math.hypot(_error(now), _error(then), spread, moved))


def _sure(changes: Mapping[str, _Change], way: int) -> list[str]:
    """Return the changes in one direction that are none of chance (Holm, Scandinavian Journal of Statistics 6, 1979)."""
    normal = statistics.NormalDist()
    chances = sorted((normal.cdf(-way * each.log / each.error), key) for key, each in changes.items())
    found: list[str] = []
    for left, (chance, key) in zip(range(len(chances), 0, -1), chances, strict=True):
        if chance > _LEVEL / left:
            break
        found.append(key)
    return found


def _error(comparison: Comparison) -> float:
    """Return the standard error of the ratio's logarithm, including other work that outlasts the comparison's rounds."""
    assert comparison.ratio and comparison.interval
    return Ratio(comparison.ratio, *comparison.interval).log_error * (1 + (comparison.other_work or 0.0))


def _told_of_other_work(now: Comparison, then: Comparison) -> str:
    shares = (now.other_work or 0.0, then.other_work or 0.0)
    if max(shares) < _TOLD_FROM:
        return ""
    return f"; other processes used {shares[0]:.0%} of the CPU time, and {shares[1]:.0%} in the reference"


def _spread(ratios: Sequence[float]) -> float:
    """Return how much the ratio's logarithm varies from run to run (robust standard deviation); 0 with too few runs."""
    if len(ratios) < _RUNS_FOR_SPREAD:
        return 0.0
    logs = [math.log(each) for each in ratios]
    middle = statistics.median(logs)
    return _MAD_TO_SIGMA * statistics.median(abs(each - middle) for each in logs)


def _judge(low: float, change: float, high: float, is_sure: bool) -> tuple[Status, str]:
    interval = f"{change:.2f} of the reference's speed-up, 95 % interval {low:.2f} to {high:.2f}"
    if is_sure and (high - low) / (2 * change) <= NOISE_LIMIT:  # a wider interval may be on one side by chance
        if high < 1 - LEAST_CHANGE:
            return "slower", interval
        if low > 1 + LEAST_CHANGE:
            return "faster", interval
    if low < 1 - MOST_UNSEEN:
        return "unstable", f"{interval}: a slowdown by {MOST_UNSEEN:.0%} is not ruled out"
    return "within", interval
