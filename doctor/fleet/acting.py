"""What to do with the nodes of a fleet: who leaves service and why, and who comes back after a clean look."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tfgpu_doctor.fleet.draining import drain_line, drains
from tfgpu_doctor.fleet.fleet import Fleet, Suspect
from tfgpu_doctor.fleet.node_sets import is_node_name
from tfgpu_doctor.knowledge import Knowledge

_SHARE = 0.05  # of the nodes: more at once are hardly one defect each


@dataclass(frozen=True)
class Held:
    """A node that is out of service now. `reason`: as the scheduler tells it; `ours`: the doctor took it out.

    `cordoned`: the doctor cordoned it, too (Kubernetes).
    """

    reason: str
    ours: bool
    since: dt.datetime | None = None  # with its time zone; None if the scheduler does not say
    cordoned: bool = False


@dataclass(frozen=True)
class Leaving:
    """Nodes that leave service for one reason; `cause` is its label, or `slow`."""

    nodes: tuple[str, ...]
    cause: str
    reason: str


@dataclass(frozen=True)
class Plan:
    """Who leaves and who returns. `too_many`: more would leave at once than `most`."""

    leaving: tuple[Leaving, ...]
    returning: tuple[str, ...]
    notes: tuple[str, ...]
    most: int

    @property
    def too_many(self) -> bool:
        """Whether a person has to look first."""
        return sum(len(each.nodes) for each in self.leaving) > self.most


def plan(
    fleet: Fleet,
    held: Mapping[str, Held] | None,
    looked: Mapping[str, dt.datetime],
    knowledge: Knowledge,
    most: int | None,
) -> Plan:
    """Decide by the comparison. `held`: the nodes that are out of service; None if that could not be read.

    A node leaves if it is bad, or has an error of its own hardware or driver (the column `drains` of causes.json). It
    returns if the doctor took it out and it is good now: an examination that began after it left (`looked`: when) found
    nothing, and it is as fast as its peers.
    """
    reasons = dict(_reasons(fleet, knowledge))
    notes = []
    if strange := sorted(name for name in reasons if not is_node_name(name)):
        notes.append(f"{len(strange)} reports name nodes that no scheduler can have: nothing is done about them")
    if others := sorted(name for name in reasons if name in (held or {}) and is_node_name(name)):
        notes.append(f"out of service already, and left as they are: {', '.join(others)}")
    if held is None:
        notes.append("which nodes are out of service could not be read: nobody returns, and some may have left already")
    leaving: dict[tuple[str, str], list[str]] = {}
    for name, why in sorted(reasons.items()):
        if is_node_name(name) and name not in (held or {}):
            leaving.setdefault(why, []).append(name)
    ours = [name for name in fleet.statuses["good"] if name in (held or {}) and (held or {})[name].ours]
    returning = [name for name in ours if _is_later(looked.get(name), (held or {})[name].since)]
    if earlier := sorted(set(ours) - set(returning)):
        notes.append(
            f"good, but not known to be examined since they left service, so they stay out: {', '.join(earlier)}; examine them "
            "again"
        )
    total = sum(map(len, fleet.statuses.values()))
    return Plan(
        leaving=tuple(Leaving(tuple(nodes), *why) for why, nodes in leaving.items()),
        returning=tuple(sorted(returning)),
        notes=tuple(notes),
        most=max(1, round(_SHARE * total)) if most is None else most,
    )


def _is_later(looked: dt.datetime | None, left: dt.datetime | None) -> bool:
    return looked is not None and left is not None and looked > left


def _reasons(fleet: Fleet, knowledge: Knowledge) -> Iterable[tuple[str, tuple[str, str]]]:
    """Yield a node, and the label and the reason why it leaves; a later one for the same node counts more."""
    bad, failing = set(fleet.statuses["bad"]), set(fleet.statuses["fails"])
    known = {(name, each.cause) for each in fleet.known for name in each.nodes}
    for suspect in fleet.suspects:
        if suspect.node in bad and suspect.second and suspect.second.slow:
            yield suspect.node, ("slow", drain_line(_slow(suspect)))
    for group in reversed(fleet.unmet):
        for name in group.again:
            if name in bad:
                yield name, ("requirement", drain_line(f"{group.title} in test and retest"))
    for cause in reversed(fleet.causes):
        if cause.severity == "error":
            for name in cause.nodes:
                if {(name, cause.label), (name, cause.id)} & known:
                    continue
                if (name in bad and name in cause.again) or (name in bad | failing and drains(cause.label, knowledge)):
                    yield name, (cause.label, drain_line(f"{cause.label} ({cause.id}): {cause.title}"))


def _slow(suspect: Suspect) -> str:
    return f"{suspect.measurement} {suspect.change:+.0%} in test and retest"


def leaving_names(leaving: Sequence[Leaving]) -> list[str]:
    """Return all nodes that leave."""
    return [name for each in leaving for name in each.nodes]
