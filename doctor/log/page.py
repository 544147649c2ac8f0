"""Render the report on a log as text."""

from __future__ import annotations

import textwrap

from tfgpu_doctor.log.report import LogCause, LogReport, ToldReport
from tfgpu_doctor.log.signatures import MOST_COUNTED
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.plain_text import in_lines

_WIDTH = 100
_SEEN = ("gpu_listed", "gpu_seen")  # harmless lines
_NO_VERDICT = "it was cut, and states no verdict"
_NAMES = {
    "tensorflow": "TensorFlow", "python": "Python", "cuda": "CUDA", "cudnn": "cuDNN", "gpu": "GPU", "os": "system",
    "capability": "compute capability", "xid": "Xid", "sxid": "SXid",
}  # fmt: skip


def render_log(report: LogReport) -> str:
    """Return the causes with their lines, fixes and questions, then the values found in the log, then the noise."""
    report = in_lines(report)
    parts = []
    shown: set[tuple[int, str]] = set()
    for cause in report.causes:
        evidence = dict.fromkeys(zip(cause.lines, cause.evidence, strict=True))
        is_other = bool(shown) and {line for line, _ in evidence} <= {line for line, _ in shown}
        parts.append(_cause(cause, [each for each in evidence if each not in shown], is_other=is_other))
        shown.update(evidence)
    if not report.causes:
        parts.append(_without_cause(report))
    if report.stated:
        told_by_author = "; ".join(_extracted(key, (value,)) for key, value in report.stated.items())
        parts.append("\n".join(["Stated in the text:", *_paragraph("", told_by_author)]))
    if report.extracted:
        told_by_log = "; ".join(_extracted(*each) for each in report.extracted.items())
        parts.append("\n".join(["Found in the log:", *_paragraph("", told_by_log)]))
    if noise := [each for each in report.noise if each.name not in _SEEN]:  # those look like no error
        rows = [f"  line {each.line.line}: {each.line.text[:_WIDTH]}" + _times(each.count) for each in noise]
        parts.append("\n".join(["Harmless by themselves:", *rows]))
    if report.reports:
        parts.append("\n".join(["Reports of tfgpu-doctor in the text:", *map(_own_report, report.reports)]))
    if report.damaged:
        parts.append(f"Damaged after {amount(report.lines, 'line')} ({report.damaged}): what follows was not read.")
    if report.interrupted:
        parts.append(f"Interrupted after {report.lines:,} lines: what follows was not read.")
    if report.passed_over:
        parts.append("\n".join(["Not searched to the end:", *_paragraph("", "; ".join(report.passed_over))]))
    return "\n\n".join(parts) + "\n"


def _without_cause(report: LogReport) -> str:
    """Say that no cause was found, and what shows that a GPU is used, if anything."""
    if report.empty:
        return "The log is empty: there is nothing to judge."
    if report.reports:
        last = report.reports[-1]
        shown = f"The report of tfgpu-doctor in line {last.line} says: {last.verdict or _NO_VERDICT}"
    elif report.gpu_used:
        shown = f"Line {report.gpu_used.line} shows that TensorFlow uses a GPU: {report.gpu_used.text[:_WIDTH]}"
    elif seen := next((each.line for each in report.noise if each.name in _SEEN), None):
        shown = f"Line {seen.line} shows that TensorFlow sees a GPU: {seen.text[:_WIDTH]}"
    else:
        shown = f"{'It does' if report.lines == 1 else 'They do'} not show that TensorFlow uses a GPU either."
    lines, contains = ("1 line", "It contains") if report.lines == 1 else (f"{report.lines:,} lines", "They contain")
    known = f"{contains} no known GPU problem."
    if report.damaged:
        known = "The rest could not be read."
    elif report.passed_over:
        known = f"Not all of {'it was' if report.lines == 1 else 'them were'} searched."
    more = "To find out more than a log can show, run `tfgpu-doctor` on the machine itself."
    return "\n".join([f"No cause found in {lines}. {known}", shown, *([] if report.reports else [more])])


def _own_report(told: ToldReport) -> str:
    says = told.verdict or (f"it names {', '.join(told.causes)}" if told.causes else _NO_VERDICT)
    return "\n".join(_paragraph(f"line {told.line}: ", f"{says}{f' ({told.subject})' if told.subject else ''}"))


def _cause(cause: LogCause, evidence: list[tuple[int, str]], *, is_other: bool) -> str:
    """Render one cause with the evidence that no earlier cause has; if it has none of its own, it is an alternative."""
    mark = "? alternatively:" if is_other else {"error": "✗", "warning": "!", "info": "·"}[cause.severity]
    rows = [f"{mark} {cause.title}", f"  {cause.label}, confidence {cause.confidence}", ""]
    rows += [*(_evidence(number, text) for number, text in evidence), ""] if evidence else []
    rows += _paragraph("Fix  ", cause.fix)
    rows += _paragraph("Ask  ", f"{cause.ask}.") if cause.ask else []
    return "\n".join(rows)


def _evidence(number: int, text: str) -> str:
    """Render a line of the log, or, where the number is 0, what follows from several."""
    return f"  line {number}: {text}" if number else f"  {text}"


def _extracted(kind: str, values: tuple[str, ...]) -> str:
    return f"{_NAMES.get(kind, kind)} {', '.join(values)}"


def _paragraph(head: str, text: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=f"  {head}", subsequent_indent=" " * (len(head) + 2), break_on_hyphens=False,
        break_long_words=False,
    )  # fmt: skip


def _times(count: int) -> str:
    least = "at least " if count >= MOST_COUNTED else ""
    return f"  (and {least}{count - 1:,} more)" if count > 1 else ""
