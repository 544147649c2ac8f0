"""Results of earlier runs, kept in SQLite in the user's cache folder; concurrent runs lose nothing."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tfgpu_doctor.host.cache import cache_folder

_TYPES = (float, str, str, bytes)  # SQLite keeps any type in any column
_WAIT_S = 30.0  # for another run that is writing
_TABLE = """
create table if not exists run (
  number integer primary key, kept real not null, name text not null, place text not null, document blob not null
)
"""


class ResultsError(Exception):
    """The file of results cannot be read or written; the message says why and what to do."""


@dataclass(frozen=True)
class KeptRun:
    """One run: when (seconds since 1970), the name that it was saved under, the machine it belongs to, its document."""

    kept: float
    name: str
    place: str
    document: bytes


class Results:
    """The file of results."""

    def __init__(self, path: str) -> None:
        self.path = path

    @classmethod
    def of_user(cls, environment: Mapping[str, str]) -> Results:
        """The file in the user's cache folder."""
        return cls(os.path.join(cache_folder(environment), "results.sqlite"))

    def keep(self, run: KeptRun) -> None:
        """Add a run. Raises ResultsError."""
        with self._open() as connection:
            connection.execute(
                "insert into run (kept, name, place, document) values (?, ?, ?, ?)",
                (run.kept, run.name, run.place, run.document),
            )

    def of_place(self, place: str) -> list[KeptRun]:
        """The runs of one machine, oldest first. Raises ResultsError."""
        return self._select("where place = ?", place)

    def named(self, name: str) -> list[KeptRun]:
        """The runs saved under a name, oldest first. Raises ResultsError."""
        return self._select("where name = ?", name)

    def newest_last(self) -> list[KeptRun]:
        """All runs, oldest first. Raises ResultsError."""
        return self._select("where name is not ?", None)

    def refuse_without_place(self) -> None:
        """Raise ResultsError if the file cannot be written, or its folder not be made, as far as that shows before."""
        place = self.path
        while not os.path.lexists(place):
            place = os.path.dirname(place)
        if place != self.path and not os.path.isdir(place):
            raise self._error(NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)))
        if not os.access(place, os.W_OK):
            raise self._error(PermissionError(errno.EACCES, os.strerror(errno.EACCES)))

    def _select(self, condition: str, value: str | None) -> list[KeptRun]:
        try:
            os.stat(self.path)
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:  # a folder on the way is a file, a loop of links, or may not be read
            raise self._error(error) from error
        with self._open() as connection:
            query = f"select kept, name, place, document from run {condition} order by number"  # noqa: S608 - ours
            rows = connection.execute(query, (value,)).fetchall()
        return [KeptRun(*row) for row in rows if all(map(isinstance, row, _TYPES))]

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A transaction: everything is kept, or nothing."""
        try:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            connection = sqlite3.connect(self.path, timeout=_WAIT_S)
            try:
                connection.text_factory = lambda text: text.decode("utf-8", "replace")
                with connection:
                    connection.execute(_TABLE)
                    yield connection
            finally:
                connection.close()
        except (OSError, sqlite3.Error) as error:
            raise self._error(error) from error

    def _error(self, error: Exception) -> ResultsError:
        why = getattr(error, "strerror", None) or error
        return ResultsError(
            f"{self.path} cannot be used ({why}); delete it to start over, or set XDG_CACHE_HOME to another folder"
        )
