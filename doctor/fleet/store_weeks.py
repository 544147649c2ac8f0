"""The weeks of a store: each line of values reduced to one median per week, so that a year is read in seconds.

They are derived from the runs. The name of a file says which runs it was made of, so one that is out of date is never read.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tfgpu_doctor.fleet.history_runs import spread
from tfgpu_doctor.fleet.store import WEEKS_FOLDER, Store, StoredRun, connect, files, text, whole
from tfgpu_doctor.host.files import part_of

_NAME = re.compile(r"(\d{4}-\d{2}-\d{2})\.[0-9a-f]{12}\.parquet")
_MOST_RUNS = 14  # of a week: a median of more is hardly steadier, and takes more memory
LINE = "measurement, model, unit, better, device"  # what is compared with itself over time, on one node


@dataclass(frozen=True, order=True)
class Week:
    """The runs of a week, from Monday on."""

    monday: dt.date
    runs: tuple[StoredRun, ...]

    @property
    def middle(self) -> float:
        """The day around which its runs are, as an ordinal number."""
        return sum(run.day.toordinal() for run in self.runs) / len(self.runs)

    @property
    def readable(self) -> bool:
        """Whether the measurements of any of its runs can be read."""
        return any(whole(run.table("measurements")) for run in self.runs)

    def file(self, store: Store) -> str:
        """The file that was made of exactly these runs."""
        made_of = hashlib.sha256("\n".join(run.id for run in self.runs).encode()).hexdigest()[:12]
        return os.path.join(store.path, WEEKS_FOLDER, f"{self.monday}.{made_of}.parquet")


def weeks_of(runs: Sequence[StoredRun]) -> list[Week]:
    """Return the weeks of these runs, in order."""
    found: dict[dt.date, list[StoredRun]] = {}
    for run in sorted(runs):
        found.setdefault(run.day - dt.timedelta(days=run.day.weekday()), []).append(run)
    return [Week(monday, tuple(each)) for monday, each in sorted(found.items())]


def medians_of(runs: Sequence[StoredRun]) -> str:
    """Return the SQL that gives one row for each line of each node: `y`, the median logarithm of its values."""
    readable = [path for run in runs if whole(path := run.table("measurements"))]
    return f"""select node, {LINE}, median(ln(value))::float y, count(*)::integer as values
        from {files(spread(readable, _MOST_RUNS))} where not retest and value > 0
        group by all"""  # noqa: S608 - names of ours


def roll(store: Store) -> int:
    """Write every week that is missing or out of date, and remove those of weeks whose runs changed. Raises OSError."""
    folder = os.path.join(store.path, WEEKS_FOLDER)
    os.makedirs(folder, exist_ok=True)
    weeks = weeks_of(store.runs())
    wanted = {week.file(store): week for week in weeks}
    with connect() as connection:
        missing = [path for path, week in wanted.items() if week.readable and not whole(path)]
        for path in missing:
            _write(connection, wanted[path], path)
    for name in os.listdir(folder):
        if _NAME.fullmatch(name) and os.path.join(folder, name) not in wanted:
            with contextlib.suppress(FileNotFoundError):  # another writer removed it
                os.unlink(os.path.join(folder, name))
    return len(missing)


def _write(connection: Any, week: Week, path: str) -> None:
    part = part_of(path)
    query = f"{medians_of(week.runs)} order by {LINE}, node"
    try:
        connection.execute(f"copy ({query}) to {text(part)} (format parquet, compression zstd)")
        os.replace(part, path)
    finally:
        if os.path.exists(part):
            os.unlink(part)
