"""The windows of time over which the lines of a store are judged, each with few points to read."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tfgpu_doctor.fleet.history_runs import spread
from tfgpu_doctor.fleet.store import Store, StoredRun, files, text, whole
from tfgpu_doctor.fleet.store_weeks import LINE, medians_of, weeks_of

WINDOWS_DAYS = (28, 91, 364)  # a change in the last weeks stays below the noise of a year, and the reverse
MOST_POINTS = (
    12  # of a slope; more take longer and change it little: its error is that of one point / sqrt(points / 12)
)
_RUNS_PER_POINT = 2
_MUCH_LONGER = 1.2
FEWEST_POINTS = 12  # of a window: in thirds of three, two bad points in a row decide
SHORTEST_DAYS = 7


@dataclass(frozen=True)
class Point:
    """Values of one time: those of a run, or the medians of a week. `sql` gives node, the columns of LINE and `y`."""

    day: float
    sql: str


@dataclass(frozen=True)
class Window:
    """A number of days up to the newest run, with the points in it, oldest first."""

    days: int
    points: tuple[Point, ...]


def windows_of(
    store: Store, runs: Sequence[StoredRun], since: dt.date | None, distrusted: Collection[str] = ()
) -> list[Window]:
    """Return the windows that the runs fill: the one from `since` on, or those of WINDOWS_DAYS.

    `distrusted`: files of weeks that are not used.
    """
    if not runs:
        return []
    newest, oldest = runs[-1].day, runs[0].day
    spans = [(newest - max(since, oldest)).days + 1] if since else _spans((newest - oldest).days + 1)
    found = []
    for days in spans:
        points = _points(store, runs, newest - dt.timedelta(days=days - 1), days, distrusted)
        if len(points) >= FEWEST_POINTS and points[-1].day - points[0].day + 1 >= SHORTEST_DAYS:
            found.append(Window(days, tuple(points)))
    return found


def _spans(days: int) -> list[int]:
    """Return the windows that a store of so many days fills, and all of its days if they are much more than these."""
    found = [each for each in WINDOWS_DAYS if each <= days]
    if days < WINDOWS_DAYS[-1] and (not found or days >= _MUCH_LONGER * found[-1]):
        found.append(days)
    return found


def _points(
    store: Store, runs: Sequence[StoredRun], first: dt.date, days: int, distrusted: Collection[str]
) -> list[Point]:
    """Return the runs themselves over a short time, or whole weeks, evenly spread."""
    if days < 7 * (FEWEST_POINTS + 1):
        inside = [run for run in runs if run.day >= first and whole(run.table("measurements"))]
        chosen = spread(inside, MOST_POINTS * _RUNS_PER_POINT)
        return [Point(run.day.toordinal() + place / 1e3, _values_of(run)) for place, run in enumerate(chosen)]
    found = []
    for week in spread([week for week in weeks_of(runs) if week.runs[-1].day >= first], MOST_POINTS):
        stored = week.file(store)
        if whole(stored) and stored not in distrusted:
            found.append(Point(week.middle, f"select node, {LINE}, y from read_parquet({text(stored)})"))  # noqa: S608 - ours
        elif week.readable:
            found.append(Point(week.middle, f"select node, {LINE}, y from ({medians_of(week.runs)})"))  # noqa: S608 - ours
    return found


def _values_of(run: StoredRun) -> str:
    table = files([run.table("measurements")])
    return f"select node, {LINE}, ln(value)::float y from {table} where not retest and value > 0"  # noqa: S608 - ours
