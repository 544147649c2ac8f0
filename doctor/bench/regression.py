"""Compare a run with earlier runs on the same machine."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from tfgpu_doctor.bench.ratio import Ratio
from tfgpu_doctor.bench.verdict import NOISE_LIMIT
from tfgpu_doctor.model.facts.bench import Bench, Comparison

Status = Literal["within", "slower", "faster", "unstable", "no reference", "missing"]
LEAST_CHANGE = 0.02  # a smaller change is not actionable
MOST_UNSEEN = 0.1  # a slowdown by this much has to be ruled out for `within`
_RUNS_FOR_SPREAD = 8  # with at least this many earlier runs, their own spread counts as well,
_WIDER = 1.5  # if it is more than this many times the usual: fewer runs, or less, show it too poorly
_MAD_TO_SIGMA = 1.4826  # for a normal distribution
_NORMAL = statistics.NormalDist()
_SURE = 1.96  # 95 % of a normal distribution
_LEAST_SPREAD = 0.015  # standard deviation of a ratio's logarithm between quiet runs (tools/measure_comparisons.py)
_LEVEL = 0.05  # the chance that a run without a change has any `slower`; likewise any `faster`
# The spread of this machine comes from what changed in the other direction: that shows chance, whatever became slower.
_LEAST_FOR_OWN_SPREAD = 10  # comparisons
_FREEDOM = 0.4  # degrees of freedom per comparison: 2 / 5, as 2 z^2 of half a normal distribution has the variance 5
_FARTHEST = 4.0  # what changed by more standard errors counts as this many: it is no chance
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
    reference: float | None = None  # the ratio in the reference; of several runs, their mean
    measured_again: bool = False  # it looked changed, and `change` is the mean of two measurements
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

    @property
    def z(self) -> float:
        """The change in standard errors."""
        return self.log / self.error


_Table = Mapping[str, Comparison]


def compare(
    now: Bench, references: Sequence[Bench], earlier: Sequence[Bench] = (), again: Bench | None = None
) -> list[Regression]:
    """Return the status of every comparison of the run or of a reference, which may be several runs.

    `earlier`: runs of the same machine, with or without the references. `again`: a second measurement of what looked
    changed (`suspects`).

    The function compares ratios (how many times as fast the candidate is as its baseline). Both sides were measured
    interleaved, so a busier machine hardly appears as a change. Because other work may still slow one side more than
    the other, it widens the interval. A run has dozens of comparisons: what is `slower` or `faster` is chosen among all of
    them, so that a run without a change rarely has any. docs/calibration.md shows how rarely.
    """
    new, second = _table(now), _table(again or Bench())
    old = [_table(run) for run in references]
    history = [_table(run) for run in earlier]
    ratios = {key: [run[key].ratio or 0.0 for run in history if key in run and run[key].ratio] for key in new}
    first = {key: _change([comparison], old, ratios[key]) for key, comparison in new.items()}
    known = {key: change for key, change in first.items() if change}
    suspected = {*_suspects(known)}
    changes = dict(known)
    if again:
        for key in suspected & second.keys():
            changes[key] = _change([new[key], second[key]], old, ratios[key]) or known[key]
    spreads = {way: _own_spread(known, way) for way in (1, -1)}
    sure = {*_sure(changes, suspected, 1, spreads[1]), *_sure(changes, suspected, -1, spreads[-1])}
    found = [
        _status(each, [run[key] for run in old if key in run], changes.get(key), ratios[key], key in sure)
        for key, each in new.items()
    ]
    told = [
        msgspec.structs.replace(row, measured_again=key in suspected & second.keys())
        for key, row in zip(new, found, strict=True)
    ]
    lost = {key: each for run in old for key, each in run.items() if key not in new and each.ratio}
    return told + [_missing(comparison, "it did not run") for comparison in lost.values()]


def suspects(now: Bench, references: Sequence[Bench], earlier: Sequence[Bench] = ()) -> list[str]:
    """Return the keys of the comparisons that look changed if each is judged alone; a second measurement tells."""
    old, history = [_table(run) for run in references], [_table(run) for run in earlier]
    changes = {
        key: _change([each], old, [run[key].ratio or 0.0 for run in history if key in run and run[key].ratio])
        for key, each in _table(now).items()
    }
    return _suspects({key: change for key, change in changes.items() if change})


def _suspects(changes: Mapping[str, _Change]) -> list[str]:
    least = _NORMAL.inv_cdf(1 - _LEVEL)
    return [key for key, each in changes.items() if abs(each.z) > least]


def _table(run: Bench) -> dict[str, Comparison]:
    return {comparison.key: comparison for comparison in run.comparisons}


def _missing(comparison: Comparison, why: str) -> Regression:
    return Regression(
        suite=comparison.suite, name=comparison.name, status="missing", reference=comparison.ratio, reason=why
    )


def _is_measured(comparison: Comparison) -> bool:
    return bool(comparison.ratio and comparison.interval)


def _status(
    now: Comparison, then: Sequence[Comparison], change: _Change | None, ratios: Sequence[float], is_sure: bool
) -> Regression:
    if not _is_measured(now):
        if before := next((each for each in then if each.ratio), None):
            return msgspec.structs.replace(_missing(now, now.reason), reference=before.ratio)
        return Regression(
            suite=now.suite, name=now.name, status="no reference", reason="it was not measured in either run"
        )
    if change is None:
        why = f"it was not measured in the reference: {then[0].reason}" if then else "it is not in the reference"
        return Regression(suite=now.suite, name=now.name, status="no reference", reason=why)
    low, middle, high = change.interval
    status, reason = _judge(low, middle, high, is_sure)
    reason += _told_of_other_work(now, then)
    return Regression(
        suite=now.suite, name=now.name, status=status, change=middle, interval=(low, high), reference=_mean_ratio(then),
        runs=len(ratios), trend=tuple(ratios), reason=reason,
    )  # fmt: skip


def _mean_ratio(comparisons: Sequence[Comparison]) -> float:
    """Return the geometric mean of those that were measured."""
    return statistics.geometric_mean([each.ratio for each in comparisons if each.ratio and each.interval])


def _change(now: Sequence[Comparison], old: Sequence[_Table], earlier: Sequence[float]) -> _Change | None:
    """Return the change of a ratio, and its error: all runs vary from run to run. None if one side was not measured."""
    key = now[0].key
    new = [each for each in now if _is_measured(each)]
    then = [run[key] for run in old if key in run and _is_measured(run[key])]
    if not new or not then:
        return None
    moved = _MOVED_BY_OTHER_WORK * abs(_other_work(new) - _other_work(then))
    spread = max(_LEAST_SPREAD, _spread(earlier)) * math.sqrt(1 / len(new) + 1 / len(then))
    log = math.log(_mean_ratio(new) / _mean_ratio(then))
    return _Change(log, math.hypot(_error(new), _error(then), spread, moved))


def _own_spread(changes: Mapping[str, _Change], way: int) -> float:
    """Return how many times as much as assumed the changes vary that cannot be called changed in that direction.

    1 is as assumed. The changes in the other direction are half of what chance does: the mean of their squares, over all
    comparisons, is half the variance. 0 with too few comparisons.
    """
    if len(changes) < _LEAST_FOR_OWN_SPREAD:
        return 0.0
    others = [min(max(0.0, -way * each.z), _FARTHEST) for each in changes.values()]
    return math.sqrt(2 * statistics.fmean(each**2 for each in others))


def _sure(changes: Mapping[str, _Change], suspected: Collection[str], way: int, own_spread: float) -> list[str]:
    """Return the changes in one direction that are none of chance (Holm, Scandinavian Journal of Statistics 6, 1979).

    What is not suspected counts among them all the same: so the choice holds for all comparisons of the run.
    """
    chances = []
    for key, each in changes.items():
        if key not in suspected:
            continue
        far = way * each.z
        if own_spread and far > 0:
            far = min(far, normal_of(far / own_spread, _FREEDOM * len(changes)))
        chances.append((1 - _NORMAL.cdf(far), key))
    found: list[str] = []
    for left, (chance, key) in zip(range(len(changes), 0, -1), sorted(chances), strict=False):
        if chance > _LEVEL / left:
            break
        found.append(key)
    return found


def normal_of(t: float, freedom: float) -> float:
    """Return how many standard deviations of a normal distribution are as rare as Student's t with that freedom; t > 0.

    The approximation is from Wallace: Bounds on Normal Approximations to Student's and the Chi-Square Distributions,
    Annals of Mathematical Statistics 30 (1959).
    """
    return (8 * freedom + 1) / (8 * freedom + 3) * math.sqrt(freedom * math.log1p(t * t / freedom))


def _error(comparisons: Sequence[Comparison]) -> float:
    """Return the standard error of the mean of the ratios' logarithms, from their intervals.

    Other work outlasts the rounds of a comparison, which therefore show too little of it.
    """
    squares = []
    for each in comparisons:
        assert each.ratio and each.interval
        error = Ratio(each.ratio, *each.interval).log_error(len(each.process_ratios))
        squares.append((error * (1 + (each.other_work or 0.0))) ** 2)
    return math.sqrt(sum(squares)) / len(squares)


def _other_work(comparisons: Sequence[Comparison]) -> float:
    return statistics.fmean(each.other_work or 0.0 for each in comparisons)


def _told_of_other_work(now: Comparison, then: Sequence[Comparison]) -> str:
    shares = (now.other_work or 0.0, _other_work(then))
    if max(shares) < _TOLD_FROM:
        return ""
    return f"; other processes used {shares[0]:.0%} of the CPU time, and {shares[1]:.0%} in the reference"


def _spread(ratios: Sequence[float]) -> float:
    """Return how much the ratio's logarithm varies from run to run (robust standard deviation); 0 if as usual."""
    if len(ratios) < _RUNS_FOR_SPREAD:
        return 0.0
    logs = [math.log(each) for each in ratios]
    middle = statistics.median(logs)
    seen = _MAD_TO_SIGMA * statistics.median(abs(each - middle) for each in logs)
    return seen if seen > _WIDER * _LEAST_SPREAD else 0.0


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
