"""The nodes that are not good, a row each: what they have, what to do, and where their report is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

from tfgpu_doctor.fleet.fleet import STATUSES, Fleet
from tfgpu_doctor.fleet.node import file_name
from tfgpu_doctor.fleet.words import TONES, WORDS, short
from tfgpu_doctor.render.words import number

MOST = 1000  # rows; more are no help to anybody who looks


@dataclass(frozen=True)
class NodeRow:
    """One row. `link`: relative to the page, empty if there is no report or its place is unknown."""

    name: str
    status: str
    tone: str
    what: tuple[str, ...]
    fix: str
    link: str


def node_rows(fleet: Fleet, reports: str) -> list[NodeRow]:
    """Return the rows, worst first. `reports`: the folder of the reports, seen from the page; empty if that is unknown."""
    shown = [(name, status) for status in STATUSES if status != "good" for name in fleet.statuses[status]][:MOST]
    wanted = {name for name, _ in shown}
    found: dict[str, list[tuple[str, str]]] = {name: [] for name in wanted}
    for name, what, fix in _troubles(fleet):
        if name in wanted:
            found[name].append((what, fix))
    missing = {name for each in fleet.silent if each.outcome == "not heard of" for name in each.nodes}
    return [
        NodeRow(
            name=name, status=WORDS[status], tone=TONES[status], what=tuple(what for what, _ in found[name]),
            fix=next((fix for _, fix in found[name] if fix), ""),
            link=f"{quote(reports.rstrip('/'))}/{quote(file_name(name))}" if reports and name not in missing else "",
        )
        for name, status in shown
    ]  # fmt: skip


def _troubles(fleet: Fleet) -> Iterator[tuple[str, str, str]]:
    """Yield a node, what it has and what to do, the gravest first."""
    for cause in fleet.causes:
        for name in cause.nodes:
            yield name, f"{cause.title} ({cause.id})", cause.fix
    for group in fleet.unmet:
        for name in group.nodes:
            yield name, group.title, ""
    for unjudged in fleet.unjudged:
        for name in unjudged.nodes:
            yield name, unjudged.reason, unjudged.fix
    for silence in fleet.silent:
        for name in set(silence.nodes).difference(fleet.not_judged):
            yield name, f"{silence.outcome}{f': {silence.reason}' if silence.reason else ''}", ""
    for suspect in fleet.suspects:
        slow = f"{short(suspect.measurement)} {suspect.device} {number(suspect.value)} {suspect.unit}, {suspect.change:+.1%}"
        yield suspect.node, slow, ""
    for slow_group in fleet.slow_groups:
        for name in slow_group.nodes:
            yield (
                name,
                f"{short(slow_group.measurement)}, {slow_group.change:+.1%} as {len(slow_group.nodes) - 1} others",
                "",
            )
    for drift in fleet.drift:
        words = ", ".join(short(each.setting) for each in drift.differences[:4])
        for name in drift.nodes:
            yield name, f"differs: {words}", ""
