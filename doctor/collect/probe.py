"""The probe: a named query that returns one fact, or the reason why the fact is unavailable."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tfgpu_doctor.model.facts.stress import STRESS_LEVELS, Level

SUPPLIED = ("host", "request")  # parameters of a probe that are not facts


class Unavailable(Exception):
    """A fact that is unavailable; the message says why, for the reader of the report."""


@dataclass(frozen=True)
class Request:
    """The examination to run: the target's interpreter, and the time limits of its slow parts (seconds)."""

    python: str
    level: Level = "standard"
    deadline_s: float = 120.0
    computes: bool = True  # otherwise TensorFlow only lists the GPUs: a simulated driver runs no kernels
    soak_s: float = 600.0  # duration of the stress test at level "soak"
    even_if_busy: bool = False  # stress-test GPUs that others use as well

    @property
    def quick(self) -> bool:
        """Whether TensorFlow itself is skipped."""
        return self.level == "quick"

    @property
    def stresses(self) -> bool:
        """Whether the GPUs are stress-tested."""
        return self.level in STRESS_LEVELS

    @property
    def stress_deadline_s(self) -> float:
        """The time limit of an examination with a stress test: level "deep" ends when TensorFlow's time is up.

        Level "soak" has that time twice: its processes start TensorFlow again, and that must not shorten the load.
        """
        return 2 * self.deadline_s + self.soak_s if self.level == "soak" else self.deadline_s


Deadline = float | Callable[[Request], float] | None  # seconds; None: the deadline of the request


@dataclass(frozen=True)
class Probe:
    """One probe: the fact that it returns, the facts that it needs first, and its deadline (seconds).

    A probe with `keeps_part` returns partial results when the user stops the examination. A probe runs again when a new
    fact fulfills its condition `again_if`. A slow probe that mostly waits for a child process `starts_first`.
    """

    name: str
    function: Callable[..., Any]
    needs: tuple[str, ...]
    parameters: tuple[str, ...]
    deadline_s: Deadline
    waits_for: str
    keeps_part: bool = False
    again_if: Callable[[Any], bool] | None = None
    starts_first: bool = False

    def limit_s(self, request: Request) -> float:
        """The probe's time limit (seconds)."""
        if callable(self.deadline_s):
            return self.deadline_s(request)
        return request.deadline_s if self.deadline_s is None else self.deadline_s


def probe(
    *,
    waits_for: str,
    deadline_s: Deadline = 20.0,
    keeps_part: bool = False,
    again_if: Callable[[Any], bool] | None = None,
    starts_first: bool = False,
) -> Callable[[Callable[..., Any]], Probe]:
    """Make a probe of a function; its name is the fact's, its parameters are `host`, `request` and facts that it needs."""

    def make(function: Callable[..., Any]) -> Probe:
        parameters = tuple(inspect.signature(function).parameters)
        needs = tuple(name for name in parameters if name not in SUPPLIED)
        return Probe(
            function.__name__, function, needs, parameters, deadline_s, waits_for, keeps_part, again_if, starts_first
        )

    return make
