"""Known issues: what somebody already looks after, so that the report shows what is new."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Sequence
from typing import Annotated

import msgspec

from tfgpu_doctor.fleet.launched import expand
from tfgpu_doctor.host.files import Files
from tfgpu_doctor.host.toml_text import decode_toml

_MOST_BYTES = 4 << 20
_EVERY = "*"


class KnownError(Exception):
    """The file cannot be read; the message says where and why."""


class KnownIssue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry: these nodes have this trouble until that day, and somebody looks after it."""

    nodes: tuple[str, ...]  # names, sets such as n[001-004], or *
    # A label, the id of a check, the key of a requirement, a measurement, a setting, or an outcome: "hung".
    cause: Annotated[str, msgspec.Meta(min_length=1)]
    owner: str
    until: dt.date  # the last day
    why: str = ""
    # The GPUs that have it, as a report names them: by UUID, else PCI address; of a measurement, GPU:1. None: any.
    devices: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)] | None = None


class Recognized(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes whose trouble is known."""

    cause: str
    owner: str
    until: dt.date
    why: str
    nodes: tuple[str, ...]
    devices: tuple[str, ...] = ()  # on these GPUs alone; empty for any


class _File(msgspec.Struct, forbid_unknown_fields=True):
    known: tuple[KnownIssue, ...]


def read_known(path: str) -> tuple[KnownIssue, ...]:
    """Read the table [[known]] of a TOML file. Raises KnownError."""
    try:
        text = Files().read_bytes(path, _MOST_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise KnownError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    try:
        found = msgspec.convert(decode_toml(text), _File).known
    except ValueError as error:
        raise KnownError(f"{path}: {error}") from None
    for place, each in enumerate(found):
        for nodes in each.nodes:
            try:
                expand(nodes)
            except ValueError as error:
                raise KnownError(f"{path}: known[{place}].nodes: {error}") from None
    return found


class Known:
    """The entries by node, and which still hold today; notes what is over, and what no node has any more."""

    def __init__(self, issues: Iterable[KnownIssue], today: dt.date) -> None:
        self._today = today
        self._entries = [(each, frozenset(name for nodes in each.nodes for name in expand(nodes))) for each in issues]
        self._seen: dict[int, set[str]] = {}

    def covers(self, node: str, *names: str, devices: Collection[str] = ()) -> bool:
        """Whether entries that hold name the node, a name of its trouble, and each GPU that has it (`devices`)."""
        for place in self._places(node, names, devices):
            self._seen.setdefault(place, set()).add(node)
        return self.holds(node, *names, devices=devices)

    def holds(self, node: str, *names: str, devices: Collection[str] = ()) -> bool:
        """Return the same, and note nothing."""
        found = [self._entries[place][0] for place in self._places(node, names, devices)]
        valid = [issue for issue in found if not self._is_over(issue)]
        named = {device for issue in valid for device in issue.devices or ()}
        return any(issue.devices is None for issue in valid) or (bool(valid) and named.issuperset(devices))

    def _places(self, node: str, names: Collection[str], devices: Collection[str]) -> list[int]:
        return [
            place
            for place, (issue, nodes) in enumerate(self._entries)
            if issue.cause in names and (node in nodes or _EVERY in nodes)
            if issue.devices is None or not set(issue.devices).isdisjoint(devices)
        ]

    def _is_over(self, issue: KnownIssue) -> bool:
        return issue.until < self._today

    def recognized(self) -> tuple[Recognized, ...]:
        """Return the entries that hold and that some node has, with these nodes."""
        return tuple(
            Recognized(
                cause=issue.cause, owner=issue.owner, until=issue.until, why=issue.why, devices=issue.devices or (),
                nodes=tuple(sorted(self._seen[place])),
            )
            for place, (issue, _) in enumerate(self._entries) if place in self._seen and not self._is_over(issue)
        )  # fmt: skip

    def notes(self, heard: Collection[str]) -> Sequence[str]:
        """Return what to change in the file. `heard`: the nodes of the fleet."""
        found = []
        for place, (issue, nodes) in enumerate(self._entries):
            over, seen = self._is_over(issue), place in self._seen
            where = f" ({', '.join(issue.devices)})" if issue.devices else ""
            named = f"the known issue {issue.cause} on {', '.join(issue.nodes)}{where}"
            if over and seen:
                found.append(f"{named} was to end on {issue.until}: it counts again, ask {issue.owner}")
            elif over:
                found.append(
                    f"{named} expired on {issue.until}, and no node of this report has it: {issue.owner} can remove it"
                )
            elif not seen and (_EVERY in nodes or nodes & set(heard)):
                found.append(f"no node has {named} any more: {issue.owner} can remove it")
        return found
