"""A profile of a model of node from what the nodes of a fleet measured: values in units alone.

Reports of nodes hold no intervals and no shares of peaks, so a profile from them has bounds in units, and extends one that
has the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tfgpu_doctor.accept.bounds import LEAST_RUNS
from tfgpu_doctor.accept.learning import MOST_MARGIN, Learnt, NotLearnt, oldest_driver, too_wide
from tfgpu_doctor.accept.learning_models import accepted_when_left_out, bounds_among
from tfgpu_doctor.accept.learning_units import UNITS
from tfgpu_doctor.accept.terms import PRECISIONS
from tfgpu_doctor.accept.vocabulary import ALL_REDUCE, all_reduces, suite_metric

# The requirement that a measurement of a node report is for, by its name there (fleet/measurements.py). Where several are
# for one, the last of those that a run has counts: the largest message.
_COPIES = {
    "copy host to GPU pinned": "host-to-device",
    "copy GPU to host pinned": "device-to-host",
    "copy GPU to GPU": "device-to-device",
}
MEASUREMENTS: Mapping[str, str] = {
    **{f"{precision} matrix product": precision for precision in PRECISIONS},
    **_COPIES,
    **{f"{suite_metric(ALL_REDUCE)[0]} {name}": ALL_REDUCE for name in all_reduces()},
    **{" ".join(suite_metric(name)): name for name in UNITS if "/" in name},
}


@dataclass(frozen=True)
class FleetNode:
    """A healthy node: its GPUs, its driver, and the lowest value of each requirement over its devices, run by run."""

    gpus: int
    model: str
    driver: str
    runs: Sequence[Mapping[str, float]]


def learn_from_nodes(nodes: Sequence[FleetNode]) -> Learnt:
    """Return what a profile can require of a node of this model. Raises NotLearnt."""
    if len(nodes) < LEAST_RUNS:
        raise NotLearnt(
            f"{LEAST_RUNS} nodes or more are required that reported no fault and measured what a profile can ask for "
            f"(--level deep, or a suite); there are {len(nodes)}"
        )
    counts = {node.gpus for node in nodes}
    if len(counts) > 1:
        raise NotLearnt(f"the nodes have {' or '.join(map(str, sorted(counts)))} GPUs: choose nodes that are equal")
    common = [name for name in UNITS if all(run.get(name, 0.0) > 0 for node in nodes for run in node.runs)]
    if not common:
        raise NotLearnt("no value is in every report; examine the nodes with --level deep, or with a suite")
    table = {name: [[run[name] for run in node.runs] for node in nodes] for name in common}
    bounds = bounds_among(table, len(table))
    if wide := {name: bound for name, bound in bounds.items() if bound.margin > MOST_MARGIN}:
        raise NotLearnt(f"the nodes vary too much: {'; '.join(too_wide(name, bound) for name, bound in wide.items())}")
    return Learnt(
        gpus=nodes[0].gpus, models=(nodes[0].model,), gpu_memory_bytes=0,
        driver=oldest_driver([node.driver for node in nodes]), tensorflow="", speed_ups={}, peak_fractions={},
        metric_fractions={}, metrics=bounds, machines=len(nodes), accepted=accepted_when_left_out([table], len(nodes)),
    )  # fmt: skip
