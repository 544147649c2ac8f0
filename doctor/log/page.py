"""Render the report on a log as text."""

from __future__ import annotations

import textwrap

from tfgpu_doctor.log.classification import LogCause, LogReport

_WIDTH = 100
_NAMES = {
    "tensorflow": "TensorFlow", "python": "Python", "cuda": "CUDA", "cudnn": "cuDNN", "gpu": "GPU", "os": "system",
    "capability": "compute capability", "xid": "Xid", "sxid": "SXid",
}  # fmt: skip


def render_log(report: LogReport) -> str:
    """Return the causes with their lines, fixes and questions, then the values found in the log, then the noise."""
    parts = []
    extracted: set[int] = set()
    for cause in report.causes:
        parts.append(_cause(cause, is_other=set(cause.lines) <= extracted))
        extracted.update(cause.lines)
    if not report.causes:
        parts.append(
            f"No cause found in {report.lines:,} lines. They contain no known GPU problem.\n"
            "To find out more than a log can show, run `tfgpu-doctor` on the machine itself."
        )
    if report.extracted:
        told_by_log = "; ".join(_extracted(*each) for each in report.extracted.items())
        parts.append("\n".join(["Found in the log:", *_paragraph("", told_by_log)]))
    if report.noise:
        rows = [f"  line {each.line.line}: {each.line.text[:_WIDTH]}" + _times(each.count) for each in report.noise]
        parts.append("\n".join(["Harmless by themselves:", *rows]))
    return "\n\n".join(parts) + "\n"


def _cause(cause: LogCause, *, is_other: bool) -> str:
    """Render one cause; `is_other` if an earlier cause has the same lines: then this cause is an alternative."""
    mark = "? alternatively:" if is_other else {"error": "✗", "warning": "!", "info": "·"}[cause.severity]
    rows = [f"{mark} {cause.title}", f"  {cause.label}, confidence {cause.confidence}", ""]
    rows += [f"  line {number}: {text}" for number, text in zip(cause.lines, cause.evidence, strict=True)]
    rows += ["", *_paragraph("Fix  ", cause.fix)]
    rows += _paragraph("Ask  ", f"{cause.ask}.") if cause.ask else []
    return "\n".join(rows)


def _extracted(kind: str, values: tuple[str, ...]) -> str:
    return f"{_NAMES.get(kind, kind)} {', '.join(values)}"


def _paragraph(head: str, text: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=f"  {head}", subsequent_indent=" " * (len(head) + 2), break_on_hyphens=False,
        break_long_words=False,
    )  # fmt: skip


def _times(count: int) -> str:
    return f"  (and {count - 1:,} more)" if count > 1 else ""
