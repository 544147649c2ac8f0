"""The journal of a run: one line of JSON per event, written before and after each test, and read while the run goes on."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tfgpu_doctor.model.facts.bench import Comparison, Metric
from tfgpu_doctor.perf_tests.variables import JOURNAL_VARIABLE


def note(kind: str, row: dict[str, Any]) -> None:
    """Add a line if the run has a journal."""
    path = os.environ.get(JOURNAL_VARIABLE)
    if path:
        with open(path, "a", encoding="utf-8") as file:  # one write per line: a killed process leaves no partial line
            file.write(json.dumps({"kind": kind, "at": time.time(), **row}) + "\n")


@dataclass
class Account:
    """The contents of the journal so far; `test` is the id of the running test.

    `began` is when the test, or the comparison in it, started (seconds since 1970); `warm` means that the process has
    started a comparison before, so it does not have to import TensorFlow first.
    """

    comparisons: list[Comparison] = field(default_factory=list)
    metrics: list[Metric] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)  # ids of finished tests
    outcomes: dict[str, str] = field(default_factory=dict)  # of tests: "passed", "failed", "skipped"
    reasons: dict[str, str] = field(default_factory=dict)
    gpu_lost: str = ""  # why no GPU responded
    waiting: int = 0  # number of tests left when the session started
    test: str = ""
    began: float = 0.0
    warm: bool = False
    of_comparisons: set[str] = field(default_factory=set)  # ids of tests that ran a comparison
    comparison: dict[str, Any] = field(
        default_factory=dict
    )  # the running comparison: suite, name, at_least, on_gpu, device

    def read(self, journal: bytes) -> None:
        """Process more lines; a line that is incomplete at the end must be passed again, complete."""
        for line in journal.splitlines():
            self._take(json.loads(line))

    def reasons_of(self, outcome: str) -> dict[str, str]:
        """Return the tests with this outcome, with the reason."""
        return {test: why for test, why in self.reasons.items() if self.outcomes[test] == outcome}

    def tells_of(self, test: str) -> bool:
        """Return whether a test ran a comparison, whose verdict reports its result."""
        return test in self.of_comparisons

    def _take(self, row: dict[str, Any]) -> None:
        kind, at = row.pop("kind"), row.pop("at")
        if kind == "session":
            self.waiting, self.warm = row["tests"], False
        elif kind == "test":
            self.test, self.began, self.comparison = row["id"], at, {}
        elif kind == "test ended":
            self.ended.append(row["id"])
            self.outcomes[row["id"]], self.reasons[row["id"]] = row["outcome"], row["reason"]
            self.test, self.comparison = "", {}
        elif kind == "start":
            self.comparison, self.began, self.warm = row, at, True
        elif kind == "comparison":
            self.of_comparisons.add(self.test)
            self.comparisons.append(msgspec.convert(row["comparison"], Comparison))
        elif kind == "gpu lost":
            self.gpu_lost = row["why"]
        elif kind == "metric":
            self.metrics.append(msgspec.convert(row["metric"], Metric))
