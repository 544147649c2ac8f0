"""Make a profile from repeated measurements of a known-good machine, or of several machines of one model.

Each run provides the value that a later run is compared with: the lower end of a comparison's interval, a share of a peak,
the value of the slowest GPU. `bounds` and `learning_models` make the minimums.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from packaging.version import InvalidVersion, Version

from tfgpu_doctor.accept.bounds import LEAST_RUNS, MOST_RUNS, Bound, bounds_of
from tfgpu_doctor.accept.learning_models import accepted_when_left_out, bounds_among, by_machine
from tfgpu_doctor.accept.learning_units import UNITS, in_units
from tfgpu_doctor.accept.quantities import QUANTITIES
from tfgpu_doctor.accept.rules_machine import driver_of, gpu_memory_of, listed_gpus, tensorflow_of
from tfgpu_doctor.accept.rules_stress import peak_shares
from tfgpu_doctor.accept.rules_suites import share_of, shown
from tfgpu_doctor.accept.terms import PRECISIONS, Profile
from tfgpu_doctor.accept.vocabulary import comparisons_named, metrics_named, suite_metric
from tfgpu_doctor.bench import suite_of
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.stress import STRESS_LEVELS

Value = TypeVar("Value")
MOST_MARGIN = 0.30  # a bound further below is useless: the runs vary too much
_CALMER = "measure while nothing else runs, with more --runs or a longer `budget`; or set no minimum for it:"


class NotLearnt(ValueError):
    """No profile can be made from these runs; the message says what varied, and by how much."""


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
    metrics: Mapping[str, Bound]  # in units
    machines: int = 1
    accepted: int | None = None  # of the machines, if each is judged by what was learned from the others

    @property
    def bounds(self) -> int:
        """How many there are."""
        return sum(map(len, (self.speed_ups, self.peak_fractions, self.metric_fractions, self.metrics)))


def learn(runs: Sequence[Facts], leave_out: Collection[str] = (), asked: Profile | None = None) -> Learnt:
    """Return what a profile can require of a machine, from several examinations of it. Raises NotLearnt.

    `leave_out`: names that get no bound, as accepted by `can_be_left_out`. `asked`: the profile that the new one extends;
    values that it does not measure get no bound.
    """
    machines = _machines(runs)
    names = _the_same("the GPUs", [tuple(listed_gpus(facts)) for facts in runs])
    memory = min(_the_same("the memory of the GPUs", [tuple(gpu_memory_of(facts)) for facts in runs]), default=0)
    driver = _driver([driver_of(facts) for facts in runs], several=len(machines) > 1)
    tensorflow = _version("TensorFlow", [tensorflow_of(facts) for facts in runs])
    tables = [
        _values([_without(leave_out, measured(facts), asked) for facts in runs])
        for measured in (_speed_ups, _peak_fractions, _metric_fractions, in_units)
    ]
    values, accepted = sum(map(len, tables)), None
    if len(machines) == 1:
        bounds = [bounds_of(table, values) for table in tables]
    else:
        grouped = [
            {name: [[seen[run] for run in each] for each in machines] for name, seen in t.items()} for t in tables
        ]
        bounds = [bounds_among(table, values) for table in grouped]
        accepted = accepted_when_left_out(grouped, len(machines))
    _refuse_wide({name: bound for table in bounds for name, bound in table.items() if bound.margin > MOST_MARGIN})
    speed_ups, peaks, fractions, in_own_units = bounds
    return Learnt(
        gpus=len(names), models=tuple(dict.fromkeys(names)), gpu_memory_bytes=memory, driver=driver,
        tensorflow=tensorflow, speed_ups=speed_ups, peak_fractions=peaks, metric_fractions=fractions,
        metrics=in_own_units, machines=len(machines), accepted=accepted,
    )  # fmt: skip


def _machines(runs: Sequence[Facts]) -> list[list[int]]:
    """Return the places of the runs of each machine. Raises NotLearnt if the runs, or the machines, are too few."""
    found = by_machine(runs)
    if len(found) == 1 and not LEAST_RUNS <= len(runs) <= MOST_RUNS:
        raise NotLearnt(
            f"{LEAST_RUNS} to {MOST_RUNS} runs are required; there {'is' if len(runs) == 1 else 'are'} {len(runs)}"
        )
    if 1 < len(found) < LEAST_RUNS:
        raise NotLearnt(f"{LEAST_RUNS} machines or more are required, or only one; there are {len(found)}")
    return found


def _refuse_wide(wide: Mapping[str, Bound]) -> None:
    if wide:
        told = "; ".join(too_wide(name, bound) for name, bound in wide.items())
        raise NotLearnt(f"the runs vary too much: {told}; {_CALMER} {_leaving_out(wide)}")


def _driver(seen: Sequence[str], *, several: bool) -> str:
    """Return the driver of one machine, or the oldest of several."""
    return oldest_driver(seen) if several else _version("the driver", seen)


def oldest_driver(seen: Sequence[str]) -> str:
    """Return the oldest driver of several machines; empty if one is not known. Raises NotLearnt if one cannot be compared."""
    each = [_version("the driver", [version]) for version in dict.fromkeys(seen)]
    return min(each, key=Version) if all(each) else ""


def can_be_left_out(name: str) -> bool:
    """Return whether the name can get a bound: "suite/comparison", "suite/metric", a precision, or another value in units."""
    return name in PRECISIONS or name in UNITS or ("/" in name and bool(comparisons_named(name) or metrics_named(name)))


def _without(names: Collection[str], measured: Mapping[str, float], asked: Profile | None) -> dict[str, float]:
    """Return what gets a bound: without those names, and without what the profile would not measure again."""
    return {
        name: value
        for name, value in measured.items()
        if name not in names and (asked is None or _measures(asked, name))
    }


def _measures(profile: Profile, name: str) -> bool:
    if name in QUANTITIES:
        return profile.level in STRESS_LEVELS
    return suite_metric(name)[0] in map(suite_of, profile.all_suites)


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


def too_wide(name: str, bound: Bound) -> str:
    """Say which values a bound would come from, and how wide it would be."""
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
