"""The journal of a run, one line of JSON per event (`notes`), read while the run goes on."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tfgpu_doctor.model.facts.bench import Comparison, Metric


@dataclass
class Account:
    """The contents of the journal so far; `test` is the id of the running test.

    `began` is when the test, or the comparison in it, started (seconds since 1970); `warm` means that the process has
    started a comparison before, so it does not have to import TensorFlow first.
    """

    comparisons: list[Comparison] = field(default_factory=list)
    metrics: list[Metric] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)  # ids of tests that finished in this pass
    outcomes: dict[str, str] = field(default_factory=dict)  # of tests: "passed", "failed", "skipped"
    reasons: dict[str, str] = field(default_factory=dict)
    gpu_lost: str = ""  # why no GPU responded
    waiting: int = 0  # number of tests left when the session started
    collected: dict[str, None] = field(default_factory=dict)  # ids of all tests of the suites, in order
    process: int = 1  # of those that measure each comparison, one after the other
    processes: int = 1
    earlier: set[str] = field(default_factory=set)  # ids of tests that finished in an earlier pass
    seconds: dict[str, float] = field(default_factory=dict)  # of each test that finished, setup included
    test: str = ""
    began: float = 0.0
    alive: float = 0.0  # the last sign of life of the test
    test_began: float = 0.0
    warm: bool = False
    tests: dict[str, str] = field(default_factory=dict)  # by the key of a comparison, the id of its test
    comparison: dict[str, Any] = field(
        default_factory=dict
    )  # the running comparison: suite, name, at_least, on_gpu, device

    def read(self, journal: bytes) -> None:
        """Process more lines; a line that is incomplete at the end must be passed again, complete."""
        for line in journal.splitlines():
            self._take(json.loads(line))

    def begin(self, process: int, processes: int) -> None:
        """Begin the pass of another process over the tests."""
        self.earlier |= set(self.ended)
        self.process, self.processes, self.ended = process, processes, []

    def reasons_of(self, outcome: str) -> dict[str, str]:
        """Return the tests with this outcome, with the reason."""
        return {test: why for test, why in self.reasons.items() if self.outcomes[test] == outcome}

    def _take(self, row: dict[str, Any]) -> None:
        kind, at = row.pop("kind"), row.pop("at")
        self.alive = at
        if kind == "session":
            self.waiting, self.warm = row["tests"], False
            self.collected |= dict.fromkeys(row["ids"])
        elif kind == "test":
            self.test, self.began, self.test_began, self.comparison = row["id"], at, at, {}
        elif kind == "test ended":
            self.ended.append(row["id"])
            self.seconds[row["id"]] = at - self.test_began
            if self.outcomes.get(row["id"]) != "failed":  # in one of several processes is enough
                self.outcomes[row["id"]], self.reasons[row["id"]] = row["outcome"], row["reason"]
            self.test, self.comparison = "", {}
        elif kind == "start":
            self.comparison, self.began, self.warm = row, at, True
        elif kind == "comparison":
            comparison = msgspec.convert(row["comparison"], Comparison)
            self.tests[comparison.key] = self.test
            self.comparisons.append(comparison)
        elif kind == "gpu lost":
            self.gpu_lost = row["why"]
        elif kind == "metric":
            self.metrics.append(msgspec.convert(row["metric"], Metric))
