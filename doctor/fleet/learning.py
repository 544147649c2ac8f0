"""What the healthy nodes of a store measured, for a profile of their model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tfgpu_doctor.accept import FleetNode
from tfgpu_doctor.fleet.routes import ACROSS, FAR
from tfgpu_doctor.fleet.store import Store, connect, files, whole

_MOST_RUNS = 20  # the newest of each node
_COUNTED = re.compile(r"(\d+) x ([^,]+)")
_TABLES = ("nodes", "measurements", "settings")
# Runs in which a node ended without a finding. A run counts with what its first test measured, the worst device first.
_RUNS = f"""
create or replace temp table chosen as
select day, run, node, row_number() over (partition by node order by day desc, began desc) nth from nodes
where not retest and outcome = 'reported' and exit_code = 0
qualify nth <= {_MOST_RUNS}
"""  # noqa: S608 - a number of ours
# Copies over the slower routes between GPUs have a name of their own; a requirement holds for all of them.
_VALUES = f"""
select node, day, run, if(measurement = '{ACROSS}{FAR}', '{ACROSS}', measurement) as named,
       case any_value(better) when 'higher' then min(value) else max(value) end
from measurements join chosen using (day, run, node) where not retest group by node, day, run, named
order by node, day, run
"""  # noqa: S608 - names of ours
_SETTINGS = """
select node, arg_max(value, day) filter (setting = 'GPU models'), arg_max(value, day) filter (setting = 'kernel module')
from settings join chosen using (day, run, node) group by node
"""


class NoSuchNodes(ValueError):
    """No node of the store can be learned from; the message says which models there are."""


def healthy_nodes(store: Store, model: str, names: Mapping[str, str]) -> tuple[list[FleetNode], int]:
    """Return the nodes with GPUs of a model, and the number of their runs.

    `names`: requirements by measurement; of several measurements for one requirement, the last that a run has counts.
    An empty model takes that of all nodes. Raises NoSuchNodes, and OSError.
    """
    runs = [run for run in store.runs() if all(whole(run.table(name)) for name in _TABLES)]
    if not runs:
        raise NoSuchNodes("the store has no run that can be read")
    connection = connect()
    try:
        for name in _TABLES:
            paths = files(run.table(name) for run in runs)
            connection.execute(f"create or replace temp view {name} as select * from {paths}")  # noqa: S608 - ours
        connection.execute(_RUNS)
        settings = connection.execute(_SETTINGS).fetchall()
        rows = connection.execute(_VALUES).fetchall()
    finally:
        connection.close()
    machines = _of_model(settings, model)
    values: dict[str, dict[tuple[Any, str], dict[str, float]]] = {name: {} for name in machines}
    order = {measurement: place for place, measurement in enumerate(names)}
    known = [row for row in rows if row[0] in values and row[3] in names]
    for node, day, run, measurement, value in sorted(known, key=lambda row: order[row[3]]):
        values[node].setdefault((day, run), {})[names[measurement]] = value
    found = [
        FleetNode(gpus=count, model=called, driver=driver or "", runs=list(values[node].values()))
        for node, (count, called, driver) in machines.items()
        if values[node]
    ]
    return found, sum(len(node.runs) for node in found)


def _of_model(settings: list[tuple[str, str | None, str | None]], model: str) -> dict[str, tuple[int, str, str | None]]:
    """Return the number of GPUs, their model and the driver of each node with that model."""
    found = {}
    for node, models, driver in settings:
        if matched := _COUNTED.fullmatch(models or ""):  # nodes of mixed GPUs are left out
            found[node] = (int(matched[1]), matched[2], driver)
    there = sorted({called for _, called, _ in found.values()})
    if not model and len(there) == 1:
        model = there[0]
    if model not in there:
        known = f"; its nodes have {', '.join(there)}" if there else ""
        raise NoSuchNodes(f"{f'no healthy node has {model}' if model else 'choose a model with --model'}{known}")
    return {node: each for node, each in found.items() if each[1] == model}
