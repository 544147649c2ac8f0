"""Find what is getting slower: the lines whose change is worse than the changes of their peers explain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from tfgpu_doctor.fleet.database import Database
from tfgpu_doctor.fleet.history import FleetTrend, Line, Scattered
from tfgpu_doctor.fleet.history_lines import Lines, Names, SeriesName, read_lines
from tfgpu_doctor.fleet.history_slopes import Changes, changes_of, theil_sen
from tfgpu_doctor.fleet.history_windows import Window
from tfgpu_doctor.fleet.outliers import Spread, limits
from tfgpu_doctor.fleet.thresholds import FLEET_CHANGE

# The change of a healthy line reaches 3 standard deviations of its own points once in 3,000 times (the error of the change is
# 0.9 of them); together with the limit of the peers, it keeps out lines that are only noisier than the others.
_LEAST_RATIO = 3.0
_AT_ONCE = 2  # windows; a window takes 150 MB
_MONTH_DAYS = 30
_LONGEST = 200
_FURTHEST = 50.0  # of a logarithm, for display


@dataclass(frozen=True)
class Trends:
    """What the windows show."""

    slower: tuple[Line, ...]
    fleet: tuple[FleetTrend, ...]
    scattered: tuple[Scattered, ...]
    of_node: tuple[Line, ...]
    compared: int  # lines
    too_short: int


@dataclass(frozen=True)
class _Judged:
    """A series in a window, with its changes. `number`: of the first of them, over all windows."""

    window: Window
    names: Names
    lines: Lines
    changes: Changes


def trends_of(connection: Any, windows: Sequence[Window], node: str | None = None) -> Trends:
    """Judge all lines in all windows. With `node`, the result has all lines of this node, and only those."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        judged = [
            each for found in pool.map(lambda window: _judge(connection.cursor(), window), windows) for each in found
        ]
    database = Database()
    try:
        spreads = _limits(database, judged)
        rows = database.rows(
            "select series, node, device from deviation join bound using (against, series) where dev > most"
        )
    finally:
        database.close()
    beyond = [_line(judged[series], spreads.get(series), node_, device) for series, node_, device in rows]
    shown = [_line(each, spreads.get(place), *key) for place, each in enumerate(judged) for key in _keys_of(each, node)]
    slower = [each for each in beyond if each.ratio >= _LEAST_RATIO and node in (None, each.node)]
    return Trends(
        slower=tuple(sorted(_worst(slower), key=lambda each: (-abs(each.change or 0.0), each.node, each.device))),
        fleet=tuple(found for place, each in enumerate(judged) for found in _of_fleet(each, spreads.get(place))),
        scattered=tuple(found for place, each in enumerate(judged) for found in _scattered(each, spreads.get(place))),
        of_node=tuple(_longest_window(shown)),
        compared=max((_count(judged, window, known=True) for window in windows), default=0),
        too_short=min((_count(judged, window, known=False) for window in windows), default=0),
    )


def _judge(connection: Any, window: Window) -> list[_Judged]:
    """Return the changes of all lines of a window."""
    return [
        _Judged(window, names, replace(lines, values=None), changes_of(lines))
        for names, lines in read_lines(connection, window)
    ]


def _limits(database: Database, judged: Sequence[_Judged]) -> dict[int, Spread]:
    """Return the limit for the certain changes of each series in each window, by its place in the list."""
    import numpy as np

    table: dict[str, list[Any]] = {"series": [], "node": [], "device": [], "x": []}
    for place, each in enumerate(judged):
        known = ~np.isnan(each.changes.certain)
        table["series"].append(np.full(known.sum(), place, dtype="int32"))
        table["node"].append(each.lines.node[known])
        table["device"].append(each.lines.device[known])
        table["x"].append(each.changes.certain[known].astype("float64"))
    empty = {"series": "int32", "node": "int32", "device": "int32", "x": "float64"}
    database.add("change", {name: np.concatenate([*table[name], np.empty(0, kind)]) for name, kind in empty.items()})
    windows = {id(each): number for number, each in enumerate(dict.fromkeys(each.window for each in judged))}
    numbers = np.array([windows[id(each.window)] for each in judged], dtype="int8")
    database.add("of_window", {"series": np.arange(len(judged), dtype="int32"), "against": numbers})
    database.run(
        "create or replace table turned as select against, series, node, device, x, 0.0::double own "
        "from change join of_window using (series)"
    )
    return {each.series: each for each in limits(database)}


def _keys_of(judged: _Judged, node: str | None) -> list[tuple[int, int]]:
    """Return (node, device) of all lines of a node."""
    if node is None or node not in judged.names.nodes:
        return []
    number = judged.names.nodes.index(node)
    return [(number, int(device)) for device in judged.lines.device[judged.lines.node == number]]


def _line(judged: _Judged, spread: Spread | None, node: int, device: int) -> Line:
    lines, changes = judged.lines, judged.changes
    (place,) = ((lines.node == node) & (lines.device == device)).nonzero()[0]
    measurement, model, unit, better = lines.series
    change, slope = float(changes.change[place]), theil_sen(changes.apart[place], lines.days)
    (known,) = (changes.apart[place] == changes.apart[place]).nonzero()  # not NaN
    return Line(
        node=judged.names.nodes[node], device=lines.devices[device][:_LONGEST], measurement=measurement[:_LONGEST],
        model=model[:_LONGEST], unit=unit[:_LONGEST], baseline=_value(changes.first[place], better),
        now=_value(changes.last[place], better), change=None if math.isnan(change) else _share(change, better),
        per_month=None if math.isnan(slope) else _share(slope * _MONTH_DAYS, better),
        days=round(lines.days[known[-1]] - lines.days[known[0]]) + 1, points=len(known),
        ratio=0.0 if math.isnan(change) else float(changes.certain[place] / changes.noise[place]), window_days=judged.window.days,
        limit=_share(spread.middle + spread.limit, better) if spread and math.isfinite(spread.limit) else None,
    )  # fmt: skip


def _value(x: float, better: str) -> float:
    """Return the value of a logarithm where more is worse."""
    x = float(x)
    return 0.0 if math.isnan(x) else math.exp(max(-_FURTHEST, min(_FURTHEST, x if better == "lower" else -x)))


def _share(x: float, better: str) -> float:
    return _value(x, better) - 1


def _worst(lines: Sequence[Line]) -> list[Line]:
    """Return each line once, with the window that shows the largest change."""
    found: dict[tuple[str, ...], Line] = {}
    for each in lines:
        key = each.node, each.device, each.measurement, each.model, each.unit
        if key not in found or abs(each.change or 0) > abs(found[key].change or 0):
            found[key] = each
    return list(found.values())


def _longest_window(lines: Sequence[Line]) -> list[Line]:
    """Return each line once, with the longest window in which it has a slope."""
    found: dict[tuple[str, ...], Line] = {}
    for each in sorted(lines, key=lambda line: (line.change is not None, line.window_days)):
        found[each.measurement, each.model, each.unit, each.device] = each
    return [found[key] for key in sorted(found)]


def _of_fleet(judged: _Judged, spread: Spread | None) -> list[FleetTrend]:
    change = judged.changes.fleet
    if math.isnan(change) or change <= -math.log(1 - FLEET_CHANGE):
        return []
    measurement, model, unit, better = _short(judged.lines.series)
    return [
        FleetTrend(
            measurement=measurement, model=model, unit=unit, change=_share(change, better), days=judged.window.days,
            nodes=spread.nodes if spread else 0,
        )
    ]  # fmt: skip


def _scattered(judged: _Judged, spread: Spread | None) -> list[Scattered]:
    if not spread or not spread.note:
        return []
    measurement, model, *_ = _short(judged.lines.series)
    return [Scattered(measurement=measurement, model=model, days=judged.window.days, note=spread.note)]


def _short(series: SeriesName) -> tuple[str, str, str, str]:
    measurement, model, unit, better = series
    return measurement[:_LONGEST], model[:_LONGEST], unit[:_LONGEST], better


def _count(judged: Sequence[_Judged], window: Window, *, known: bool) -> int:
    import numpy as np

    return sum(int((~np.isnan(each.changes.change) == known).sum()) for each in judged if each.window is window)
