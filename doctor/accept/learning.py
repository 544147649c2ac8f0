"""Make a profile from repeated measurements of a known-good machine.

The rule: each run provides the value that a later run is compared with (the lower end of a comparison's interval, a share
of a peak). The bound is the lower one-sided 99 % prediction bound for one further run, from the logarithms of the runs:
mean minus t(0.99, n-1) times s times the square root of 1 + 1/n (Hahn, Meeker: Statistical Intervals, 1991, chapter 4.8;
one new value). It is at least 5 % below the mean: consecutive runs vary less than runs on different days.
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
LEAST_MARGIN = 0.05  # minimum distance of a bound below the mean
MOST_MARGIN = 0.30  # a bound further below is useless: the runs vary too much
_CALMER = "measure while nothing else runs, with more --runs or a longer `budget`; or set no minimum for it:"
_DIGITS = 3
# Quantiles of Student's t for 0.99 and 2 to 19 degrees of freedom:
# https://www.itl.nist.gov/div898/handbook/eda/section3/eda3672.htm
T99 = (
    6.965, 4.541, 3.747, 3.365, 3.143, 2.998, 2.896, 2.821, 2.764, 2.718,
    2.681, 2.650, 2.624, 2.602, 2.583, 2.567, 2.552, 2.539,
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


def bound_of(runs: Sequence[float]) -> Bound:
    """Return the bound for one further run; `runs` are at least three numbers above 0."""
    logs = [math.log(each) for each in runs]
    spread = statistics.stdev(logs) * math.sqrt(1 + 1 / len(logs)) * T99[len(logs) - LEAST_RUNS]
    mean = statistics.fmean(logs)
    value = math.exp(mean - max(spread, -math.log1p(-LEAST_MARGIN)))
    return Bound(_rounded_down(value), tuple(runs), 1 - value / math.exp(mean))


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
    bounds = [
        _bounds([_without(leave_out, measured(facts)) for facts in runs])
        for measured in (_speed_ups, _peak_fractions, _metric_fractions)
    ]
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


def _bounds(runs: Sequence[Mapping[str, float]]) -> dict[str, Bound]:
    """Return a bound for each value that every run has; a value that only some runs have is an error."""
    seen = {
        name: sum(run.get(name, 0.0) > 0 for run in runs) for name in dict.fromkeys(key for run in runs for key in run)
    }
    if some := {name: f"{name} (in {count} of {len(runs)})" for name, count in seen.items() if count < len(runs)}:
        raise NotLearnt(f"not every run has {', '.join(some.values())}; {_CALMER} {_leaving_out(some)}")
    return {name: bound_of([run[name] for run in runs]) for name in seen}


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
