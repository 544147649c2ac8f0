"""Put the reports of a run into the store: the same run is stored once, however often and from wherever it is put in."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median_low
from typing import Any, Literal

import msgspec

from tfgpu_doctor.fleet.columns import Columns
from tfgpu_doctor.fleet.fleet import RefusedFile
from tfgpu_doctor.fleet.partly import JUDGED
from tfgpu_doctor.fleet.reports_read import SECOND_FOLDER, Heard, decode_checks, read_reports
from tfgpu_doctor.fleet.store import (
    Store,
    StoredRun,
    add_names,
    add_series,
    add_table,
    connect,
    decodes,
    files,
    intact,
    text,
)
from tfgpu_doctor.host.files import Files, part_of

NOT_HEARD_OF = "not heard of"
UNMET = "unmet"  # the label of an unmet requirement in the table of causes
_IN_PART = "in part"  # ends the outcome of a check that judged only some GPUs: what another one had may not be gone
_LONGEST = 300
_NEARBY_DAYS = 1  # a run that is put in before it is complete may get another day later
Report = tuple[str, dt.datetime]  # node, when its examination began: there is only one report of both
_Outcome = Literal["added", "replaced", "already there", "older than what is there", "not stored"]


class NoDayError(Exception):
    """No report says when it began."""


@dataclass(frozen=True)
class Ingested:
    """What became of a run."""

    run: StoredRun
    outcome: _Outcome
    nodes: int
    measurements: int
    refused: tuple[RefusedFile, ...]


@dataclass
class _Rows:
    """The rows of a run: small tables as lists of rows, the others as numbers of columns."""

    columns: Columns = field(default_factory=Columns)
    nodes: list[tuple[Any, ...]] = field(default_factory=list)
    causes: list[tuple[Any, ...]] = field(default_factory=list)
    figures: list[tuple[Any, ...]] = field(default_factory=list)
    reports: set[Report] = field(default_factory=set)

    @property
    def began(self) -> list[dt.datetime]:
        """When each examination began."""
        return sorted(began for _, began in self.reports)

    def add(self, heard: Heard, *, retest: bool) -> None:
        """Add the report of a node. Raises msgspec.DecodeError."""
        if not retest:
            self.columns.add(_with_parts(heard))
        elif not self.columns.look_again(heard):
            return
        began = time_of(heard.began)
        if began:
            self.reports.add((heard.node, began))
        self.nodes.append(
            (
                heard.node, retest, heard.outcome, heard.reason[:_LONGEST], began, heard.seconds, heard.exit_code,
                heard.order[:_LONGEST], heard.doctor[:_LONGEST], heard.profile[:_LONGEST],
                "" if retest else self.columns.nodes[-1].kind,
            )
        )  # fmt: skip
        self._add_causes(heard, retest)

    def _add_causes(self, heard: Heard, retest: bool) -> None:
        for cause in heard.causes:
            key = heard.node, retest, cause.id[:_LONGEST], cause.label[:_LONGEST], list(cause.devices)
            self.causes.append((*key, cause.severity, cause.title[:_LONGEST]))
            self.figures += [
                (*key, each.name[:_LONGEST], each.value, each.unit[:_LONGEST], each.device[:_LONGEST])
                for each in cause.figures
            ]
        for unmet in heard.unmet:
            self.causes.append(
                (heard.node, retest, unmet.key[:_LONGEST], UNMET, [], "error", unmet.words[:_LONGEST])
            )  # fmt: skip

    def expect(self, names: Iterable[str]) -> None:
        """Add a row for every expected node without a report."""
        for name in sorted(set(names) - self.columns.number_of.keys()):
            self.nodes.append((name, False, NOT_HEARD_OF, "", None, 0.0, None, "", "", "", ""))


def _with_parts(heard: Heard) -> Heard:
    """Return a report in which a check that judged only some GPUs has an outcome that says so. Raises msgspec.DecodeError."""
    if not heard.partly:
        return heard
    checks = decode_checks(bytes(heard.checks))
    checks |= {id: f"{checks[id]} {_IN_PART}" for id in heard.partly if checks.get(id) in JUDGED}
    return msgspec.structs.replace(heard, checks=msgspec.Raw(msgspec.json.encode(checks)))


_NODES = "node, retest, outcome, reason, began, seconds, exit_code, options, doctor, profile, kind"
_KEY = "node, retest, id, label, devices"


def ingest(folder: str, store: Store, *, expected: Iterable[str] = (), day: dt.date | None = None) -> Ingested:
    """Store the reports of a folder, unless it has none and no node was expected.

    Raises OSError, and NoDayError if neither the reports nor `day` say when it was.
    """
    rows, refused = _Rows(), list[RefusedFile]()
    for within, retest in ((folder, False), (os.path.join(folder, SECOND_FOLDER), True)):
        if retest and not Files().exists(within):
            continue
        for file, heard in read_reports(within, refused, f"{SECOND_FOLDER}/" if retest else ""):
            try:
                rows.add(heard, retest=retest)
            except msgspec.DecodeError as error:
                refused.append(RefusedFile(file=file, why=f"not a valid node report: {error}"))
    rows.expect(expected)
    day = day or _day_of(rows)
    run = store.place(day, _id(rows, day))
    if not rows.nodes:
        return Ingested(run, "not stored", 0, 0, tuple(refused))
    return _put(store, run, rows, same_run(store, rows.reports, day), tuple(refused))


def _put(
    store: Store, run: StoredRun, rows: _Rows, earlier: dict[StoredRun, set[Report]], refused: tuple[RefusedFile, ...]
) -> Ingested:
    """Write the run unless it is there, and remove what it replaces."""
    nodes, measurements = len(rows.columns.nodes), len(rows.columns.points[0])
    for each, reports in earlier.items():
        if rows.reports < reports:
            return Ingested(each, "older than what is there", nodes, measurements, refused)
    there = intact(run)
    if not there:
        _write(store, run, rows)
    # One that has other reports as well is another run: a node out of service keeps its old file in the folder.
    replaced = [each for each, reports in earlier.items() if each != run and reports <= rows.reports]
    for each in replaced:
        remove(each)
    outcome: _Outcome = "already there" if there else "replaced" if replaced else "added"
    return Ingested(run, outcome, nodes, measurements, refused)


def remove(run: StoredRun) -> None:
    """Remove a run, and its day if no other run is left. Raises OSError."""
    day = os.path.dirname(run.folder)
    away = part_of(os.path.join(os.path.dirname(day), f".{run.id}.away"))
    os.rename(run.folder, away)
    shutil.rmtree(away)
    try:
        os.rmdir(day)
    except OSError:
        pass  # other runs are there


def time_of(began: str) -> dt.datetime | None:
    """Return the time in UTC, or None."""
    try:
        found = dt.datetime.fromisoformat(began.replace("Z", "+00:00"))
        return found.astimezone(dt.timezone.utc).replace(tzinfo=None) if found.tzinfo else found
    except (ValueError, OverflowError):
        return None


def _day_of(rows: _Rows) -> dt.date:
    """Return the day of the middle report: a few nodes with a wrong clock do not change it."""
    if not rows.reports:
        raise NoDayError
    return median_low(rows.began).date()


def _id(rows: _Rows, day: dt.date) -> str:
    """Return the same text for the same reports, wherever they lie."""
    told = [f"{node}\0{began.isoformat()}" for node, began in sorted(rows.reports)]
    told += [
        f"{node}\0{retest}\0{outcome}" for node, retest, outcome, *_ in sorted(rows.nodes, key=lambda row: row[:3])
    ]
    return hashlib.sha256("\n".join([str(day), *told]).encode("utf-8", "replace")).hexdigest()[:12]


def same_run(store: Store, mine: set[Report], day: dt.date) -> dict[StoredRun, set[Report]]:
    """Return the stored runs that have any of these reports, with all of their reports."""
    days = [day + dt.timedelta(days=each) for each in range(-_NEARBY_DAYS, _NEARBY_DAYS + 1)]
    runs = [run for run in store.runs(days) if decodes(run.table("nodes"))]
    found = {}
    with connect() as connection:
        for run in runs:
            query = f"select node, began from {files([run.table('nodes')])} where began is not null"  # noqa: S608 - ours
            reports = set(connection.execute(query).fetchall())
            if reports & mine:
                found[run] = reports
    return found


def _write(store: Store, run: StoredRun, rows: _Rows) -> None:
    """Write the tables into a folder of their own, and rename it to its place. Raises OSError."""
    part = part_of(os.path.join(store.path, f".{run.id}"))
    os.makedirs(part)
    try:
        with connect() as connection:
            for name, query in _queries(connection, rows).items():
                connection.execute(
                    f"copy ({query}) to {text(os.path.join(part, f'{name}.parquet'))} (format parquet, compression zstd)"
                )
        if os.path.exists(run.folder) and not intact(run):
            remove(run)
        os.makedirs(os.path.dirname(run.folder), exist_ok=True)
        try:
            os.rename(part, run.folder)
        except OSError:
            if not intact(run):  # otherwise another writer was faster
                raise
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _queries(connection: Any, rows: _Rows) -> dict[str, str]:
    """Return the query that gives each table."""
    import numpy as np

    columns = rows.columns
    tables = columns.tables()
    tables["node"]["node"] = np.arange(len(columns.nodes), dtype="int32")
    for name, table in tables.items():
        connection.register(name, table)
    for name, names in (
        ("node_name", [node.name for node in columns.nodes]), ("device_name", list(columns.devices)),
        ("setting_name", list(columns.settings.names)), ("setting_value", list(columns.settings.values)),
        ("check_name", list(columns.checks.names)), ("check_value", list(columns.checks.values)),
    ):  # fmt: skip
        add_names(connection, name, names)
    add_series(connection, "series_name", columns.series)
    return {
        "runs": _small(connection, "run_rows", "began, last, nodes, reported", [_summary(rows)]),
        "nodes": _small(connection, "node_rows", _NODES, rows.nodes) + " order by node, retest",
        "causes": _small(connection, "cause_rows", f"{_KEY}, severity, title", rows.causes) + " order by id, node",
        "figures": _small(connection, "figure_rows", f"{_KEY}, name, value, unit, device", rows.figures)
        + " order by id, node",
        **_LARGE,
    }


def _summary(rows: _Rows) -> tuple[Any, ...]:
    reported = sum(node.outcome == "reported" for node in rows.columns.nodes)
    nodes = len({row[0] for row in rows.nodes})
    began = rows.began
    return (median_low(began) if began else None, max(began, default=None), nodes, reported)


_TYPES = {
    "retest": "boolean", "began": "timestamp", "last": "timestamp", "seconds": "double", "exit_code": "integer",
    "devices": "varchar[]", "value": "double", "nodes": "integer", "reported": "integer",
}  # fmt: skip
_LARGE = {
    "measurements": """select n.name node, look = 1 retest, measurement, model, unit, better, d.name device, value
        from point join node_name n on n.number = point.node join series_name s on s.number = series
        join device_name d on d.number = device order by measurement, model, unit, better, device, retest, node""",
    "settings": """select n.name node, s.name setting, v.name as value
        from setting e join node on node.settings = e.signature join node_name n on n.number = node.node
        join setting_name s on s.number = e.name join setting_value v on v.number = e.value order by setting, node""",
    "checks": """select n.name node, s.name id, v.name outcome
        from outcome e join node on node.checks = e.signature join node_name n on n.number = node.node
        join check_name s on s.number = e.name join check_value v on v.number = e.value order by id, node""",
}  # fmt: skip


def _small(connection: Any, name: str, columns: str, rows: list[tuple[Any, ...]]) -> str:
    """Make a table of rows with the type of each column, and return the query for it."""
    names = columns.split(", ")
    turned = zip(*rows, strict=True) if rows else [()] * len(names)
    add_table(connection, name, dict(zip(names, turned, strict=True)), _TYPES)
    return f"from {name}"
