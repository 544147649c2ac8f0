"""The answer as an HTML page: the verdict, the steps as a timeline, the stages of the pipeline, operations."""

from __future__ import annotations

from tfgpu_doctor.render.layout import render_page
from tfgpu_doctor.tracing import page as words
from tfgpu_doctor.tracing.breakdown import PARTS
from tfgpu_doctor.tracing.compare import in_words
from tfgpu_doctor.tracing.drawing import Drawing
from tfgpu_doctor.tracing.memory import MemoryRow
from tfgpu_doctor.tracing.result import Comparison, TraceReport, next_step

_VERDICTS = {True: ("Healthy", "good"), False: ("Bottleneck", "bad"), None: ("Inconclusive", "poor")}


def _points(row: MemoryRow) -> str:
    """The course as the points of a line, in a box of 100 x 40."""
    begin, end = row.course[0][0], row.course[-1][0]
    return " ".join(
        f"{100 * (at - begin) / max(end - begin, 1e-9):.2f},{40 - 38 * used / max(row.peak_bytes, 1):.2f}"
        for at, used in row.course
    )


def render_trace_html(report: TraceReport, other: Comparison | None, drawing: Drawing) -> str:
    """Return the whole page; its size does not grow with the profile."""
    word, tone = _VERDICTS[report.healthy]
    cause = words.first_cause(report)
    return render_page(
        "trace.html.jinja",
        report=report,
        verdict_word=word,
        verdict_tone=tone,
        cause=cause,
        todo=cause.fix if cause else next_step(report),
        subject=words.subject(report),
        verdict_line=words.verdict_line(report),
        shares=[
            (part, words.NAMES[part], share) for part in PARTS if (share := getattr(report.shares, part)) >= words.LEAST
        ],
        drawing=drawing,
        lanes=[(lane, words.NAMES.get(lane.name, lane.name)) for lane in drawing.lanes],
        other=other,
        compared=in_words(report, other) if other else "",
        changes=[(words.NAMES[each.part], each) for each in other.changes] if other else [],
        memory=[(row, _points(row)) for row in report.memory],
        also=words.other_causes(report),
        gpu_line=words.gpu_line(report),
    )
