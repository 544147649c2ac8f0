"""The results of a check: findings with their evidence and fix, evidence for a pass, or the reason for a skip."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Severity = Literal["info", "warning", "error"]
Confidence = Literal["high", "medium", "low"]
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "error")
CONFIDENCES: tuple[Confidence, ...] = ("low", "medium", "high")

UNDETERMINED = "undetermined"  # the label of a cause that the doctor cannot name


@dataclass(frozen=True)
class Fix:
    """What to do. `commands` are safe to paste (no root, nothing is destroyed); everything else is in `text`."""

    text: str
    commands: tuple[str, ...] = ()


@dataclass(frozen=True)
class Figure:
    """A number that a finding rests on: 12 uncorrectable errors of a GPU. The key of a finding does not contain it."""

    name: str  # "uncorrectable errors", "float16 matrix product"
    value: float
    unit: str = ""  # "GB/s", "°C"; empty for counts and ratios
    device: str = ""  # one of the finding's devices; empty if it is not of one device


@dataclass(frozen=True)
class Finding:
    """A problem that was found; `cause` is a label of the knowledge's list of causes.

    The check's id, `cause` and `devices` are its key: they stay the same when the problem is found again. `message` and
    `figures` may differ then.
    """

    message: str
    cause: str = UNDETERMINED
    fix: Fix | None = None
    evidence: tuple[str, ...] = ()
    severity: Severity = "error"
    confidence: Confidence = "high"
    blocks: bool = True  # an error: whether it blocks the checks that come after; if not, only those tagged UNFIT
    devices: tuple[str, ...] = ()  # the GPUs or NVSwitches: UUID, else PCI address, else number; empty for the machine
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """What a check found that lets it pass."""

    text: str


class Skip(Exception):
    """Raised by a check that does not apply or cannot be evaluated; the message says why."""


class NotMeasured(Skip):
    """Raised by a check that applies here, but lacks what it would judge; the message says why it was not measured."""


class CannotTell(NotMeasured):
    """Raised by a check on which others depend and which cannot be evaluated: the dependent checks are undetermined too."""


class PluginError(Exception):
    """A plugin, or a check of one, that did not do what it should; the message is the reason."""


Yielded = Iterator[Finding | Evidence]
