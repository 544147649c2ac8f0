"""What is asked of every node of a fleet, as options of `fleet node`."""

from __future__ import annotations

import shlex

import msgspec

from tfgpu_doctor.facts import Level
from tfgpu_doctor.facts.load import LOADING


class NodeOrder(msgspec.Struct, frozen=True, kw_only=True):
    """How far each node is examined. A profile stands in place of level and suites."""

    level: Level = "standard"
    minutes: float | None = None  # of --level soak
    suites: tuple[str, ...] = ()
    budget: str = ""
    profile: str = ""
    even_if_busy: bool = False

    @property
    def takes_gpus(self) -> bool:
        """Whether a scheduler has to give the node's GPUs for it. A profile says so by its own level and suites."""
        return self.level in LOADING or bool(self.suites)

    @property
    def options(self) -> list[str]:
        """As `fleet node` takes them."""
        if self.profile:
            found = ["--profile", self.profile]
        else:
            found = ["--level", self.level]
            found += ["--minutes", f"{self.minutes:g}"] if self.minutes is not None else []
            for suite in self.suites:
                found += ["--suite", suite]
            found += ["--budget", self.budget] if self.budget else []
        return found + (["--even-if-busy"] if self.even_if_busy else [])

    @property
    def words(self) -> str:
        """The same as one line, kept with each report."""
        return shlex.join(self.options)
