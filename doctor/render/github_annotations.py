"""The report as workflow commands of GitHub Actions: one annotation for each root cause, none for what it explains.

https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from tfgpu_doctor.model import UNDETERMINED, Severity
from tfgpu_doctor.model.report import Report, RootCause
from tfgpu_doctor.render.words import (
    NOTES_FAIL,
    answers,
    counts_line,
    failing_notes,
    headline,
    open_question,
    subject,
    unjudged,
)

_Kind = Literal["error", "warning", "notice"]
_MOST = 10  # of one kind; GitHub shows no more for a step: https://github.com/orgs/community/discussions/26680
_LONGEST_TITLE = 250  # characters; GitHub shows 255

_Annotation = tuple[_Kind, str, str]  # kind, title, text


def render_github(report: Report, fail_level: Severity = "error") -> str:
    """Return one line for each annotation, and at least one line, so that a step without output is known to be broken."""
    annotations = [*_causes(report), *_crashes(report), *_verdict(report), *_notes(report, fail_level)]
    kinds: tuple[_Kind, ...] = ("error", "warning", "notice")
    return "".join(_command(each) for kind in kinds for each in _first([one for one in annotations if one[0] == kind]))


def _first(annotations: list[_Annotation]) -> list[_Annotation]:
    """Return as many annotations as GitHub shows; the last one states how many are omitted."""
    if len(annotations) <= _MOST:
        return annotations
    kept, rest = annotations[: _MOST - 1], annotations[_MOST - 1 :]
    kind = rest[0][0]
    return [*kept, (kind, f"{len(rest)} more", "\n".join(title for _, title, _ in rest))]


def _causes(report: Report) -> Iterator[_Annotation]:
    for cause in report.causes:
        yield "error" if cause.severity == "error" else "warning", f"{cause.id}: {cause.title}", _about(cause)


def _notes(report: Report, fail_level: Severity) -> Iterator[_Annotation]:
    for note in failing_notes(report, fail_level):
        yield "notice", f"{note.id}: {note.title}", f"{NOTES_FAIL}\n{_about(note)}"


def _about(cause: RootCause) -> str:
    known = "the cause is unknown" if cause.label == UNDETERMINED else f"{cause.label}, confidence {cause.confidence}"
    lines = [cause.title, f"({known})", *(f"- {line}" for line in cause.evidence)]
    lines += [f"Fix: {cause.fix.text}", *(f"    {command}" for command in cause.fix.commands)]
    return "\n".join(lines)


def _crashes(report: Report) -> Iterator[_Annotation]:
    for result in report.results:
        if result.outcome == "crash":
            yield "error", f"{result.id} crashed", f"{result.title}: {result.reason}"


def _verdict(report: Report) -> Iterator[_Annotation]:
    """Yield the verdict that no cause states: healthy, or not judged."""
    if report.healthy or (
        report.judged and not report.causes and not report.counts["crash"] and not report.interrupted
    ):
        said = [f"{question}: {answer}" for question, answer in answers(report)]
        yield "notice", "tfgpu-doctor", "\n".join([headline(report), *said, subject(report), counts_line(report)])
    elif why := open_question(report):
        yield "error", "tfgpu-doctor", "\n".join([why, subject(report), *unjudged(report)[:_MOST]])


def _command(annotation: _Annotation) -> str:
    kind, title, text = annotation
    return f"::{kind} title={_property(title[:_LONGEST_TITLE])}::{_data(text)}\n"


def _data(text: str) -> str:
    """Escape the text of a command; a line break would begin another command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Escape the value of a property, on one line."""
    return _data(" ".join(text.split())).replace(":", "%3A").replace(",", "%2C")
