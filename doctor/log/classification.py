"""Rank causes from the signatures found in a log and from the given context. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.knowledge.schema import Cause, LogRule
from tfgpu_doctor.log.context import Context
from tfgpu_doctor.log.derived import Hits, derive
from tfgpu_doctor.log.extracted import tell
from tfgpu_doctor.log.signatures import Found, Hit
from tfgpu_doctor.model import Confidence, Severity

_SEVERITIES: dict[str, Severity] = {"blocker": "error", "degrades": "warning", "feature": "warning", "none": "info"}
_MOST_LINES = 4  # of evidence for one cause
_MOST_CAUSES = 6
HARMLESS = "harmless_noise_only"


class Line(msgspec.Struct, frozen=True):
    """A line of the log: its number, from 1, and its text."""

    line: int
    text: str


class LogCause(msgspec.Struct, frozen=True, kw_only=True):
    """A cause that a log indicates; `ask` says what to request next where the log alone is not conclusive."""

    label: str
    title: str
    severity: Severity
    confidence: Confidence
    evidence: tuple[str, ...]
    lines: tuple[int, ...]
    fix: str
    ask: str = ""


class Noise(msgspec.Struct, frozen=True):
    """Lines that are harmless by themselves: the number of one kind, and the first."""

    name: str
    count: int
    line: Line


class LogReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result for a log: the causes, most likely first (empty if the log shows none), and the noise."""

    schema: int = 2
    lines: int
    context: dict[str, str]
    extracted: dict[str, tuple[str, ...]]  # what the log reports about the machine and the errors, each value once
    causes: tuple[LogCause, ...]
    noise: tuple[Noise, ...]


def classify(found: Mapping[str, Found], context: Context, knowledge: Knowledge, lines: int = 0) -> LogReport:
    """Return the report for a log in which these signatures were found."""
    known = context.learning(found, knowledge)
    hits = derive(found, known, knowledge)
    seen = set(hits)
    best: dict[str, LogRule] = {}
    for rule in sorted(knowledge.log_rules, key=lambda each: -each.rank):
        if _holds(rule, seen, known):
            best.setdefault(rule.label, rule)
    causes = [_cause(rule, hits, knowledge.causes[rule.label]) for rule in best.values()]
    noise = [each for each in found.values() if each.signature.noise]
    if not causes and noise and all(each.signature.noise or _is_mere_fact(each) for each in found.values()):
        causes = _harmless(noise, knowledge.causes[HARMLESS])
    return LogReport(
        lines=lines,
        context=dict(context.values),
        extracted=tell(found, known),
        causes=tuple(causes[:_MOST_CAUSES]),
        noise=tuple(Noise(each.signature.name, each.count, _line(each.hits[0])) for each in noise),
    )


def _holds(rule: LogRule, seen: set[str], context: Context) -> bool:
    return (
        any(name in seen for name in rule.any)
        and all(name in seen for name in rule.all)
        and not any(name in seen for name in rule.none)
        and all(context.knows(word) for word in rule.context)
    )


def _cause(rule: LogRule, hits: Hits, cause: Cause) -> LogCause:
    kept = _first_of_each([hits[name] for name in (*rule.all, *rule.any) if name in hits])
    return LogCause(
        label=rule.label,
        title=cause.title,
        severity=_SEVERITIES[cause.severity],
        confidence=rule.confidence,
        evidence=tuple(hit.text for hit in kept),
        lines=tuple(hit.line for hit in kept),
        fix=cause.fix,
        ask=rule.ask,
    )


def _first_of_each(kinds: Sequence[Sequence[Hit]]) -> list[Hit]:
    """Return evidence lines in log order: the first of every kind, then more of each."""
    places = [(place, hit.line, hit) for kind in kinds for place, hit in enumerate(kind)]
    unique = {hit.line: hit for _, _, hit in sorted(places, key=lambda each: each[:2])[: 3 * _MOST_LINES]}
    return sorted(list(unique.values())[:_MOST_LINES], key=lambda hit: hit.line)


def _is_mere_fact(found: Found) -> bool:
    """Whether the lines only describe the machine and report no problem."""
    return found.signature.name.startswith(("says_", "tells_")) or found.signature.name in (
        "described_gpu",
        "adding_gpus",
        "opened",
        "jetson",
        "free_memory",
        "total_memory",
        "secure_boot_on",
        "mig_listed",
        "compute_mode_default",
        "shm_default",
    )


def _harmless(noise: Iterable[Found], cause: Cause) -> list[LogCause]:
    loud = [each for each in noise if each.signature.name.startswith("noise_")]
    if not loud:
        return []
    kept = _first_of_each([each.hits for each in loud])
    return [
        LogCause(
            label=HARMLESS,
            title=cause.title,
            severity="info",
            confidence="medium",
            evidence=tuple(hit.text for hit in kept),
            lines=tuple(hit.line for hit in kept),
            fix=cause.fix,
        )
    ]


def _line(hit: Hit) -> Line:
    return Line(hit.line, hit.text)
