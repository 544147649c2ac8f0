"""Bounds for a model of machine, from runs on several machines.

A machine of the same model differs from others by more than its own runs differ, so the runs of one machine count once: a
bound comes from the means of the machines. One run of a further machine varies by what machines and runs vary.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from tfgpu_doctor.accept.bounds import DAYS, Bound, quantile, rounded_down
from tfgpu_doctor.model.facts import Facts


def by_machine(runs: Sequence[Facts]) -> list[list[int]]:
    """Return the places of the runs of each machine, told apart by the UUIDs of their GPUs."""
    found: dict[tuple[str, ...], list[int]] = {}
    for place, facts in enumerate(runs):
        found.setdefault(gpu_uuids(facts), []).append(place)
    return list(found.values())


def gpu_uuids(facts: Facts) -> tuple[str, ...]:
    """Return what tells a machine from others: the UUIDs of its GPUs."""
    return tuple(sorted(gpu.uuid for gpu in facts.nvml.gpus)) if facts.nvml else ()


def bounds_among(table: Mapping[str, Sequence[Sequence[float]]], values: int) -> dict[str, Bound]:
    """Return a bound for each value of one kind, from the runs of each machine: three machines at least.

    `values`: the number of all values of a machine, which has to meet all bounds.
    """
    logs = {name: [[math.log(each) for each in runs] for runs in machines] for name, machines in table.items()}
    means = {name: [statistics.fmean(runs) for runs in machines] for name, machines in logs.items()}
    variances = {name: statistics.variance(each) for name, each in means.items()}
    pooled = statistics.fmean(variances.values()) if variances else 0.0
    found = {}
    for name, machines in table.items():
        count = len(machines)
        among = max(variances[name], pooled) * (1 + 1 / count)
        # A mean of runs varies less than the one run by which a further machine is judged.
        spread = math.sqrt(among + _of_runs(logs[name]) + 2 * DAYS**2)
        margin = quantile(len(table) * (count - 1), values) * spread
        value = rounded_down(math.exp(statistics.fmean(means[name]) - margin))
        found[name] = Bound(value, tuple(each for runs in machines for each in runs), 1 - math.exp(-margin))
    return found


def _of_runs(machines: Sequence[Sequence[float]]) -> float:
    """Return the part of the variance from run to run that the means of the machines do not have."""
    repeated = [runs for runs in machines if len(runs) > 1]
    if not repeated:
        return 0.0
    within = statistics.fmean(statistics.variance(runs) for runs in repeated)
    return within * (1 - statistics.fmean(1 / len(runs) for runs in machines))


def accepted_when_left_out(tables: Sequence[Mapping[str, Sequence[Sequence[float]]]], machines: int) -> int | None:
    """Return how many machines meet, in every run, the bounds from the others; None if the others are fewer than three."""
    if machines < 4:
        return None
    values = sum(map(len, tables))
    return sum(all(_meets(table, machine, values) for table in tables) for machine in range(machines))


def _meets(table: Mapping[str, Sequence[Sequence[float]]], machine: int, values: int) -> bool:
    others = {name: [runs for place, runs in enumerate(each) if place != machine] for name, each in table.items()}
    bounds = bounds_among(others, values)
    return all(min(each[machine]) >= bounds[name].value for name, each in table.items())
