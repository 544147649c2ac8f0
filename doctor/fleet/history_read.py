"""Read a store, and say what changed on the nodes over time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence
from typing import Any

import tfgpu_doctor
from tfgpu_doctor.fleet.history import History
from tfgpu_doctor.fleet.history_between import between
from tfgpu_doctor.fleet.history_events import FLAPPING_DAYS, Events, events_of
from tfgpu_doctor.fleet.history_trends import trends_of
from tfgpu_doctor.fleet.history_windows import FEWEST_POINTS, SHORTEST_DAYS, windows_of
from tfgpu_doctor.fleet.store import TABLES, Store, StoredRun, connect, damaged, decodes, files
from tfgpu_doctor.fleet.store_weeks import weeks_of
from tfgpu_doctor.host.files import Files

_FOUND, _NOTHING_TO_COMPARE = 1, 3


def history_of(
    store: Store, *, since: dt.date | None = None, node: str | None = None, days: tuple[dt.date, dt.date] | None = None
) -> History:
    """Return what the store tells about all nodes, or about one. `days`: the two days to compare; by default the last two.

    Raises KeyError if a day or the node is not in the store, and OSError.
    """
    everything, notes = store.runs(), list[str]()
    runs = _readable(everything, notes)
    if not runs:
        return _without_runs((*notes, "the store has no run"))
    import duckdb

    try:
        return _history(store, runs, since=since, node=node, days=days, notes=notes)
    except duckdb.Error:  # a file is damaged inside, or was removed while it was read
        left = _without_damage(_readable(store.runs(), []), notes)
        weeks = [week.file(store) for week in weeks_of(everything)]
        distrusted = {path for path in weeks if Files().exists(path) and not decodes(path)}
        if left == runs and not distrusted:
            raise
        if not left:
            return _without_runs((*notes, "the store has no run that can be read"))
        return _history(store, left, since=since, node=node, days=days, notes=notes, distrusted=distrusted)


def _without_runs(notes: tuple[str, ...]) -> History:
    return History(
        doctor=tfgpu_doctor.__version__, exit_code=_NOTHING_TO_COMPARE, first="", last="", runs=0, nodes=0, notes=notes
    )


def _without_damage(runs: Sequence[StoredRun], notes: list[str]) -> list[StoredRun]:
    """Read everything, and return the runs without an error."""
    found = []
    for run in runs:
        if wrong := [name for name in TABLES if not decodes(run.table(name))]:
            notes.append(_left_out(run, wrong))
        else:
            found.append(run)
    return found


def _left_out(run: StoredRun, tables: Sequence[str]) -> str:
    return f"the run {run.id} of {run.day} is left out: {', '.join(tables)} missing or damaged; ingest it again"


def _readable(runs: Sequence[StoredRun], notes: list[str]) -> list[StoredRun]:
    """Return the runs whose files are all there and not truncated."""
    found = []
    for run in runs:
        if wrong := damaged(run):
            notes.append(_left_out(run, wrong))
        else:
            found.append(run)
    return found


def _history(store: Store, runs: Sequence[StoredRun], **asked: Any) -> History:
    with connect() as connection:
        return _of_runs(connection, store, runs, **asked)


def _of_runs(
    connection: Any, store: Store, runs: Sequence[StoredRun], *, since: dt.date | None, node: str | None,
    days: tuple[dt.date, dt.date] | None, notes: list[str], distrusted: Collection[str] = (),
) -> History:  # fmt: skip
    if node is not None:
        _refuse_unknown(connection, runs, node)
    days = _days(runs, days)
    events = events_of(connection, runs, node)
    if runs[0].day == runs[-1].day:
        events = Events((), (), ())
        notes.append("the store has one day, so nothing is new or gone yet; `fleet report` shows what the nodes have")
    windows = windows_of(store, runs, since, distrusted)
    trends = trends_of(connection, windows, node)
    if not windows:
        notes.append(f"no slopes: they require {FEWEST_POINTS} runs over {SHORTEST_DAYS} days")
    wrong = bool(trends.slower or trends.fleet or events.new or events.flapping)
    judged = _reported(connection, runs, node)
    return History(
        doctor=tfgpu_doctor.__version__, exit_code=_FOUND if wrong else 0 if judged else _NOTHING_TO_COMPARE,
        first=str(runs[0].day), last=str(runs[-1].day), runs=len(runs), nodes=judged, node=node or "",
        slower=trends.slower, fleet=trends.fleet, new=events.new, recovered=events.recovered, flapping=events.flapping,
        flapping_days=FLAPPING_DAYS, between=between(connection, runs, *days, node=node) if days else None,
        lines=trends.of_node, compared=trends.compared, too_short=trends.too_short, scattered=trends.scattered,
        notes=tuple(notes),
    )  # fmt: skip


def _days(runs: Sequence[StoredRun], asked: tuple[dt.date, dt.date] | None) -> tuple[dt.date, dt.date] | None:
    """Return the two days to compare: those that were asked for, or the last two, if there are two."""
    known = sorted({run.day for run in runs})
    for day in asked or ():
        if day not in known:
            raise KeyError(str(day))
    return asked or ((known[-2], known[-1]) if len(known) > 1 else None)


def _reported(connection: Any, runs: Sequence[StoredRun], node: str | None) -> int:
    """Return how many nodes, or whether the one, reported on the last day."""
    tables = files(run.table("nodes") for run in runs if run.day == runs[-1].day)
    query = f"select count(distinct node) from {tables} where outcome = 'reported' and coalesce(node = $1, true)"  # noqa: S608
    ((count,),) = connection.execute(query, [node]).fetchall()
    return int(count)


def _refuse_unknown(connection: Any, runs: Sequence[StoredRun], node: str) -> None:
    tables = files(run.table("nodes") for run in runs)
    if not connection.execute(f"select 1 from {tables} where node = $1 limit 1", [node]).fetchall():  # noqa: S608 - ours
        raise KeyError(node)
