"""What a check is: a pure function of facts and knowledge that yields findings, and the decorator that makes one."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

Severity = Literal["info", "warning", "error"]
Confidence = Literal["high", "medium", "low"]
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "error")
CONFIDENCES: tuple[Confidence, ...] = ("low", "medium", "high")

UNDETERMINED = "undetermined"  # the label of a cause that the doctor cannot name
_ID = re.compile(r"[A-Z]{3,8}\d{3}")


@dataclass(frozen=True)
class Fix:
    """What to do. `commands` are safe to paste (no root, nothing destroyed); everything else is said in `text`."""

    text: str
    commands: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """Something that is not as it should be; `cause` is a label of the knowledge's list of causes."""

    message: str
    cause: str = UNDETERMINED
    fix: Fix | None = None
    evidence: tuple[str, ...] = ()
    severity: Severity = "error"
    confidence: Confidence = "high"


@dataclass(frozen=True)
class Evidence:
    """What a check saw that lets it pass."""

    text: str


class Skip(Exception):
    """Raised by a check that does not apply, or cannot tell; the message says why."""


class CannotTell(Skip):
    """Raised by a check that others build on and that does not know: what comes after it cannot be told either."""


Yielded = Iterator[Finding | Evidence]


@dataclass(frozen=True)
class Check:
    """A check: its stable id, what is true when healthy, the checks that must not have failed before it."""

    id: str
    title: str
    function: Callable[..., Iterable[Finding | Evidence]]
    after: tuple[str, ...]
    causes: tuple[str, ...]
    sources: tuple[str, ...]
    needs: tuple[str, ...]
    optional: tuple[str, ...]

    @property
    def explanation(self) -> str:
        """Why the check exists, and what to do when it fails: the docstring of its function."""
        return inspect.getdoc(self.function) or ""

    def __call__(self, *facts: Any, **named: Any) -> list[Finding | Evidence]:
        """What the check yields for these facts; for tests of one check."""
        return list(self.function(*facts, **named))


def check(
    id: str,
    title: str,
    *,
    after: tuple[str, ...] = (),
    causes: tuple[str, ...] = (),
    sources: tuple[str, ...] = (),
) -> Callable[[Callable[..., Iterable[Finding | Evidence]]], Check]:
    """Make a check of a generator function whose parameters are named as the facts it needs.

    A fact that could not be had makes the check skip, with the reason; a parameter with a default takes the
    default instead. `knowledge` gives the tables. To pass is to yield no finding of severity warning or error.
    """
    if not _ID.fullmatch(id):
        raise ValueError(f"the id of a check is capital letters and three digits, like ACME001; not {id!r}")

    def make(function: Callable[..., Iterable[Finding | Evidence]]) -> Check:
        parameters = inspect.signature(function).parameters.values()
        needs = tuple(each.name for each in parameters if each.default is each.empty)
        optional = tuple(each.name for each in parameters if each.default is not each.empty)
        return Check(id, title, function, after, causes, sources, needs, optional)

    return make
