"""A run against earlier ones of the same machine."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Literal

import msgspec

from tfgpu_doctor.bench.ratio import Ratio
from tfgpu_doctor.bench.verdict import NOISE_LIMIT
from tfgpu_doctor.model.facts.bench import Bench, Duel

Standing = Literal["within", "slower", "faster", "unstable", "no reference", "missing"]
LEAST_CHANGE = 0.02  # less is no change that anybody would act on
MOST_UNSEEN = 0.1  # a slowdown by so much has to be ruled out for `within`
_RUNS_FOR_SPREAD = 4  # from so many earlier runs on, their own spread counts as well
_MAD_TO_SIGMA = 1.4826  # of a normal distribution
_SURE = 1.96  # of a normal distribution, 95 %
_LEAST_SPREAD = 0.015  # standard deviation of a ratio's logarithm between quiet runs (tools/measure_duels.py)
# More of it where others take all processors in one run and none in the other: of duels that had not changed, run
# again and again on 2 processors from idle to overloaded, some moved by 11 to 17 %.
_MOVED_BY_OTHER_WORK = 0.2
_TOLD_FROM = 0.1  # so much of other work is worth a word


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """A duel's ratio now against its ratio then. `change`: 0.9 is ten per cent slower than the reference."""

    suite: str
    name: str
    standing: Standing
    change: float | None = None
    interval: tuple[float, float] | None = None  # of the change, 95 %
    reference: float | None = None  # the ratio then
    runs: int = 0  # earlier runs that it was compared with
    trend: tuple[float, ...] = ()  # the ratios of the earlier runs, oldest first
    reason: str = ""


def compare(now: Bench, reference: Bench, earlier: Sequence[Bench] = ()) -> list[Comparison]:
    """Every duel of either run. `earlier` are runs of the same machine, the reference among them or not.

    What is compared is how many times as fast the challenger is than its baseline: both sides were measured
    interleaved, so that a machine which is busier today than then hardly shows as a change. As far as it does, since
    other work slows one side more than the other, the interval is wider.
    """
    old = {duel.key: duel for duel in reference.duels}
    new = {duel.key: duel for duel in now.duels}
    history = [{duel.key: duel for duel in run.duels} for run in earlier]
    found = [_standing(duel, old.get(key), [run[key] for run in history if key in run]) for key, duel in new.items()]
    return found + [_missing(duel, "it did not run") for key, duel in old.items() if key not in new and duel.ratio]


def _missing(duel: Duel, why: str) -> Comparison:
    return Comparison(suite=duel.suite, name=duel.name, standing="missing", reference=duel.ratio, reason=why)


def _standing(now: Duel, then: Duel | None, earlier: Sequence[Duel]) -> Comparison:
    if not (now.ratio and now.interval):
        if then and then.ratio:
            return _missing(now, now.reason)
        return Comparison(
            suite=now.suite, name=now.name, standing="no reference", reason="it was measured neither time"
        )
    if not (then and then.ratio and then.interval):
        why = "the reference does not have it" if then is None else f"it was not measured then: {then.reason}"
        return Comparison(suite=now.suite, name=now.name, standing="no reference", reason=why)
    ratios = [duel.ratio for duel in earlier if duel.ratio]
    low, change, high = _change(now, then, ratios)
    standing, reason = _judge(low, change, high)
    reason += _told_of_other_work(now, then)
    return Comparison(
        suite=now.suite, name=now.name, standing=standing, change=change, interval=(low, high), reference=then.ratio,
        runs=len(ratios), trend=tuple(ratios), reason=reason,
    )  # fmt: skip


def _change(now: Duel, then: Duel, earlier: Sequence[float]) -> tuple[float, float, float]:
    """Low end, value and high end of the change."""
    assert now.ratio and then.ratio
    moved = _MOVED_BY_OTHER_WORK * abs((now.other_work or 0.0) - (then.other_work or 0.0))
    error = math.hypot(_error(now), _error(then), max(_LEAST_SPREAD, _spread(earlier)), moved)
    change = math.log(now.ratio / then.ratio)
    return math.exp(change - _SURE * error), math.exp(change), math.exp(change + _SURE * error)


def _error(duel: Duel) -> float:
    """The standard error of the ratio's logarithm; bursts of other work that outlast the duel are not in its rounds."""
    assert duel.ratio and duel.interval
    return Ratio(duel.ratio, *duel.interval).log_error * (1 + (duel.other_work or 0.0))


def _told_of_other_work(now: Duel, then: Duel) -> str:
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


def _judge(low: float, change: float, high: float) -> tuple[Standing, str]:
    interval = f"{change:.2f} of the reference's speed-up, 95 % interval {low:.2f} to {high:.2f}"
    if (high - low) / (2 * change) <= NOISE_LIMIT:  # what a wider one says to one side may be chance
        if high < 1 - LEAST_CHANGE:
            return "slower", interval
        if low > 1 + LEAST_CHANGE:
            return "faster", interval
    if low < 1 - MOST_UNSEEN:
        return "unstable", f"{interval}: a slowdown by {MOST_UNSEEN:.0%} is not ruled out"
    return "within", interval
