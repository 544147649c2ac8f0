"""The comparison of a fleet as an HTML page: verdict, map of nodes, nodes by checks, distributions with named outliers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tfgpu_doctor.fleet.fleet import STATUSES, Fleet, Pattern, Series, Suspect
from tfgpu_doctor.fleet.node_sets import folded, is_node_name
from tfgpu_doctor.fleet.node_table import MOST, node_rows
from tfgpu_doctor.fleet.words import TONES, WORDS, few, headline, sections, short
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.render.html_page import TONES as TONES_OF_OUTCOMES
from tfgpu_doctor.render.layout import render_page
from tfgpu_doctor.render.words import number

# These limits keep the page fast in a browser for any number of nodes.
_MOST_CELLS = 1600  # of the map of nodes; with more nodes, a cell represents several
_COLUMNS = 80
_MOST_PATTERNS = 60
_MOST_CHECKS = 60
_MOST_SERIES = 120
_MOST_NAMES = 1000
_MOST_FIXES = 20
_NAMED = 12  # outliers of a distribution
_HEIGHT = 72.0  # pixels of a histogram


@dataclass(frozen=True)
class Cell:
    """One square of the map of nodes: its position (percent, pixels) and the nodes that it represents."""

    x: float
    y: int
    tone: str
    title: str


@dataclass(frozen=True)
class Bar:
    """One bar of a histogram, in percent and pixels."""

    x: float
    top: float
    height: float


@dataclass(frozen=True)
class Mark:
    """An outlier in a distribution."""

    x: float
    title: str


@dataclass(frozen=True)
class Distribution:
    """The histogram of a measurement, its limit, and the outliers by name."""

    series: Series
    bars: tuple[Bar, ...]
    middle: float
    limit: float | None
    marks: tuple[Mark, ...]
    words: str
    named: str


def render_html(fleet: Fleet, reports: str = "") -> str:
    """Return the whole page. `reports`: the folder of the reports, seen from the page; empty if that is unknown."""
    by_series: dict[tuple[str, str], list[Suspect]] = {}
    for each in fleet.suspects:
        if each.against == "peers":
            by_series.setdefault((each.measurement, each.model), []).append(each)
    shown = sorted(fleet.series, key=lambda each: -len(by_series.get((each.measurement, each.model), ())))[
        :_MOST_SERIES
    ]
    drawn = [_distribution(each, by_series.get((each.measurement, each.model), [])) for each in shown]
    checks = _notable(fleet)
    return render_page(
        "fleet.html.jinja",
        fleet=fleet,
        heading=headline(fleet),
        counts=[(f"{len(fleet.statuses[each]):,} {WORDS[each]}", TONES[each]) for each in STATUSES if fleet.statuses[each]],
        sections=sections(fleet),
        fixes=[(each, few(each.nodes)) for each in fleet.causes if each.severity == "error" and each.fix][:_MOST_FIXES],
        nodes=node_rows(fleet, reports),
        more_nodes=max(0, sum(len(nodes) for each, nodes in fleet.statuses.items() if each != "good") - MOST),
        cells=_cells(fleet),
        named=[(WORDS[each], len(nodes), _names(nodes)) for each, nodes in fleet.statuses.items() if nodes and each != "good"],
        rows=math.ceil(min(_MOST_CELLS, sum(map(len, fleet.statuses.values()))) / _COLUMNS),
        checks=checks,
        patterns=[_row(each, checks) for each in _worst_first(fleet.patterns)[:_MOST_PATTERNS]],
        more_patterns=max(0, len(fleet.patterns) - _MOST_PATTERNS),
        with_outliers=[each for each in drawn if each.marks],
        without=[each for each in drawn if not each.marks],
        more_series=len(fleet.series) - len(shown),
        height=_HEIGHT,
    )  # fmt: skip


def _names(nodes: Sequence[str]) -> str:
    """Return all names as one set; odd names one by one, and not all of them."""
    plain = [name for name in nodes if is_node_name(name)]
    odd = [short(name) for name in nodes if not is_node_name(name)]
    return ", ".join([*([folded(plain)] if plain else []), *odd[:_MOST_NAMES]])


def _cells(fleet: Fleet) -> list[Cell]:
    """Return squares for all nodes, sorted by name; a square for several nodes has the tone of the worst."""
    status = {node: each for each in STATUSES for node in fleet.statuses[each]}
    nodes = sorted(status)
    size = max(1, math.ceil(len(nodes) / _MOST_CELLS))
    found = []
    for place, start in enumerate(range(0, len(nodes), size)):
        some = nodes[start : start + size]
        worst = min((status[node] for node in some), key=STATUSES.index)
        odd = [node for node in some if status[node] == worst] if worst != "good" else some
        found.append(
            Cell(
                round(100 / _COLUMNS * (place % _COLUMNS), 3), 14 * (place // _COLUMNS), TONES[worst],
                f"{few(odd)}: {WORDS[worst]}",
            )
        )  # fmt: skip
    return found


def _notable(fleet: Fleet) -> list[str]:
    """Return the checks that have another outcome than pass or skip on some node, worst first."""
    ids = {id for pattern in fleet.patterns for id in pattern.outcomes}
    counts = {each.id: each.counts for each in fleet.checks}
    return sorted(ids, key=lambda id: (-counts[id].get("fail", 0), -counts[id].get("warn", 0), id))[:_MOST_CHECKS]


def _worst_first(patterns: Sequence[Pattern]) -> list[Pattern]:
    def failing(pattern: Pattern) -> int:
        return sum(outcome in ("fail", "crash") for outcome in pattern.outcomes.values())

    return sorted(patterns, key=lambda each: (-failing(each), -len(each.nodes)))


def _row(pattern: Pattern, checks: Sequence[str]) -> tuple[str, list[tuple[float, str, str]], str]:
    """Return one row of nodes by checks: the nodes, the squares, and the same in words."""
    tones = {str(outcome): tone for outcome, tone in TONES_OF_OUTCOMES.items()}
    outcomes = [pattern.outcomes.get(id, "did not run") for id in checks]
    squares = [
        (round(100 * place / len(checks), 3), tones.get(outcome, "idle"), f"{id}: {outcome}")
        for place, (id, outcome) in enumerate(zip(checks, outcomes, strict=True))
    ]
    odd = [f"{short(id)} {outcome}" for id, outcome in pattern.outcomes.items() if outcome not in ("pass", "skip")]
    more = f" and {len(odd) - _NAMED} more" if len(odd) > _NAMED else ""
    return few(pattern.nodes), squares, (", ".join(odd[:_NAMED]) + more) or "every check passed or was skipped"


def _distribution(series: Series, suspects: Sequence[Suspect]) -> Distribution:
    most = max(series.bins, default=1) or 1
    width = 100 / max(1, len(series.bins))
    bars = tuple(
        Bar(round(width * place, 3), round(_HEIGHT - height, 1), round(height, 1))
        for place, count in enumerate(series.bins)
        if count and (height := max(2.0, _HEIGHT * count / most))
    )
    marks = tuple(
        Mark(
            _at(series, each.value),
            f"{short(each.node)} {short(each.device)}: {number(each.value)} {short(each.unit)}, {each.change:+.1%}",
        )
        for each in suspects[:200]
    )  # fmt: skip
    more = f" and {len(suspects) - _NAMED} more" if len(suspects) > _NAMED else ""
    return Distribution(
        series, bars, _at(series, series.median), None if series.limit is None else _at(series, series.limit), marks,
        words=f"{amount(series.values, 'value')} from {number(series.low)} to {number(series.high)} {short(series.unit)}, "
        f"median {number(series.median)}",
        named="; ".join(each.title for each in marks[:_NAMED]) + more,
    )  # fmt: skip


def _at(series: Series, value: float) -> float:
    """Return the position of a value in percent from the left, on a logarithmic axis."""
    if series.high <= series.low:
        return 50.0
    share = math.log(value / series.low) / math.log(series.high / series.low)
    return round(100 * min(1.0, max(0.0, share)), 2)
