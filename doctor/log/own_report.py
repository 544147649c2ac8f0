"""What a report of the doctor states: its verdict and its causes; and the form that reads it line by line."""

from __future__ import annotations

import enum
from typing import Protocol

import msgspec

from tfgpu_doctor.model import Confidence, Severity
from tfgpu_doctor.model.finding import UNDETERMINED

COMPUTES = "TensorFlow computes on a GPU here"  # the questions of render.words.answers
FIT = "every GPU of this machine is fit for work"
SUBJECTS = ("TensorFlow ", "no TensorFlow")  # how render.words.subject begins
UNKNOWN = "the cause is unknown"  # stands where the label is UNDETERMINED
# How the verdicts of render.words.headline begin; those of a healthy machine first.
_HEALTHY = ("Healthy: ", "Works, with ")
VERDICTS = (
    *_HEALTHY, "Interrupted: ", "A check of the doctor crashed", "Not every selected check passed", "The selected checks pass",
    "Not judged: ",
)  # fmt: skip
_MOST_EVIDENCE = 3  # lines of one cause
_CONFIDENCES: dict[str, Confidence] = {"high": "high", "medium": "medium", "low": "low"}
_SEVERITIES: dict[str, Severity] = {"error": "error", "warning": "warning", "info": "info"}


class NamedCause(msgspec.Struct, kw_only=True):
    """A root cause that a report names, with the lines of the log where it and its evidence stand."""

    line: int
    label: str
    id: str = ""
    title: str = ""
    severity: Severity = "error"
    confidence: Confidence = "high"
    evidence: list[tuple[int, str]] = []

    def add_evidence(self, line: int, text: str) -> bool:
        """Keep the first lines of its evidence; say whether this one is kept."""
        is_kept = len(self.evidence) < _MOST_EVIDENCE
        if is_kept:
            self.evidence.append((line, text))
        return is_kept


class OwnReport(msgspec.Struct, kw_only=True):
    """A report in a log: its format, its first line, what it examined, and what it states."""

    format: str
    line: int = 0
    subject: str = ""
    verdict: str = ""
    causes: list[NamedCause] = []

    @property
    def healthy(self) -> bool | None:
        """Whether its verdict is that the machine works; None if it states neither that nor an error."""
        if self.verdict.startswith(_HEALTHY):
            return True
        return False if any(each.severity == "error" for each in self.causes) else None


class Part(enum.Enum):
    """What a line is to a report."""

    OWN = "of the report"
    QUOTED = "of a log that the report quotes"
    LAST = "the last one of the report"
    PAST = "no more of the report"


class Form(Protocol):
    """Reads a report in one format, from its first line on."""

    report: OwnReport

    def take(self, number: int, line: str) -> Part:
        """Take the next line, without what a CI service put before it; say what it is."""

    def close(self) -> None:
        """The report is over, or the log is."""


def named(known: str, line: int) -> NamedCause | None:
    """The cause in words such as `driver_too_old, confidence high`, or `the cause is unknown`; None in others."""
    if known == UNKNOWN:
        return NamedCause(line=line, label=UNDETERMINED, confidence="low")
    label, comma, confidence = known.partition(", confidence ")
    if not comma or confidence not in _CONFIDENCES or not label.isidentifier():
        return None
    return NamedCause(line=line, label=label, confidence=_CONFIDENCES[confidence])


def severity_of(word: str) -> Severity:
    """The severity that a word names."""
    return _SEVERITIES.get(word, "error")


def confidence_of(word: str) -> Confidence:
    """The confidence that a word names."""
    return _CONFIDENCES.get(word, "low")
