"""The folder of a fleet: the expected nodes, the nodes that have reported, and each report as soon as it arrives."""

from __future__ import annotations

import os

import msgspec

from tfgpu_doctor.fleet.node import NodeReport, encode_node, file_name
from tfgpu_doctor.fleet.reports_read import EXPECTED_FILE
from tfgpu_doctor.host.files import Files, write_whole
from tfgpu_doctor.host.json_text import decode_json

_LARGEST_BYTES = 16 << 20


class Done(msgspec.Struct, frozen=True):
    """The part of a report that shows whether the node must be examined again."""

    node: str
    outcome: str
    order: str = ""
    exit_code: int | None = None
    settings: dict[str, str] = {}


class FleetFolder:
    """One folder. Only the report of a node that did not deliver its own is ever overwritten. Raises OSError."""

    def __init__(self, path: str) -> None:
        self.path = path
        os.makedirs(path, exist_ok=True)

    def expected(self) -> list[str]:
        """Return the nodes that were expected before; empty if unknown."""
        try:
            return decode_json(Files().read_bytes(os.path.join(self.path, EXPECTED_FILE), _LARGEST_BYTES), list[str])
        except (FileNotFoundError, msgspec.DecodeError):
            return []

    def expect(self, names: set[str]) -> None:
        """Record the expected nodes, so that a node that never responds is noticed."""
        document = msgspec.json.encode(sorted(names | set(self.expected())))
        write_whole(os.path.join(self.path, EXPECTED_FILE), document + b"\n")

    def all_done(self) -> list[Done]:
        """Return the outcome of every node that has a report here."""
        names = [name for name in os.listdir(self.path) if name.endswith(".json") and name != EXPECTED_FILE]
        return [found for name in sorted(names) if (found := self._read(name))]

    def done(self, node: str) -> Done | None:
        """Return the earlier outcome of a node; None if there is no readable report."""
        return self._read(file_name(node))

    def _read(self, name: str) -> Done | None:
        try:
            found = decode_json(Files().read_bytes(os.path.join(self.path, name), _LARGEST_BYTES), Done)
        except (OSError, msgspec.DecodeError):
            return None
        return found if file_name(found.node) == name else None

    def keep(self, name: str, report: NodeReport) -> None:
        """Write a node's report atomically."""
        write_whole(os.path.join(self.path, file_name(name)), encode_node(report))
