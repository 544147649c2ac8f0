"""What the journal of a run says so far: comparisons that ended, metrics, and what was under way."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tfgpu_doctor.model.facts.bench import Comparison, Metric


@dataclass
class Account:
    """The journal, read to a point; `test` is the id of the test under way.

    `began` is when the test, or the comparison in it, began (seconds since 1970); `warm` says that the process has held a
    comparison before, so that it has not TensorFlow to import first.
    """

    comparisons: list[Comparison] = field(default_factory=list)
    metrics: list[Metric] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)  # ids of tests that are done
    outcomes: dict[str, str] = field(default_factory=dict)  # of tests: "passed", "failed", "skipped"
    reasons: dict[str, str] = field(default_factory=dict)
    gpu_lost: str = ""  # why no GPU answered any more
    waiting: int = 0  # tests still to come when the session began
    test: str = ""
    began: float = 0.0
    warm: bool = False
    of_comparisons: set[str] = field(default_factory=set)  # ids of tests that held one
    comparison: dict[str, Any] = field(
        default_factory=dict
    )  # the comparison under way: suite, name, at_least, on_gpu, device

    def read(self, journal: bytes) -> None:
        """Take in more lines; one that is cut off at the end must come again, whole."""
        for line in journal.splitlines():
            self._take(json.loads(line))

    def reasons_of(self, outcome: str) -> dict[str, str]:
        """The tests that ended so, with the reason."""
        return {test: why for test, why in self.reasons.items() if self.outcomes[test] == outcome}

    def tells_of(self, test: str) -> bool:
        """Whether a test was a comparison, whose verdict tells of it."""
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
