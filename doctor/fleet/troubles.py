"""The causes and unmet requirements of all nodes, by keys that stay the same at the next examination."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from tfgpu_doctor.fleet.fleet import CauseGroup
from tfgpu_doctor.fleet.reports_read import Heard
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model import SEVERITIES, UNDETERMINED, Severity

_LONGEST = 200
_MOST_WORDS = 50  # different messages that are counted of one cause
_EXAMPLES = 3


class Key(NamedTuple):
    """What nodes with the same trouble share; `label` is empty for an unmet requirement, whose key is `id`."""

    what: Literal["cause", "unmet"]
    label: str
    id: str
    severity: Severity
    title: str = ""  # of a requirement


class _Trouble(NamedTuple):
    key: Key
    words: str
    devices: frozenset[str]


class Troubles:
    """The nodes (by number) with each cause and each unmet requirement, and those that had it in the retest as well."""

    def __init__(self) -> None:
        self._nodes: dict[Key, list[int]] = {}
        self._words: dict[Key, Counter[str]] = {}
        self._again: dict[Key, set[int]] = {}
        self._of_node: dict[tuple[int, str], list[tuple[Key, frozenset[str]]]] = {}

    def add(self, heard: Heard, node: int) -> None:
        """Add the first test of a node."""
        for key, words, devices in _troubles(heard):
            nodes = self._nodes.setdefault(key, [])
            if not nodes or nodes[-1] != node:
                nodes.append(node)
            said = self._words.setdefault(key, Counter())
            if words in said or len(said) < _MOST_WORDS:
                said[words] += 1
            self._of_node.setdefault((node, _identity(key.label, key.id)), []).append((key, devices))

    def look_again(self, heard: Heard, node: int) -> None:
        """Add the retest of a node: the same cause counts, on a GPU that had it before if both say on which."""
        for again, _, devices in _troubles(heard):
            for key, before in self._of_node.get((node, _identity(again.label, again.id)), ()):
                if _may_be_same(before, devices):
                    self._again.setdefault(key, set()).add(node)

    def devices(self, node: int, label: str, id: str) -> frozenset[str]:
        """Return the GPUs on which a node has this cause; empty for one of the node itself, and for a requirement."""
        rows = self._of_node.get((node, _identity(label, id)), ())
        return frozenset(each for key, devices in rows if (key.label, key.id) == (label, id) for each in devices)

    def groups(self, what: Literal["cause", "unmet"], names: Sequence[str]) -> tuple[CauseGroup, ...]:
        """Return them, most severe first, then by the number of nodes. `names`: of the nodes, by number."""
        found = [self._group(key, names) for key in self._nodes if key.what == what]
        return tuple(sorted(found, key=lambda each: (-SEVERITIES.index(each.severity), -len(each.nodes), each.title)))

    def _group(self, key: Key, names: Sequence[str]) -> CauseGroup:
        said = [words for words, _ in self._words[key].most_common()]
        return CauseGroup(
            label=key.label,
            id=key.id,
            title=_title(key, said),
            severity=key.severity,
            nodes=tuple(sorted(names[node] for node in self._nodes[key])),
            again=tuple(sorted(names[node] for node in self._again.get(key, ()))),
            fix=_fix(key),
            examples=tuple(said[:_EXAMPLES]) if len(said) > 1 or key.what == "unmet" else (),
        )


def _identity(label: str, id: str) -> str:
    """The cause, whichever check ranks first in the report; the check or the requirement where no cause is known."""
    return label if label not in ("", UNDETERMINED) else id


def _may_be_same(before: frozenset[str], after: frozenset[str]) -> bool:
    """Whether the same GPU may be meant. One that is lost between the looks is named by its address, no longer by its UUID."""
    if not before or not after or before & after:
        return True
    return all(map(_is_uuid, before)) != all(map(_is_uuid, after))


def _is_uuid(device: str) -> bool:
    return device.startswith(("GPU-", "MIG-"))


def _troubles(heard: Heard) -> Iterator[_Trouble]:
    for cause in heard.causes:
        key = Key("cause", cause.label[:_LONGEST], cause.id[:_LONGEST], cause.severity)
        yield _Trouble(key, cause.title[:_LONGEST], frozenset(cause.devices))
    for each in heard.unmet:
        title = f"{each.title}: {each.required} required"[:_LONGEST]
        yield _Trouble(Key("unmet", "", each.key[:_LONGEST], "error", title), each.measured[:_LONGEST], frozenset())


def _fix(key: Key) -> str:
    row = read_knowledge().causes.get(key.label)
    return row.fix if row else ""


def _title(key: Key, said: Sequence[str]) -> str:
    return key.title if key.what == "unmet" else common_title(key.label, said)


def common_title(label: str, said: Sequence[str]) -> str:
    """Return the words that fit all nodes: what they all say, else the meaning of the label."""
    row = read_knowledge().causes.get(label)
    if len(set(said)) == 1 or row is None or label == UNDETERMINED:
        return said[0]
    return row.title
