"""Which node leaves service: for what lies in the node itself, and only so many nodes in an hour."""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Iterable, Sequence

import msgspec

from tfgpu_doctor.fleet.fleet import CauseGroup
from tfgpu_doctor.fleet.node import Cause
from tfgpu_doctor.host.files import Files, create_whole
from tfgpu_doctor.host.json_text import decode_json
from tfgpu_doctor.knowledge import Knowledge

DRAINED_FOLDER = "drained"  # in the folder of the reports
MOST_PER_HOUR = 2
_HOUR_S = 3600.0
OURS = "tfgpu-doctor:"  # how a reason begins that the doctor gave
_UNSAFE = re.compile(r"[^A-Za-z0-9 ._:;,()/%+-]+")
_LONGEST = 200  # characters; `sinfo -R` shows far fewer


class Drain(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a node that left service."""

    node: str
    at: dt.datetime
    reason: str


def drain_line(words: str) -> str:
    """Return a reason as one line of characters that are harmless on a command line and in a scheduler's tables."""
    return " ".join(_UNSAFE.sub(" ", f"{OURS} {words.replace(chr(39), '')}").split())[:_LONGEST]


def drains(label: str, knowledge: Knowledge) -> bool:
    """Whether a cause lies in the node's hardware or driver, by the column `drains` of causes.json."""
    row = knowledge.causes.get(label)
    return row is not None and row.drains


def reason_to_drain(causes: Iterable[Cause], knowledge: Knowledge) -> str:
    """Return one line that names the node's own errors; empty if there is none."""
    own = [each for each in causes if each.severity == "error" and drains(each.label, knowledge)]
    return reason_of(own) if own else ""


def reason_of(causes: Sequence[Cause | CauseGroup]) -> str:
    """Return one line with every cause: its label, its check, which must judge the node before it returns, and its title.

    Of several, the titles are cut, so that no check is missing.
    """
    room = (_LONGEST - len(OURS)) // len(causes) - len("; ")
    parts = ((f"{each.label} ({each.id})", each.title) for each in causes)
    if len(causes) > 1:
        parts = ((head, title[: max(0, room - len(f"{head}: "))]) for head, title in parts)
    return drain_line("; ".join(f"{head}: {title}" if title else head for head, title in parts))


class Drains:
    """The nodes that left service, in a folder that all nodes share.

    A place in the hour is a file with the next number, which only one node can create: the one that finds it taken reads it
    and tries the next. So the limit holds however many nodes ask at once, and a node that dies holds no lock.
    """

    def __init__(self, out: str) -> None:
        self._folder = os.path.join(out, DRAINED_FOLDER)

    def take_place(self, node: str, reason: str, most: int, now_s: float) -> list[str]:
        """Take a place for the node; return nothing, or the nodes that took all places of this hour. Raises OSError.

        A node that has a place of this hour needs no other.
        """
        os.makedirs(self._folder, exist_ok=True)
        last = self._last()
        content = msgspec.json.encode(
            Drain(node=node, at=dt.datetime.fromtimestamp(now_s, dt.timezone.utc), reason=reason)
        )
        while True:
            recent = self._recent(last, most, now_s)
            if node in recent:
                return []
            if len(recent) >= most:
                return recent
            try:
                create_whole(self._path(last + 1), content + b"\n")
            except FileExistsError:
                last += 1
            else:
                return []

    def _recent(self, last: int, most: int, now_s: float) -> list[str]:
        places = range(max(1, last - most + 1), last + 1)
        return [self._node(place) for place in places if self._is_recent(place, now_s)]

    def _last(self) -> int:
        # What is being written has a hidden name, and so no number: it holds no place.
        names = (name.partition(".")[0] for name in Files().list_folder(self._folder))
        return max((int(name) for name in names if name.isdecimal()), default=0)

    def _path(self, number: int) -> str:
        return os.path.join(self._folder, f"{number:06d}.json")

    def _is_recent(self, number: int, now_s: float) -> bool:
        """Whether the file server says so: the clock of the node that wrote the file may be wrong."""
        try:
            return now_s - Files().status(self._path(number)).changed_s < _HOUR_S
        except FileNotFoundError:
            return False  # an administrator removed it

    def _node(self, number: int) -> str:
        try:
            return decode_json(Files().read_bytes(self._path(number)), Drain).node
        except (OSError, msgspec.DecodeError):
            return "an unknown node"
