"""The report as Markdown, to paste into an issue."""

from __future__ import annotations

import re

from tabulate import tabulate

from tfgpu_doctor.model import Severity
from tfgpu_doctor.model.plain_text import one_line
from tfgpu_doctor.model.report import Report, Result, RootCause
from tfgpu_doctor.render.words import (
    NOTES_FAIL,
    answers,
    counts_line,
    failing_notes,
    headline,
    reasons_if_open,
    subject,
)

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~!@&$])")
_BEGIN = re.compile(r"\A(\d{1,9}(?=[.)] )|(?=[-+=](?:[ =-]|\Z)))")  # of a list, a rule, a heading
# Trackers look for these in the finished page, where a backslash no longer stands: a person's or team's name, an issue.
_MENTION = re.compile(r"(?<!\w)\\@(?=\w)|\\#(?=\d)|(?<!\w)\\!(?=\d)|\bGH-(?=\d)", re.IGNORECASE)
_NO_WIDTH = "&#8203;"
_LONGEST_DETAIL = 160


def render_markdown(report: Report, fail_level: Severity = "error") -> str:
    """Return the verdict and causes, then every check in a collapsed table."""
    lines = ["## tfgpu-doctor", "", escape(subject(report)), ""]
    lines += [f"- {question}: **{answer}**" for question, answer in answers(report)] + [""]
    if verdict := headline(report):
        lines += [f"**{verdict}**", ""]
    if reasons := reasons_if_open(report):
        lines += [*(f"- {escape(line)}" for line in reasons), ""]
    for cause in report.causes:
        lines += cause_in_markdown(cause)
    if notes := failing_notes(report, fail_level):
        lines += [NOTES_FAIL, "", *(line for note in notes for line in cause_in_markdown(note))]
    rows = [(result.id, escape(result.title), result.outcome, _detail(result)) for result in report.results]
    table = tabulate(
        rows, headers=("check", "true when healthy", "outcome", "detail"), tablefmt="github", disable_numparse=True
    )
    lines += [f"<details><summary>{counts_line(report)}</summary>", "", table, "", "</details>", ""]
    lines += [f"_tfgpu-doctor {escape(report.doctor)}, {escape(report.recorded)}_", ""]
    return "\n".join(lines)


def cause_in_markdown(cause: RootCause) -> list[str]:
    """Return the lines for a root cause: its title, evidence, fix, and what it explains."""
    lines = [
        f"### {escape(cause.title)}",
        "",
        f"`{cause.label}` ({cause.id}, {cause.severity}, confidence {cause.confidence})",
        "",
    ]
    lines += [f"- {escape(line)}" for line in cause.evidence] + [""]
    lines += [f"**Costs:** {escape(cause.costs)}", ""] if cause.costs else []
    lines += [f"**Fix:** {escape(cause.fix.text)}", ""] if cause.fix.text else []
    if cause.fix.commands:
        commands = "\n".join(map(one_line, cause.fix.commands))
        fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", commands)), default=0))
        lines += [f"{fence}sh", commands, fence, ""]
    if cause.explains:
        lines += [f"Explains: {', '.join(cause.explains)}", ""]
    return lines


def _detail(result: Result) -> str:
    if result.blocked_by:
        return f"blocked by {', '.join(result.blocked_by)}"
    words = result.reason or "; ".join([finding.message for finding in result.findings] or result.evidence)
    return escape(words if len(words) <= _LONGEST_DETAIL else words[:_LONGEST_DETAIL] + " ...")


def escape(text: str) -> str:
    """Escape a text for Markdown and HTML, on one line; it notifies nobody and refers to no issue."""
    escaped = _SPECIAL.sub(r"\\\1", one_line(" ".join(text.split())))
    return _MENTION.sub(rf"\g<0>{_NO_WIDTH}", _BEGIN.sub(r"\1\\", escaped))
