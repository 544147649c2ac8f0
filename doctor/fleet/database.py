"""An in-memory database over the columns of a fleet; it reads, loads and writes nothing outside itself."""

from __future__ import annotations

from typing import Any

from tfgpu_doctor.fleet.columns import Columns

_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "memory_limit": "600MB",
    "temp_directory": "",  # nothing is written to disk
    "threads": "2",
    "preserve_insertion_order": "false",
}


class Database:
    """A DuckDB database with the tables of the columns, if there are any."""

    def __init__(self, columns: Columns | None = None) -> None:
        import duckdb

        self._connection = duckdb.connect(":memory:", config=_SETTINGS)
        self._connection.execute("set enable_progress_bar = false")  # it would be in the document
        self._kept: list[dict[str, Any]] = []
        for name, table in (columns.tables() if columns else {}).items():
            self.add(name, table)

    def add(self, name: str, table: dict[str, Any]) -> None:
        """Add a table made of numpy arrays; the table "node" also gets a column `node` with the row numbers."""
        import numpy as np

        if name == "node":
            table = {"node": np.arange(len(table["kind"]), dtype="int32"), **table}
        self._kept.append(table)
        self._connection.register(f"{name}_arrays", table)
        self._connection.execute(f"create or replace table {name} as select * from {name}_arrays")  # noqa: S608 - ours

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        found: list[tuple[Any, ...]] = self._connection.execute(query).fetchall()
        return found

    def run(self, query: str) -> None:
        """Run a statement that returns no rows."""
        self._connection.execute(query)

    def close(self) -> None:
        """Free its memory."""
        self._connection.close()
