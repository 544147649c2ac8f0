"""Read the lines of a window: the values of every measurement of every device of every node, as rows over time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from tfgpu_doctor.fleet.history_runs import medians
from tfgpu_doctor.fleet.history_windows import MOST_POINTS, Window
from tfgpu_doctor.fleet.store import add_names, add_table
from tfgpu_doctor.fleet.store_weeks import LINE

_MOST_CELLS = 1 << 20  # lines that are read at once; more series than that are read one part after another
SeriesName = tuple[str, str, str, str]  # measurement, model, unit, what is better


@dataclass
class Names:
    """All nodes, and all (measurement, model, unit, better, device) of a window, each by number."""

    nodes: list[str]
    lines: list[tuple[str, str, str, str, str]]


@dataclass(frozen=True)
class Lines:
    """The lines of one series. `values`: logarithms where more is worse, by line and point; NaN where there is none."""

    series: SeriesName
    devices: tuple[str, ...]
    node: Any  # number of the node of each line
    device: Any  # place of its device in `devices`
    days: Any  # of the points
    values: Any


def read_names(connection: Any, window: Window) -> Names:
    """Find what was measured in a window."""
    nodes, lines = set[str](), set[tuple[str, str, str, str, str]]()
    for point in window.points:
        connection.execute(f"select distinct node from ({point.sql})")  # noqa: S608 - ours
        nodes.update(node for (node,) in connection.fetchall())
        connection.execute(f"select distinct {LINE} from ({point.sql})")  # noqa: S608 - ours
        lines.update(connection.fetchall())
    return Names(sorted(nodes), sorted(lines))


def read_lines(connection: Any, window: Window) -> Iterator[tuple[Names, Lines]]:
    """Yield the lines of a window, one series after another, with at most MOST_POINTS points."""
    names = read_names(connection, window)
    add_names(connection, "node_names", names.nodes)
    for part in _parts(names):
        yield from ((names, each) for each in _read_part(connection, window, names, part))


def _parts(names: Names) -> Iterator[list[tuple[str, str, str, str, str]]]:
    """Yield as many lines as may be read at once; the devices of a series stay together."""
    part: list[tuple[str, str, str, str, str]] = []
    for _, group in groupby(names.lines, key=lambda line: line[:4]):
        devices = list(group)
        if part and (len(part) + len(devices)) * len(names.nodes) > _MOST_CELLS:
            yield part
            part = []
        part += devices
    if part:
        yield part


def _read_part(
    connection: Any, window: Window, names: Names, part: list[tuple[str, str, str, str, str]]
) -> Iterator[Lines]:
    import numpy as np

    count = len(names.nodes)
    columns = dict(zip(LINE.split(", "), zip(*part, strict=True), strict=True))
    add_table(connection, "line_names", {**columns, "first": range(0, len(part) * count, count)}, {"first": "integer"})
    cells = np.full((len(window.points), len(part) * count), np.nan, dtype="float32")
    for place, point in enumerate(window.points):
        found = connection.execute(
            f"select first + number as cell, y from ({point.sql}) join node_names on name = node join line_names using ({LINE})"  # noqa: S608 - ours
        ).fetchnumpy()
        cells[place, np.asarray(found["cell"])] = found["y"]
    days = np.array([point.day for point in window.points])
    start = 0
    for series, group in groupby(part, key=lambda line: line[:4]):
        devices = tuple(line[4] for line in group)
        end = start + len(devices) * count
        yield _series(series, devices, count, days, cells[:, start:end])
        start = end


def _series(series: SeriesName, devices: tuple[str, ...], count: int, days: Any, cells: Any) -> Lines:
    """Return the lines of one series that have any value, with neighbouring points reduced to their median."""
    import numpy as np

    kept = np.flatnonzero(~np.isnan(cells).all(axis=0))
    values = np.ascontiguousarray(cells[:, kept].T)
    if values.shape[1] > MOST_POINTS:
        places = np.array_split(np.arange(values.shape[1]), MOST_POINTS)
        values = np.stack([medians(np.ascontiguousarray(values[:, each])) for each in places], axis=1)
        days = np.array([days[each].mean() for each in places])
    turn = np.float32(1 if series[3] == "lower" else -1)
    return Lines(series, devices, (kept % count).astype("int32"), (kept // count).astype("int32"), days, turn * values)
