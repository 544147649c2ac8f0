"""The status of every node: its worst trouble that nobody looks after yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from tfgpu_doctor.fleet.columns import Columns, Node
from tfgpu_doctor.fleet.fleet import (
    REPORTED,
    STATUSES,
    UNJUDGED,
    CauseGroup,
    Drift,
    Silence,
    SlowGroup,
    Status,
    Suspect,
)  # fmt: skip
from tfgpu_doctor.fleet.known import Known

_FINDINGS = 1  # exit code


class _Worst(dict[str, Status]):
    def say(self, nodes: Iterable[str], status: Status) -> None:
        for node in nodes:
            if node not in self or STATUSES.index(status) < STATUSES.index(self[node]):
                self[node] = status


def statuses(
    columns: Columns, troubles: Sequence[CauseGroup], silent: Sequence[Silence], suspects: Sequence[Suspect],
    groups: Sequence[SlowGroup], differing: Sequence[Drift], known: Known,
) -> dict[str, Status]:  # fmt: skip
    """Return every node with its worst status; a trouble that is known counts as `known`."""
    found = _Worst()
    for each in silent:
        fault: Status = "not judged" if each.outcome in UNJUDGED else "silent"
        for name in each.nodes:
            found.say([name], "known" if known.covers(name, each.outcome) else fault)
    of_node = _by_node(troubles)
    for node in columns.nodes:
        if node.outcome == REPORTED:
            found.say([node.name], _alone(columns, node, of_node.get(node.name, ()), known))
    for group in troubles:
        if group.severity == "error":
            found.say((name for name in group.again if not _covered(columns, name, group, known)), "bad")
    for suspect in suspects:
        status: Status = "bad" if suspect.second and suspect.second.slow else "suspect"
        is_known = known.covers(suspect.node, suspect.measurement, devices=[suspect.device] if suspect.device else [])
        found.say([suspect.node], "known" if is_known else status)
    for slow in groups:
        for name in slow.nodes:
            found.say([name], "known" if known.covers(name, slow.measurement) else "suspect")
    for drifted in differing:
        settings = [each.setting for each in drifted.differences]
        for name in drifted.nodes:
            covered = [known.covers(name, setting) for setting in settings]
            found.say([name], "known" if all(covered) else "differs")
    return found


def _by_node(troubles: Iterable[CauseGroup]) -> dict[str, list[CauseGroup]]:
    found: dict[str, list[CauseGroup]] = {}
    for group in troubles:
        for name in group.nodes:
            found.setdefault(name, []).append(group)
    return found


def _alone(columns: Columns, node: Node, troubles: Sequence[CauseGroup], known: Known) -> Status:
    """Return the status of a node according to its own report. Warnings count if its fail level made it end with findings."""
    if not node.fails and node.exit_code != _FINDINGS:
        return "good" if node.exit_code == 0 else "not judged"
    counted = [each for each in troubles if each.severity == "error"]
    if not counted:
        counted = [each for each in troubles if each.severity == "warning"]
    covered = [_covered(columns, node.name, each, known) for each in counted]
    if not covered or not all(covered):
        return "fails"
    return "not judged" if node.reason else "known"  # nobody knows what else it has where a part was not examined


def _covered(columns: Columns, node: str, group: CauseGroup, known: Known) -> bool:
    return known.covers(node, group.label, group.id, devices=_devices(columns, node, group))


def _devices(columns: Columns, node: str, group: CauseGroup) -> frozenset[str]:
    return columns.troubles.devices(columns.number_of[node], group.label, group.id)


def with_known(columns: Columns, groups: Iterable[CauseGroup], known: Known) -> tuple[CauseGroup, ...]:
    """Return the causes and requirements, each with the nodes on which it is known."""
    return tuple(
        msgspec.structs.replace(
            group,
            known=tuple(
                name
                for name in group.nodes
                if known.holds(name, group.label, group.id, devices=_devices(columns, name, group))
            ),
        )
        for group in groups
    )
