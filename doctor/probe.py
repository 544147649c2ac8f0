"""What a probe is: a named question that gives one fact, or says why it could not."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

SUPPLIED = ("host", "request")  # parameters of a probe that are no facts


class Unavailable(Exception):
    """A fact that could not be had; the message says why, for the reader of the report."""


@dataclass(frozen=True)
class Request:
    """What is to be examined: the target's interpreter, and how long its slow parts may take (seconds)."""

    python: str
    quick: bool = False
    deadline_s: float = 120.0
    computes: bool = True  # else TensorFlow only lists the GPUs: on a simulated driver no kernel runs


@dataclass(frozen=True)
class Probe:
    """One probe: the fact that it gives, the facts that it needs first, and its deadline (seconds)."""

    name: str
    function: Callable[..., Any]
    needs: tuple[str, ...]
    parameters: tuple[str, ...]
    deadline_s: float | None  # None: the request's own, for the one that runs TensorFlow
    waits_for: str
    again_if: Callable[[Any], bool] | None = None  # asked once more when a fact is known that makes it true


def probe(
    *, waits_for: str, deadline_s: float | None = 20.0, again_if: Callable[[Any], bool] | None = None
) -> Callable[[Callable[..., Any]], Probe]:
    """Make a probe of a function; its name is the fact's, its parameters are `host`, `request` and facts it needs."""

    def make(function: Callable[..., Any]) -> Probe:
        parameters = tuple(inspect.signature(function).parameters)
        needs = tuple(name for name in parameters if name not in SUPPLIED)
        return Probe(function.__name__, function, needs, parameters, deadline_s, waits_for, again_if)

    return make
