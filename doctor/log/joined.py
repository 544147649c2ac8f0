"""Join what the doctor's own reports in a log name with what the rest of the log shows. Pure.

A report examined a machine, and a log shows what one program met. So a cause that a report is sure of comes first, then one
that the log is sure of, even where a report says that the machine is healthy: the program may run elsewhere, or later. What a
report only warns of, and what neither is sure of, follows. Of several reports each counts: they may be of several machines.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.log.own_report import NamedCause, OwnReport
from tfgpu_doctor.log.report import LogCause, ToldReport
from tfgpu_doctor.model.finding import UNDETERMINED

_MOST_LINES = 4  # of evidence for one cause
# A text is anybody's: what it calls the doctor's fix, with commands, is not repeated as such.
_OWN_FIX = "The report, from line {} on, has the fix for that machine."
_CONFIDENCES = ("high", "medium", "low")


def join(reports: Sequence[OwnReport], causes: Sequence[LogCause], knowledge: Knowledge) -> list[LogCause]:
    """Return the causes that reports name and those of the rest of the log, the most important first."""
    named: dict[str, LogCause] = {}
    for report in reversed(reports):  # the last one knows most
        for each in report.causes:
            cause = _cause(each, knowledge)
            named[cause.label] = _merged(named[cause.label], cause) if cause.label in named else cause
    if not named:
        return list(causes)
    rest = {each.label: each for each in causes if each.severity != "info"}
    told = [_merged(each, rest[label]) if label in rest else each for label, each in named.items()]
    others = [each for label, each in rest.items() if label not in named]
    ranked = [
        *((0 if _is_sure(each) else 2, each) for each in told),
        *((1 if _is_sure(each) else 3, each) for each in others),
    ]
    joined = [each for _, each in sorted(ranked, key=lambda row: row[0])]
    return [*joined[:1], *(each for each in joined[1:] if each.label != UNDETERMINED)]


def told(report: OwnReport) -> ToldReport:
    """Return what a report in the log states, in short."""
    return ToldReport(
        line=report.line, format=report.format, subject=report.subject, healthy=report.healthy, verdict=report.verdict,
        causes=tuple(each.label for each in report.causes),
    )  # fmt: skip


def _is_sure(cause: LogCause) -> bool:
    return cause.severity == "error" and cause.confidence != "low" and cause.label != UNDETERMINED


def _cause(named: NamedCause, knowledge: Knowledge) -> LogCause:
    known = knowledge.causes.get(named.label)
    by = f" ({named.id})" if named.id else ""
    what = "a cause that it does not know" if named.label == UNDETERMINED else named.label
    evidence = [
        (
            named.line,
            f"the text holds a report of tfgpu-doctor, which names {what} with confidence {named.confidence}{by}",
        ),
        *named.evidence,
    ]
    return LogCause(
        label=named.label,
        title=named.title or (known.title if known else named.label),
        severity=named.severity,
        confidence=named.confidence,
        evidence=tuple(text for _, text in evidence),
        lines=tuple(line for line, _ in evidence),
        fix=f"{known.fix if known else ''} {_OWN_FIX.format(named.line)}".strip(),
    )


def _merged(first: LogCause, second: LogCause) -> LogCause:
    """Return one cause with the evidence of both: half of it at least of the first."""
    lines, evidence = first.lines, first.evidence
    free = max(_MOST_LINES - len(lines), _MOST_LINES // 2)
    kept = _MOST_LINES - min(free, len(second.lines))
    return msgspec.structs.replace(
        first,
        confidence=min(first.confidence, second.confidence, key=_CONFIDENCES.index),
        lines=(*lines[:kept], *second.lines[:free]),
        evidence=(*evidence[:kept], *second.evidence[:free]),
    )
