"""What to do with the nodes of a fleet: who leaves service and why, and who comes back after a clean look."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tfgpu_doctor.fleet.draining import drain_line, drains, reason_of
from tfgpu_doctor.fleet.fleet import CauseGroup, Fleet, Suspect
from tfgpu_doctor.fleet.judged_again import Look, not_judged, profile_words
from tfgpu_doctor.fleet.node_sets import folded, is_node_name
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
    looked: Mapping[str, Look],
    knowledge: Knowledge,
    most: int | None,
) -> Plan:
    """Decide by the comparison. `held`: the nodes that are out of service; None if that could not be read.

    A node leaves if it is bad, or has an error of its own hardware or driver (the column `drains` of causes.json). It
    returns if the doctor took it out and it is good now: an examination that began after it left (`looked`) found nothing,
    and judged what it left for: the check, the speed beside its peers, or the profile.
    """
    reasons = _reasons(fleet, looked, knowledge)
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
    returning, staying = _returning(fleet, held or {}, looked)
    total = sum(map(len, fleet.statuses.values()))
    return Plan(
        leaving=tuple(Leaving(tuple(nodes), *why) for why, nodes in leaving.items()),
        returning=tuple(returning),
        notes=(*notes, *staying),
        most=max(1, round(_SHARE * total)) if most is None else most,
    )


def _returning(fleet: Fleet, held: Mapping[str, Held], looked: Mapping[str, Look]) -> tuple[list[str], list[str]]:
    """Return the good nodes that come back, and a note for each reason why others of the doctor's stay out."""
    compared = {(each.measurement, each.model) for each in fleet.series if each.limit is not None}
    returning, earlier, others = list[str](), list[str](), dict[str, list[str]]()
    for name in sorted(name for name in fleet.statuses["good"] if name in held and held[name].ours):
        look, since = looked.get(name), held[name].since
        if look is None or since is None or look.began <= since:
            earlier.append(name)
        elif why := not_judged(held[name].reason, look, compared):
            others.setdefault(why, []).append(name)
        else:
            returning.append(name)
    notes = []
    if earlier:
        notes.append(
            f"good, but not known to be examined since they left service, so they stay out: {', '.join(earlier)}; examine them "
            "again"
        )
    notes += [
        f"good, but not known to be mended, so they stay out: {folded(names)}: {why}" for why, names in others.items()
    ]
    for group in fleet.unjudged:
        if names := [name for name in group.nodes if name in held and held[name].ours]:
            notes.append(f"not judged, so they stay out: {folded(names)}: {group.reason}")
    return returning, notes


def _reasons(fleet: Fleet, looked: Mapping[str, Look], knowledge: Knowledge) -> dict[str, tuple[str, str]]:
    """Return each node that leaves, with the label and the reason: all of its causes, else a requirement, else a speed."""
    bad, failing = set(fleet.statuses["bad"]), {*fleet.statuses["bad"], *fleet.statuses["fails"]}
    found: dict[str, tuple[str, str]] = {}
    for suspect in fleet.suspects:
        if suspect.node in bad and suspect.second and suspect.second.slow:
            found[suspect.node] = "slow", drain_line(_slow(suspect))
    for group in reversed(fleet.unmet):
        for name in bad.intersection(group.again):
            asked = profile_words(looked[name].profile) if name in looked else ""
            found[name] = "requirement", drain_line(f"{asked}{group.title} in test and retest")
    causes: dict[str, list[CauseGroup]] = {}
    for cause in (each for each in fleet.causes if each.severity == "error"):
        again, own = bad.intersection(cause.again), drains(cause.label, knowledge)
        for name in set(cause.nodes).difference(cause.known):
            if name in again or (own and name in failing):
                causes.setdefault(name, []).append(cause)
    return found | {name: (each[0].label, reason_of(each)) for name, each in causes.items()}


def needed_looks(fleet: Fleet, held: Collection[str]) -> set[str]:
    """Return the nodes whose reports `plan` needs: those that may come back, and those that missed a requirement twice."""
    return set(held).intersection(fleet.statuses["good"]).union(*(group.again for group in fleet.unmet))


def _slow(suspect: Suspect) -> str:
    return f"{suspect.measurement} {suspect.change:+.0%} in test and retest"


def leaving_names(leaving: Sequence[Leaving]) -> list[str]:
    """Return all nodes that leave."""
    return [name for each in leaving for name in each.nodes]
