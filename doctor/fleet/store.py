"""The store of a fleet: a folder with one folder of Parquet files for each run, `day=2026-11-21/run=1f0c8b2a9d3e/`.

Every run is written beside the others and renamed into its place, so that any number of writers and readers work at the
same time, a killed writer leaves nothing that is read, and a damaged file costs one run.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import msgspec

from tfgpu_doctor.host.files import Files, write_whole
from tfgpu_doctor.host.json_text import decode_json

STORE_SCHEMA = 1
TABLES = ("runs", "nodes", "causes", "figures", "measurements", "settings", "checks")
WEEKS_FOLDER = "weeks"
_MARK_FILE, _KIND = "store.json", "tfgpu-doctor store"
_MARK_BYTES = 1 << 16
_DAY, _RUN = re.compile(r"day=(\d{4}-\d{2}-\d{2})"), re.compile(r"run=([0-9a-f]{12})")
_PATTERNS = re.compile(r"[*?\[\]{}]")  # what DuckDB takes for a pattern in a path
_MAGIC = b"PAR1"  # the first and last bytes of a Parquet file (https://parquet.apache.org/docs/file-format/)
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "memory_limit": "600MB",
    "temp_directory": "",  # nothing is written outside the store
    "threads": "2",
}


class StoreError(Exception):
    """The folder cannot be used as a store, and why."""


class _Mark(msgspec.Struct):
    kind: str = ""
    schema: int = 0


@dataclass(frozen=True, order=True)
class StoredRun:
    """One run of the store."""

    day: dt.date
    id: str
    folder: str

    def table(self, name: str) -> str:
        """The file of one of TABLES."""
        return os.path.join(self.folder, f"{name}.parquet")


class Store:
    """A folder that is a store, or becomes one if it is empty or missing. Raises StoreError if it is neither."""

    def __init__(self, path: str, *, create: bool = False) -> None:
        self.path = os.path.abspath(path)
        if _PATTERNS.search(self.path):
            raise StoreError(
                f"{path} contains one of * ? [ ] {{ }}, which DuckDB takes for a pattern; use another path"
            )
        self._check(path, create)

    def _check(self, path: str, create: bool) -> None:
        mark = os.path.join(self.path, _MARK_FILE)
        try:
            found = decode_json(Files().read_bytes(mark, _MARK_BYTES), _Mark)
        except FileNotFoundError:
            found = None
        except (OSError, msgspec.DecodeError) as error:
            raise StoreError(f"{mark} cannot be read: {error}") from None
        if found is None:
            if not create:
                raise StoreError(f"{path} is not a store; `tfgpu-doctor fleet ingest DIR --store {path}` makes one")
            self._make(path, mark)
        elif found.kind != _KIND or found.schema != STORE_SCHEMA:
            raise StoreError(f"{path} is a store of schema {found.schema}; this doctor supports only {STORE_SCHEMA}")

    def _make(self, path: str, mark: str) -> None:
        try:
            os.makedirs(self.path, exist_ok=True)
            # Another writer may be making the same store.
            if any(not name.startswith(_MARK_FILE) for name in os.listdir(self.path)) and not Files().exists(mark):
                raise StoreError(f"{path} contains other files and is not a store; use an empty or a new folder")
            write_whole(mark, msgspec.json.encode({"kind": _KIND, "schema": STORE_SCHEMA}) + b"\n")
        except OSError as error:
            raise StoreError(f"{path} cannot be made a store: {error.strerror or error}") from None

    def runs(self, days: Iterable[dt.date] | None = None) -> list[StoredRun]:
        """Return the runs of these days, or of all days, by day. Raises OSError."""
        names = {f"day={day}" for day in days} if days is not None else None
        found = []
        for name in os.listdir(self.path):
            if not (day := _day(name)) or (names is not None and name not in names):
                continue
            folder = os.path.join(self.path, name)
            found += [
                StoredRun(day, matched[1], os.path.join(folder, run))
                for run in os.listdir(folder)
                if (matched := _RUN.fullmatch(run))
            ]
        return sorted(found)

    def place(self, day: dt.date, id: str) -> StoredRun:
        """Return where a run belongs."""
        return StoredRun(day, id, os.path.join(self.path, f"day={day}", f"run={id}"))


def _day(name: str) -> dt.date | None:
    matched = _DAY.fullmatch(name)
    try:
        return dt.date.fromisoformat(matched[1]) if matched else None
    except ValueError:
        return None


def whole(path: str) -> bool:
    """Return whether a Parquet file exists and is not truncated."""
    try:
        with Files().open_binary(path) as file:
            start = file.read(len(_MAGIC))
        return start == _MAGIC == Files().read_end(path, len(_MAGIC))
    except OSError:
        return False


def damaged(run: StoredRun) -> list[str]:
    """Return the tables of a run that are missing or truncated."""
    return [name for name in TABLES if not whole(run.table(name))]


def intact(run: StoredRun) -> bool:
    """Return whether a run is there, and every value of its tables can be read."""
    return all(decodes(run.table(name)) for name in TABLES)


def decodes(path: str) -> bool:
    """Return whether every value of a Parquet file can be read."""
    import duckdb

    try:
        with connect() as connection:
            connection.execute(f"select max(hash(rows)) from read_parquet({text(path)}) as rows").fetchall()  # noqa: S608 - ours
        return True
    except duckdb.Error:
        return False


def connect() -> Any:
    """Return a DuckDB connection in memory that is bounded in memory and writes only where it is told to."""
    import duckdb

    connection = duckdb.connect(":memory:", config=_SETTINGS)
    connection.execute("set enable_progress_bar = false")  # it would be in the document
    return connection


def files(paths: Iterable[str]) -> str:
    """Return the SQL that reads these tables of runs as one, with the columns `day` and `run`."""
    listed = ", ".join(text(path) for path in paths)
    return f"read_parquet([{listed}], hive_partitioning=true, hive_types={{'day': date, 'run': varchar}})"


def text(value: str) -> str:
    """Return a text in the quotes of SQL."""
    return "'" + value.replace("'", "''") + "'"


def add_table(
    connection: Any, name: str, columns: Mapping[str, Iterable[Any]], types: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Make a temporary table. A column has texts unless its type is given."""
    # As one JSON text a column: where pandas is not installed, DuckDB before 2 looks for it twice for each Python value.
    parts = []
    for place, each in enumerate(columns, 1):
        kind = types.get(each, "varchar")
        shape = '[["VARCHAR"]]' if kind.endswith("[]") else '["VARCHAR"]'
        parts.append(f"unnest(from_json(${place}, '{shape}')::{kind}[]) as \"{each}\"")
    query = f"create or replace temp table {name} as select {', '.join(parts)}"
    connection.execute(query, [json.dumps([_plain(value) for value in column]) for column in columns.values()])


def _plain(value: Any) -> Any:
    """A value as SQL reads it from a text."""
    if value is None or isinstance(value, str):
        return value
    return [_plain(each) for each in value] if isinstance(value, (list, tuple)) else str(value)


def add_names(connection: Any, name: str, names: Iterable[str]) -> None:
    """Make a temporary table of names with their numbers."""
    listed = list(names)
    add_table(connection, name, {"name": listed, "number": range(len(listed))}, {"number": "integer"})


def add_series(connection: Any, name: str, series: Iterable[tuple[str, str, str, str]]) -> None:
    """Make a temporary table of (measurement, model, unit, better) with their numbers."""
    listed = list(series)
    turned = zip(*listed, strict=True) if listed else [()] * 4
    columns = dict(zip(("measurement", "model", "unit", "better"), turned, strict=True))
    add_table(connection, name, {**columns, "number": range(len(listed))}, {"number": "integer"})
