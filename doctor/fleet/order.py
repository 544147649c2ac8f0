"""The order for every node of a fleet, as options of `fleet node`."""

from __future__ import annotations

import shlex

import msgspec

from tfgpu_doctor.model.facts.stress import STRESS_LEVELS, Level
from tfgpu_doctor.perf_tests.budget import parse_budget

SPANNING = "multi_worker"  # the suite in which one process of each node takes part
DEFAULT_BUDGET, SOAK_MINUTES = "2m", 10.0
# Seconds: the doctor normally ends long before; this limit is for one that does not.
_LIMITS_S: dict[Level, float] = {"quick": 120, "standard": 300, "deep": 600, "soak": 600}
_SUITES_S, _FULL_BUDGET_S = 300.0, 3600.0  # to start and end suites; for suites without a time budget


class NodeOrder(msgspec.Struct, frozen=True, kw_only=True):
    """How thoroughly each node is examined. A profile replaces level and suites."""

    level: Level = "standard"
    minutes: float | None = None  # of --level soak
    suites: tuple[str, ...] = ()
    budget: str = ""
    profile: str = ""
    profile_digest: str = ""  # of its content: two files with the same name are two orders
    even_if_busy: bool = False
    select: tuple[str, ...] = ()  # ids or prefixes of checks, as for `check`
    ignore: tuple[str, ...] = ()

    @property
    def takes_gpus(self) -> bool:
        """Whether the order needs the node's GPUs from a scheduler. For a profile, its own level and suites decide."""
        return self.level in STRESS_LEVELS or bool(self.suites)

    @property
    def spans(self) -> bool:
        """Whether the nodes train together."""
        return SPANNING in self.suites

    @property
    def limit_s(self) -> float:
        """The time limit of a node for its level and suites. Raises ValueError for an invalid budget."""
        limit_s = _LIMITS_S[self.level]
        if self.level == "soak":
            limit_s += 60 * (self.minutes or SOAK_MINUTES)
        if self.suites:
            budget_s = parse_budget(self.budget or DEFAULT_BUDGET)
            limit_s += _SUITES_S + (_FULL_BUDGET_S if budget_s is None else budget_s)
        return limit_s

    @property
    def options(self) -> list[str]:
        """The options for `fleet node`."""
        if self.profile:
            found = ["--profile", self.profile]
        else:
            found = ["--level", self.level]
            found += ["--minutes", f"{self.minutes:g}"] if self.minutes is not None else []
            for suite in self.suites:
                found += ["--suite", suite]
            found += ["--budget", self.budget] if self.budget else []
            found += ["--select", ",".join(self.select)] if self.select else []
            found += ["--ignore", ",".join(self.ignore)] if self.ignore else []
        return found + (["--even-if-busy"] if self.even_if_busy else [])

    @property
    def words(self) -> str:
        """The options as one line, stored with each report."""
        return " ".join([shlex.join(self.options), *([f"({self.profile_digest})"] if self.profile_digest else [])])
