"""A database in memory over the columns of a fleet; nothing outside it is read, loaded or written by it."""

from __future__ import annotations

from typing import Any

from tfgpu_doctor.fleet.columns import Columns

_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "memory_limit": "600MB",
    "temp_directory": "",  # nothing is written to a disk
    "threads": "2",
    "preserve_insertion_order": "false",
}


class Database:
    """DuckDB, with a table for each of the columns' tables."""

    def __init__(self, columns: Columns) -> None:
        import duckdb

        self._connection = duckdb.connect(":memory:", config=_SETTINGS)
        self._kept: list[dict[str, Any]] = []
        for name, table in columns.tables().items():
            self.add(name, table)

    def add(self, name: str, table: dict[str, Any]) -> None:
        """A table out of numpy arrays, which has a column `row` with the numbers of its rows where it is "node"."""
        import numpy as np

        if name == "node":
            table = {"node": np.arange(len(table["kind"]), dtype="int32"), **table}
        self._kept.append(table)
        self._connection.register(f"{name}_arrays", table)
        self._connection.execute(f"create or replace table {name} as select * from {name}_arrays")  # noqa: S608 - ours

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        found: list[tuple[Any, ...]] = self._connection.execute(query).fetchall()
        return found

    def run(self, query: str) -> None:
        """A statement that gives no rows."""
        self._connection.execute(query)

    def close(self) -> None:
        """Free its memory."""
        self._connection.close()
