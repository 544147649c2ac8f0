"""What the journal of a run says so far: duels that ended, figures, and what was under way."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tfgpu_doctor.model.facts.bench import Duel, Figure


@dataclass
class Account:
    """The journal, read to a point; `test` is the id of the test under way.

    `began` is when the test, or the duel in it, began (seconds since 1970); `warm` says that the process has held a
    duel before, so that it has not TensorFlow to import first.
    """

    duels: list[Duel] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)  # ids of tests that are done
    outcomes: dict[str, str] = field(default_factory=dict)  # of tests: "passed", "failed", "skipped"
    reasons: dict[str, str] = field(default_factory=dict)
    gpu_lost: str = ""  # why no GPU answered any more
    waiting: int = 0  # tests still to come when the session began
    test: str = ""
    began: float = 0.0
    warm: bool = False
    of_duels: set[str] = field(default_factory=set)  # ids of tests that held one
    duel: dict[str, Any] = field(default_factory=dict)  # the duel under way: suite, name, at_least, on_gpu, device

    def read(self, journal: bytes) -> None:
        """Take in more lines; one that is cut off at the end must come again, whole."""
        for line in journal.splitlines():
            self._take(json.loads(line))

    def reasons_of(self, outcome: str) -> dict[str, str]:
        """The tests that ended so, with the reason."""
        return {test: why for test, why in self.reasons.items() if self.outcomes[test] == outcome}

    def tells_of(self, test: str) -> bool:
        """Whether a test was a duel, whose verdict tells of it."""
        return test in self.of_duels

    def _take(self, row: dict[str, Any]) -> None:
        kind, at = row.pop("kind"), row.pop("at")
        if kind == "session":
            self.waiting, self.warm = row["tests"], False
        elif kind == "test":
            self.test, self.began, self.duel = row["id"], at, {}
        elif kind == "test ended":
            self.ended.append(row["id"])
            self.outcomes[row["id"]], self.reasons[row["id"]] = row["outcome"], row["reason"]
            self.test, self.duel = "", {}
        elif kind == "start":
            self.duel, self.began, self.warm = row, at, True
        elif kind == "duel":
            self.of_duels.add(self.test)
            self.duels.append(msgspec.convert(row["duel"], Duel))
        elif kind == "gpu lost":
            self.gpu_lost = row["why"]
        elif kind == "figure":
            self.figures.append(msgspec.convert(row["figure"], Figure))
