"""The folder of a fleet: which nodes were asked, which have reported, and each report written the moment it is there."""

from __future__ import annotations

import os

import msgspec

from tfgpu_doctor.fleet.node import NodeReport, encode_node, file_name
from tfgpu_doctor.fleet.reports_read import EXPECTED_FILE
from tfgpu_doctor.host.files import Files, write_whole

_LARGEST_BYTES = 16 << 20


class Done(msgspec.Struct, frozen=True):
    """As much of a report as tells whether it has to be asked for again."""

    node: str
    outcome: str
    order: str = ""
    exit_code: int | None = None
    settings: dict[str, str] = {}


class FleetFolder:
    """One folder. Nothing in it is ever overwritten but the report on a node that gave none. Raises OSError."""

    def __init__(self, path: str) -> None:
        self.path = path
        os.makedirs(path, exist_ok=True)

    def expected(self) -> list[str]:
        """The nodes that were asked before; none where that is not told."""
        try:
            return msgspec.json.decode(
                Files().read_bytes(os.path.join(self.path, EXPECTED_FILE), _LARGEST_BYTES), type=list[str]
            )
        except (FileNotFoundError, msgspec.DecodeError):
            return []

    def expect(self, names: set[str]) -> None:
        """Write down who is asked, so that who never answers is missed."""
        document = msgspec.json.encode(sorted(names | set(self.expected())))
        write_whole(os.path.join(self.path, EXPECTED_FILE), document + b"\n")

    def all_done(self) -> list[Done]:
        """What became of every node that has a report here."""
        names = [name for name in os.listdir(self.path) if name.endswith(".json") and name != EXPECTED_FILE]
        return [found for name in sorted(names) if (found := self._read(name))]

    def done(self, node: str) -> Done | None:
        """What became of a node before; None where nothing that can be read tells."""
        return self._read(file_name(node))

    def _read(self, name: str) -> Done | None:
        try:
            found = msgspec.json.decode(Files().read_bytes(os.path.join(self.path, name), _LARGEST_BYTES), type=Done)
        except (OSError, msgspec.DecodeError):
            return None
        return found if file_name(found.node) == name else None

    def keep(self, name: str, report: NodeReport) -> None:
        """Write a node's report, whole or not at all."""
        write_whole(os.path.join(self.path, file_name(name)), encode_node(report))
