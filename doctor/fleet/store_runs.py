"""The earlier runs of the nodes out of a store, for the comparison of a run with the nodes' own past."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from statistics import median_low
from typing import Any

from tfgpu_doctor.fleet.columns import Columns
from tfgpu_doctor.fleet.history_runs import EarlierRuns, chosen_of
from tfgpu_doctor.fleet.store import Store, StoredRun, add_names, add_series, connect, damaged, decodes, files
from tfgpu_doctor.fleet.store_write import same_run, time_of


def earlier_in_store(store: Store, columns: Columns, notes: list[str]) -> EarlierRuns:
    """Return the medians of the runs in the store that were before this one. Raises OSError."""
    reports = {(node, began) for node, text in columns.began if (began := time_of(text))}
    runs = [run for run in store.runs() if not damaged(run)]
    if reports:
        began = median_low(sorted(began for _, began in reports))
        itself = same_run(store, reports, began.date())
        same = [run for run, known in itself.items() if known <= reports or reports <= known]
        runs = [run for run in _before(runs, began) if run not in same]
    chosen = chosen_of(runs, notes)
    earlier = EarlierRuns(columns.measured_now(), len(chosen))
    with connect() as connection:
        _register(connection, columns)
        for run in chosen:
            if not decodes(run.table("measurements")):
                notes.append(f"the run {run.id} of {run.day} in the store is damaged, and left out")
                continue
            found = connection.execute(_points_of(run)).fetchnumpy()
            earlier.add(*(found[name] for name in ("node", "series", "device", "value")))
    return earlier


def _before(runs: Sequence[StoredRun], began: dt.datetime) -> list[StoredRun]:
    """Return the runs that began before this time."""
    paths = [run.table("runs") for run in runs if run.day <= began.date()]
    if not paths:
        return []
    with connect() as connection:
        query = f"select run from {files(paths)} where began < $1"  # noqa: S608 - ours
        ids = {id for (id,) in connection.execute(query, [began]).fetchall()}
    return [run for run in runs if run.id in ids]


def _register(connection: Any, columns: Columns) -> None:
    add_names(connection, "node_number", columns.number_of)
    add_names(connection, "device_number", columns.devices)
    add_series(connection, "series_number", columns.series)


def _points_of(run: StoredRun) -> str:
    return f"""select n.number node, s.number series, d.number device, value
        from {files([run.table("measurements")])} m join node_number n on n.name = m.node
        join series_number s using (measurement, model, unit, better) join device_number d on d.name = m.device
        where not retest"""  # noqa: S608 - ours
