"""The causes that were named on the single machines of the lab, kept for the pairs: half of a pair is one of them."""

from __future__ import annotations

import json
import pathlib
from dataclasses import dataclass

from lab.machine import Machine


@dataclass(frozen=True)
class Answers:
    """A folder with one file for each machine."""

    folder: pathlib.Path

    def keep(self, machine: Machine, labels: list[str]) -> None:
        """Write them; who reads meanwhile finds all of them or none."""
        unfinished = self.folder / f"{machine.name}.unfinished"
        unfinished.write_text(json.dumps(labels))
        unfinished.rename(self._place(machine))

    def find(self, machine: Machine) -> list[str] | None:
        """The labels; None as long as the machine has not been examined."""
        place = self._place(machine)
        return json.loads(place.read_text()) if place.is_file() else None

    def _place(self, machine: Machine) -> pathlib.Path:
        return self.folder / f"{machine.name}.json"
