"""Whole runs: how often `bench --compare` has any false `slower`, and how many equal machines a learnt profile accepts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.stats import norm, t

from calibration.scenarios import Array, Random
from tfgpu_doctor.accept.bounds import bounds_of
from tfgpu_doctor.bench.ratio import T975, ratio_of_processes
from tfgpu_doctor.bench.regression import compare
from tfgpu_doctor.bench.verdict import NOISE_LIMIT
from tfgpu_doctor.model.facts.bench import Bench, Comparison

COMPARISONS = 35
PROCESSES = 3  # the fewest of which a run has intervals
SPREAD = 0.015  # of a ratio's logarithm from run to run
SLOWED = 0.9  # the planted change
_LEVEL = 0.05
_LEAST_CHANGE = 0.02
_SURE = 1.96
# The spread of all changes comes from this quantile of their sizes: up to a fifth of them may be real.
_SHOWN = 0.8
_NORMAL = float(norm.ppf((1 + _SHOWN) / 2))
# Degrees of freedom of that spread: 1 / (2 v), where v = p (1 - p) / (n f^2 q^2) is the relative variance of a quantile.
_FREEDOM = COMPARISONS * (2 * float(norm.pdf(_NORMAL)) * _NORMAL) ** 2 / (2 * _SHOWN * (1 - _SHOWN))


@dataclass(frozen=True)
class Runs:
    """Logarithms of measured ratios: whole runs x comparisons. All are unchanged, but for the first few that are planted.

    `earlier`: runs x saved runs x comparisons; the first is the reference. `again`: a second measurement of the run.
    `parts`: the same three, with what each process measured as the last axis; None: the error is known.
    """

    now: Array
    again: Array
    earlier: Array
    error: float  # of each measurement, as its interval says
    parts: tuple[Array, Array, Array] | None = None

    @property
    def spread(self) -> float:
        """The standard deviation that a judge assumes of each log ratio: from run to run, and of the measurement."""
        return math.hypot(SPREAD, self.error)


Judge: TypeAlias = Callable[[Runs], Array]  # which comparisons are `slower`: runs x comparisons, 0 or 1


def simulate(random: Random, number: int, *, spread: float, error: float, saved: int, planted: int) -> Runs:
    """Return that many whole runs; each log ratio has the two independent normal errors, and the first few are slower."""
    true = np.where(np.arange(COMPARISONS) < planted, math.log(SLOWED), 0.0)
    scale = math.hypot(spread, error)
    now, again = true + scale * random.standard_normal((2, number, COMPARISONS))
    return Runs(now, again, scale * random.standard_normal((number, saved, COMPARISONS)), error)


def simulate_processes(
    random: Random, number: int, *, spread: float, error: float, saved: int, planted: int, processes: int
) -> Runs:
    """Return the same, where each ratio is the mean of so many processes, and `error` is what these vary by.

    The judge does not know the error: it has the interval of the few values.
    """
    true = np.where(np.arange(COMPARISONS) < planted, math.log(SLOWED), 0.0)

    def measured(*shape: int) -> Array:
        runs = spread * random.standard_normal((*shape, COMPARISONS, 1))
        found: Array = runs + error * random.standard_normal((*shape, COMPARISONS, processes))
        return found

    now, again = true[:, None] + measured(number), true[:, None] + measured(number)
    parts = (now, again, measured(number, saved))
    of_mean = error / math.sqrt(processes)
    means: list[Array] = [each.mean(axis=-1) for each in parts]
    return Runs(means[0], means[1], means[2], of_mean, parts)


def _bench_of_processes(logs: Array) -> Bench:
    """A run with the intervals of its processes, whose logarithms are the last axis."""
    ratios = [ratio_of_processes(row) for row in logs.tolist()]
    return Bench(
        comparisons=tuple(
            Comparison(
                suite="any", name=str(which), verdict="faster", ratio=each.value, interval=(each.low, each.high),
                process_ratios=tuple(row),
            )
            for which, (each, row) in enumerate(zip(ratios, np.exp(logs).tolist(), strict=True))
        )
    )  # fmt: skip


def _bench(logs: Array, error: float) -> Bench:
    wide = math.exp(_SURE * error)
    return Bench(
        comparisons=tuple(
            Comparison(suite="any", name=str(which), verdict="faster", ratio=ratio, interval=(ratio / wide, ratio * wide))
            for which, ratio in enumerate(np.exp(logs).tolist())
        )
    )  # fmt: skip


def engine(runs: Runs) -> Array:
    """Let the engine's `compare` judge each run against all saved runs; what looks changed is measured again."""
    found = np.zeros(runs.now.shape)
    made: Callable[[Array], Bench] = _bench_of_processes if runs.parts else lambda logs: _bench(logs, runs.error)
    for row, (now, again, earlier) in enumerate(
        zip(*(runs.parts or (runs.now, runs.again, runs.earlier)), strict=True)
    ):
        for each in compare(made(now), [made(one) for one in earlier], (), made(again)):
            found[row, int(each.name)] = each.status == "slower"
    return found


def holm(chances: Array, level: float = _LEVEL) -> Array:
    """Return which hypotheses are rejected in each row: Holm, Scandinavian Journal of Statistics 6 (1979)."""
    order = np.argsort(chances, axis=-1)
    due = level / (chances.shape[-1] - np.arange(chances.shape[-1]))
    passed = np.logical_and.accumulate(np.take_along_axis(chances, order, axis=-1) <= due, axis=-1)
    rejected = np.zeros_like(chances)
    np.put_along_axis(rejected, order, passed.astype(float), axis=-1)
    return rejected


def _slower(change: Array, error: float, tested: Array | bool = True) -> Array:
    """Holm's choice among changes that are normal with that standard error; a change below 2 % never counts."""
    chances = np.where(tested, norm.cdf(change / error), 1.0)
    slower: Array = holm(chances) * (change < math.log(1 - _LEAST_CHANGE))
    return slower


def two_runs(runs: Runs) -> Array:
    """Both runs have the spread, and Holm chooses."""
    return _slower(runs.now - runs.earlier[:, 0], math.sqrt(2) * runs.spread)


def mean_of_saved(runs: Runs) -> Array:
    """The same, against the mean of all saved runs."""
    saved = runs.earlier.shape[1]
    return _slower(runs.now - runs.earlier.mean(axis=1), math.sqrt(1 + 1 / saved) * runs.spread)


def measured_again(runs: Runs) -> Array:
    """What looks slower (5 % alone) is measured again in a new run; Holm judges the mean of both measurements.

    The rejections are a subset of those of Holm's method on the means of all comparisons, so the error rate holds.
    """
    saved = runs.earlier.mean(axis=1)
    share = 1 / runs.earlier.shape[1]
    suspected = norm.cdf((runs.now - saved) / (math.sqrt(1 + share) * runs.spread)) < _LEVEL
    change = (runs.now + runs.again) / 2 - saved
    return _slower(change, math.sqrt(0.5 + share) * runs.spread, suspected)


def own_spread(runs: Runs) -> Array:
    """The same as `measured_again`, and a change must also be rare among the changes of all comparisons.

    Most comparisons are unchanged, so their changes show the spread from run to run of this machine (the empirical
    null of Efron, Journal of the American Statistical Association 99 (2004)).
    """
    saved, share = runs.earlier.mean(axis=1), 1 / runs.earlier.shape[1]
    first = runs.now - saved
    seen = np.quantile(np.abs(first), _SHOWN, axis=-1, keepdims=True) / _NORMAL
    suspected = norm.cdf(first / (math.sqrt(1 + share) * runs.spread)) < _LEVEL
    change = (runs.now + runs.again) / 2 - saved
    known = norm.cdf(change / (math.sqrt(0.5 + share) * runs.spread))
    shown = t.cdf(change / (seen * math.sqrt((0.5 + share) / (1 + share))), _FREEDOM)
    chances = np.where(suspected, np.maximum(known, shown), 1.0)
    slower: Array = holm(chances) * (change < math.log(1 - _LEAST_CHANGE))
    return slower


JUDGES: tuple[tuple[str, Judge], ...] = (
    ("today", engine),
    ("both runs' spread, Holm", two_runs),
    ("the same, mean of the saved runs", mean_of_saved),
    ("the same, suspects measured again", measured_again),
    ("the same, and rare among all changes", own_spread),
)


@dataclass(frozen=True)
class Accepted:
    """Shares of equal later runs that a profile accepts, and how far its bounds are below the mean (median)."""

    each: float
    whole: float
    margin: float


Bounds: TypeAlias = Callable[[Array], Array]  # logarithms of the bounds, from those of the runs (the last axis)


def engine_bounds(seen: Array) -> Array:
    """Return the bounds that the engine learns."""
    tables = [{str(place): each for place, each in enumerate(row)} for row in np.exp(seen).tolist()]
    return np.log([[each.value for each in bounds_of(table, len(table)).values()] for table in tables])


def family_bounds(days: float) -> Bounds:
    """Return bounds that 95 % of equal machines meet as a whole, if values differ by `days` from one day to another.

    Bonferroni's level for each bound, and the larger of its own and the pooled variance: few runs show a spread poorly.
    """

    def bounds(seen: Array) -> Array:
        values, runs = seen.shape[1:]
        own = seen.var(axis=-1, ddof=1)
        spread = np.maximum(own, own.mean(axis=1, keepdims=True)) * (1 + 1 / runs)
        quantile = t.ppf(1 - _LEVEL / values, values * (runs - 1))
        found: Array = seen.mean(axis=-1) - quantile * np.sqrt(spread + 2 * days**2)
        return found

    return bounds


@dataclass(frozen=True)
class Machine:
    """How values vary, as standard deviations of their logarithms. `uneven`: of some 2 times as much, of others half.

    `processes`: a value is the lower end of the interval of `count` processes that vary by this; 0: it is measured exactly.
    """

    name: str
    runs: float  # from run to run
    days: float = 0.0  # from one day to another
    uneven: bool = False
    processes: float = 0.0
    count: int = PROCESSES

    def spreads(self) -> Array:
        """Return the spread of each value from run to run."""
        factors = [0.5, 1.0, 2.0] if self.uneven else [1.0]
        return self.runs * np.resize(factors, COMPARISONS)


MACHINES = (
    Machine("1.5 % from run to run", SPREAD),
    Machine("3 % from run to run", 2 * SPREAD),
    Machine("0.75, 1.5 or 3 % from run to run", SPREAD, uneven=True),
    Machine("0.5 % from run to run, 1.5 % from day to day", 0.005, SPREAD),
    Machine("1.5 % from run to run, 1.5 % from day to day", SPREAD, SPREAD),
    Machine("1.5 % from run to run, lower ends of intervals, 0.5 %", SPREAD, processes=0.005),
    Machine("1.5 % from run to run, lower ends of intervals, 1 %", SPREAD, processes=0.01),
    Machine("1.5 % from run to run, lower ends of intervals, 3 %", SPREAD, processes=0.03),
    Machine("the same, of 7 processes", SPREAD, processes=0.03, count=7),
    Machine("1.5 % from run to run and day to day, lower ends, 1 %", SPREAD, SPREAD, processes=0.01),
)


def lower_ends(random: Random, shape: tuple[int, ...], error: float, count: int = PROCESSES) -> Array:
    """Return how far the proven ratio is from the true one, in logarithms, if so many processes vary by `error`.

    It is the lower end of Student's interval, as far below once more if the interval is too noisy, as `accept` has it.
    """
    logs = error * random.standard_normal((*shape, count))
    half = T975[count - 2] * logs.std(axis=-1, ddof=1) / math.sqrt(count)
    found: Array = logs.mean(axis=-1) - np.where(np.sinh(half) > NOISE_LIMIT, 2 * half, half)
    return found


def learnt(random: Random, number: int, *, runs: int, machine: Machine, bounds: Bounds) -> Accepted:
    """Learn from consecutive runs of one day, and judge one run of an equal machine on another day."""
    spreads, shape = machine.spreads(), (number, COMPARISONS)
    seen = spreads[:, None] * random.standard_normal((*shape, runs))
    later = np.hypot(spreads, math.sqrt(2) * machine.days) * random.standard_normal(shape)
    if machine.processes:
        seen += lower_ends(random, seen.shape, machine.processes, machine.count)
        later += lower_ends(random, later.shape, machine.processes, machine.count)
    due = bounds(seen)
    margins = 1 - np.exp(due - seen.mean(axis=-1))
    kept = later >= due
    return Accepted(float(kept.mean()), float(kept.all(axis=1).mean()), float(np.median(margins)))
