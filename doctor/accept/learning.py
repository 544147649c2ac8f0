"""Make a profile from repeated measurements of a known-good machine.

The rule: each run provides the value that a later run is compared with (the lower end of a comparison's interval, a share
of a peak). The bounds are lower prediction bounds for one further run on another day, from the logarithms of the runs, and
hold together: an equal machine meets all of them with 95 %. So each bound has Bonferroni's level, 1 - 0.05 / values
(Hahn, Meeker: Statistical Intervals, 1991, chapter 4.8). As few runs show a spread poorly, the variance of a value is the
larger of its own and the mean of its kind. docs/calibration.md shows how many equal machines are accepted.
"""

from __future__ import annotations

import math
import shlex
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from packaging.version import InvalidVersion, Version

from tfgpu_doctor.accept.rules_machine import driver_of, gpu_memory_of, listed_gpus, tensorflow_of
from tfgpu_doctor.accept.rules_stress import peak_shares
from tfgpu_doctor.accept.rules_suites import share_of, shown
from tfgpu_doctor.accept.terms import PRECISIONS
from tfgpu_doctor.accept.vocabulary import comparisons_named, metrics_named
from tfgpu_doctor.model.facts import Facts

Value = TypeVar("Value")
LEAST_RUNS, MOST_RUNS = 3, 20
DAYS = 0.015  # standard deviation of a value's logarithm from day to day, which consecutive runs do not show
MOST_MARGIN = 0.30  # a bound further below is useless: the runs vary too much
_CALMER = "measure while nothing else runs, with more --runs or a longer `budget`; or set no minimum for it:"
_DIGITS = 3
_LEVEL = 0.05  # the chance that an equal machine misses any bound
# Quantiles of Student's t for 0.95 and 2 to 19 degrees of freedom:
# https://www.itl.nist.gov/div898/handbook/eda/section3/eda3672.htm
T95 = (
    2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796,
    1.782, 1.771, 1.761, 1.753, 1.746, 1.740, 1.734, 1.729,
)  # fmt: skip


class NotLearnt(ValueError):
    """No profile can be made from these runs; the message says what varied, and by how much."""


@dataclass(frozen=True)
class Bound:
    """A bound, and the runs that it comes from."""

    value: float
    runs: tuple[float, ...]
    margin: float  # its distance below the mean of the runs, as a share


@dataclass(frozen=True)
class Learnt:
    """The values that all runs share, and the bounds for those that vary."""

    gpus: int
    models: tuple[str, ...]
    gpu_memory_bytes: int
    driver: str
    tensorflow: str
    speed_ups: Mapping[str, Bound]
    peak_fractions: Mapping[str, Bound]
    metric_fractions: Mapping[str, Bound]


def bounds_of(table: Mapping[str, Sequence[float]], values: int) -> dict[str, Bound]:
    """Return a bound for each value of one kind, from its runs: at least three numbers above 0, equally many of each.

    `values`: the number of all values of the machine, which has to meet all bounds.
    """
    logs = {name: [math.log(each) for each in runs] for name, runs in table.items()}
    variances = {name: statistics.variance(each) for name, each in logs.items()}
    pooled = statistics.fmean(variances.values()) if variances else 0.0
    found = {}
    for name, runs in table.items():
        count = len(runs)
        spread = math.sqrt(max(variances[name], pooled) * (1 + 1 / count) + 2 * DAYS**2)
        margin = quantile(len(table) * (count - 1), values) * spread
        value = math.exp(statistics.fmean(logs[name]) - margin)
        found[name] = Bound(_rounded_down(value), tuple(runs), 1 - math.exp(-margin))
    return found


def quantile(freedom: int, values: int) -> float:
    """Return Student's t for 1 - 0.05 / values; off by 2 % at most with 4 degrees of freedom, by 0.1 % with 10.

    The expansion is from Abramowitz, Stegun: Handbook of Mathematical Functions, 1964, 26.7.5.
    """
    if values == 1:
        return T95[min(freedom, MOST_RUNS - 1) - 2]
    x = statistics.NormalDist().inv_cdf(1 - _LEVEL / values)
    return (
        x
        + (x**3 + x) / (4 * freedom)
        + (5 * x**5 + 16 * x**3 + 3 * x) / (96 * freedom**2)
        + (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / (384 * freedom**3)
        + (79 * x**9 + 776 * x**7 + 1482 * x**5 - 1920 * x**3 - 945 * x) / (92160 * freedom**4)
    )


def _rounded_down(value: float) -> float:
    scale = 10.0 ** (_DIGITS - 1 - math.floor(math.log10(value)))
    return math.floor(value * scale) / scale


def learn(runs: Sequence[Facts], leave_out: Collection[str] = ()) -> Learnt:
    """Return what a profile can require of a machine, from several examinations of it. Raises NotLearnt.

    `leave_out`: names that get no bound, as accepted by `can_be_left_out`.
    """
    if not LEAST_RUNS <= len(runs) <= MOST_RUNS:
        raise NotLearnt(f"{LEAST_RUNS} to {MOST_RUNS} runs are required; there are {len(runs)}")
    names = _the_same("the GPUs", [tuple(listed_gpus(facts)) for facts in runs])
    memory = min(_the_same("the memory of the GPUs", [tuple(gpu_memory_of(facts)) for facts in runs]), default=0)
    driver = _version("the driver", [driver_of(facts) for facts in runs])
    tensorflow = _version("TensorFlow", [tensorflow_of(facts) for facts in runs])
    tables = [
        _values([_without(leave_out, measured(facts)) for facts in runs])
        for measured in (_speed_ups, _peak_fractions, _metric_fractions)
    ]
    bounds = [bounds_of(table, sum(map(len, tables))) for table in tables]
    wide = {name: bound for table in bounds for name, bound in table.items() if bound.margin > MOST_MARGIN}
    if wide:
        told = "; ".join(_too_wide(name, bound) for name, bound in wide.items())
        raise NotLearnt(f"the runs vary too much: {told}; {_CALMER} {_leaving_out(wide)}")
    return Learnt(len(names), tuple(dict.fromkeys(names)), memory, driver, tensorflow, *bounds)


def can_be_left_out(name: str) -> bool:
    """Return whether the name can get a bound: "suite/comparison", "suite/metric", or a precision."""
    return name in PRECISIONS or ("/" in name and bool(comparisons_named(name) or metrics_named(name)))


def _without(names: Collection[str], measured: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in measured.items() if name not in names}


def _leaving_out(names: Iterable[str]) -> str:
    return " ".join(f"--leave-out {shlex.quote(name)}" for name in names)


def _the_same(what: str, seen: Sequence[Value]) -> Value:
    if len(set(seen)) > 1:
        raise NotLearnt(f"{what} changed from run to run: {', '.join(map(str, dict.fromkeys(seen)))}")
    return seen[0]


def _version(what: str, seen: Sequence[str]) -> str:
    found = _the_same(what, seen)
    try:
        if found:
            Version(found)
    except InvalidVersion as error:
        raise NotLearnt(f"{what} reports the version {found[:80]!r}, which cannot be compared") from error
    return found


def _too_wide(name: str, bound: Bound) -> str:
    told = ", ".join(f"{each:.3g}" for each in bound.runs)
    return f"{name} ({told}): a bound would be {bound.margin:.0%} below the mean, the maximum is {MOST_MARGIN:.0%}"


def _values(runs: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
    """Return the runs of each value that every run has; a value that only some runs have is an error."""
    seen = {
        name: sum(run.get(name, 0.0) > 0 for run in runs) for name in dict.fromkeys(key for run in runs for key in run)
    }
    if some := {name: f"{name} (in {count} of {len(runs)})" for name, count in seen.items() if count < len(runs)}:
        raise NotLearnt(f"not every run has {', '.join(some.values())}; {_CALMER} {_leaving_out(some)}")
    return {name: [run[name] for run in runs] for name in seen}


def _speed_ups(facts: Facts) -> dict[str, float]:
    """Return the proven ratio of each comparison whose candidate is faster; the others set no minimum."""
    comparisons = [
        comparison for comparison in (facts.bench.comparisons if facts.bench else ()) if comparison.verdict == "faster"
    ]
    found = {
        f"{comparison.suite}/{comparison.name}": least
        for comparison in comparisons
        if (least := shown(comparison)) is not None
    }
    return {key: least for key, least in found.items() if comparisons_named(key)}


def _peak_fractions(facts: Facts) -> dict[str, float]:
    """Return the share of the slowest GPU in each precision, if all shares are known."""
    found: dict[str, float] = {}
    for precision in PRECISIONS if facts.stress else ():
        shares = peak_shares(facts.stress, precision).values() if facts.stress else ()
        known = [share for share in shares if isinstance(share, float)]
        if known and len(known) == len(shares):
            found[precision] = min(1.0, *known)
    return found


def _metric_fractions(facts: Facts) -> dict[str, float]:
    """Return the smallest share of each metric that has a hardware limit."""
    found: dict[str, float] = {}
    for metric in facts.bench.metrics if facts.bench else ():
        key, share = f"{metric.suite}/{metric.name}", share_of(metric)
        if share and metrics_named(key):
            found[key] = min(share, found.get(key, 1.0))
    return found
