"""What a probe is: a named question that gives one fact, or says why it could not."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tfgpu_doctor.model.facts.stress import STRESS_LEVELS, Level

SUPPLIED = ("host", "request")  # parameters of a probe that are no facts


class Unavailable(Exception):
    """A fact that could not be had; the message says why, for the reader of the report."""


@dataclass(frozen=True)
class Request:
    """What is to be examined: the target's interpreter, and how long its slow parts may take (seconds)."""

    python: str
    level: Level = "standard"
    deadline_s: float = 120.0
    computes: bool = True  # else TensorFlow only lists the GPUs: on a simulated driver no kernel runs
    soak_s: float = 600.0  # how long the load of level "soak" lasts
    even_if_busy: bool = False  # load a GPU that others use as well

    @property
    def quick(self) -> bool:
        """Whether TensorFlow itself is left out."""
        return self.level == "quick"

    @property
    def stresses(self) -> bool:
        """Whether a load is put on the GPUs."""
        return self.level in STRESS_LEVELS

    @property
    def stress_deadline_s(self) -> float:
        """How long an examination with a load may take in all: level "deep" is done when TensorFlow's time is up."""
        return self.deadline_s + (self.soak_s if self.level == "soak" else 0.0)


Deadline = float | Callable[[Request], float] | None  # seconds; None: those of the request


@dataclass(frozen=True)
class Probe:
    """One probe: the fact that it gives, the facts that it needs first, and its deadline (seconds).

    One that `keeps_part` gives what it has when the user stops the examination. One is asked once more when a fact is
    known that it wants to be asked `again_if`.
    """

    name: str
    function: Callable[..., Any]
    needs: tuple[str, ...]
    parameters: tuple[str, ...]
    deadline_s: Deadline
    waits_for: str
    keeps_part: bool = False
    again_if: Callable[[Any], bool] | None = None

    def limit_s(self, request: Request) -> float:
        """How long it may take (seconds)."""
        if callable(self.deadline_s):
            return self.deadline_s(request)
        return request.deadline_s if self.deadline_s is None else self.deadline_s


def probe(
    *,
    waits_for: str,
    deadline_s: Deadline = 20.0,
    keeps_part: bool = False,
    again_if: Callable[[Any], bool] | None = None,
) -> Callable[[Callable[..., Any]], Probe]:
    """Make a probe of a function; its name is the fact's, its parameters are `host`, `request` and facts it needs."""

    def make(function: Callable[..., Any]) -> Probe:
        parameters = tuple(inspect.signature(function).parameters)
        needs = tuple(name for name in parameters if name not in SUPPLIED)
        return Probe(function.__name__, function, needs, parameters, deadline_s, waits_for, keeps_part, again_if)

    return make
