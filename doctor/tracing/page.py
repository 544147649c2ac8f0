"""The answer as text for a terminal, and as Markdown."""

from __future__ import annotations

from collections.abc import Iterable

from tabulate import tabulate

from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.plain_text import clean
from tfgpu_doctor.render.markdown_page import escape
from tfgpu_doctor.render.text import Page
from tfgpu_doctor.tracing.breakdown import PARTS
from tfgpu_doctor.tracing.compare import in_words
from tfgpu_doctor.tracing.result import Comparison, TraceCause, TraceReport, next_step

NAMES = {
    "compute": "computation", "collectives": "reductions between replicas", "copies": "copies",
    "compile": "building and compiling graphs",
    "input": "waiting for input", "launch": "starting operations", "host": "the program's Python",
    "idle": "idle, or waiting for a CPU",
}  # fmt: skip
_BAR = 30
_APART = 2.0  # times the median: then the mean says more
LEAST = 0.005  # of a step's time: less is not worth a line


def render_trace_text(report: TraceReport, other: Comparison | None, *, width: int, colour: bool) -> str:
    """Return the answer, on about one screen."""
    page = Page(width, colour)
    page.line(f"  {report.file}", style="dim")  # a name at the margin could forge a verdict
    page.say(steps_line(report), style="dim")
    page.gap()
    healthy = report.healthy
    mark, style = {True: ("✓ ", "bold green"), False: ("✗ ", "bold red"), None: ("· ", "bold yellow")}[healthy]
    page.say(report.title, start=mark, style="bold", start_style=style)
    page.say(verdict_line(report), start="  ", style="dim")
    page.gap()
    cause = first_cause(report)
    if cause:
        for line in cause.evidence:
            page.say(line, start="  • ")
        page.gap()
        _fix(page, cause.fix.text, cause.fix.code)
    elif todo := next_step(report):
        page.say(report.why, start="  • ")
        _fix(page, todo.text, todo.code)
    if (gain := report.gain.step_ms_at_best) is not None:
        page.say(f"steps would take {gain:.1f} ms in place of {report.steps.mean_ms:.1f}", start="  At best  ")
        page.gap()
    for share, name in shares(report):
        page.say(f"{share:6.1%}  {name:<32}{'█' * round(share * _BAR)}", start="  ")
    if gpu := gpu_line(report):
        page.gap()
        page.say(gpu, start="  ")
    if also := other_causes(report):
        page.gap()
        page.say(also, start="  Also  ")
    if other is not None:
        page.gap()
        page.say(in_words(report, other), style="bold")
        for each in other.changes[:5]:
            page.say(f"{NAMES[each.part]:<32}{each.before_ms:10.2f} ms → {each.now_ms:.2f} ms", start="  ")
    for note in report.notes:
        if note != report.why or cause:
            page.say(note, start="  ", style="dim")
    return page.text


def _fix(page: Page, text: str, code: str) -> None:
    page.say(text, start="  Fix  ", start_style="bold green")
    for line in code.splitlines():
        page.command(line)
    page.gap()


def render_trace_markdown(report: TraceReport, other: Comparison | None) -> str:
    """Return the answer, to paste into an issue."""
    lines = [
        "## tfgpu-doctor trace",
        "",
        f"Profile {escape(subject(report))}",
        "",
        f"**{escape(report.title)}**",
        "",
        escape(verdict_line(report)),
        "",
    ]
    cause, todo = first_cause(report), next_step(report)
    if cause:
        lines += [f"- {escape(line)}" for line in cause.evidence] + [""]
    elif todo:
        lines += [f"- {escape(report.why)}", ""]
    fix = cause.fix if cause else todo
    if fix and fix.text:
        language = "python" if cause else "sh"
        lines += [f"**Fix:** {escape(fix.text)}", "", f"```{language}", clean(fix.code), "```", ""]
    if report.gain.step_ms_at_best is not None:
        lines += [
            f"At best, steps would take {report.gain.step_ms_at_best:.1f} ms in place of {report.steps.mean_ms:.1f}.",
            "",
        ]
    rows = [(name, f"{share:.1%}") for share, name in shares(report)]
    lines += (
        [tabulate(rows, headers=("a step's time", "share"), tablefmt="github", disable_numparse=True), ""]
        if rows
        else []
    )
    if gpu := gpu_line(report):
        lines += [escape(gpu), ""]
    if also := other_causes(report):
        lines += [f"Also: {escape(also)}", ""]
    if other is not None:
        changed = [(NAMES[each.part], f"{each.before_ms:.2f}", f"{each.now_ms:.2f}") for each in other.changes]
        lines += [
            escape(in_words(report, other)),
            "",
            tabulate(changed, headers=("part", "ms before", "ms now"), tablefmt="github", disable_numparse=True),
            "",
        ]
    lines += [f"_{escape(each)}_" for each in report.notes] + [""]
    return "\n".join(lines)


def subject(report: TraceReport) -> str:
    """What was looked at: the file, its steps, its events."""
    return f"{report.file}: {steps_line(report)}"


def steps_line(report: TraceReport) -> str:
    """The steps, the GPU and the events."""
    steps = f"{report.steps.count} steps, {report.steps.median_ms:.1f} ms each (median)"
    if report.steps.mean_ms > _APART * report.steps.median_ms:  # calls come in bursts, and wait for the GPU together
        steps = (
            f"{report.steps.count} steps, {report.steps.mean_ms:.1f} ms each (mean; half of them begin within "
            f"{report.steps.median_ms:.1f} ms)"
        )
    if report.steps.count < 2:
        steps = f"one step, {report.steps.median_ms:.1f} ms" if report.steps.count else "no steps"
    gpu = f", {report.gpu.device}, one of {report.gpu.gpus}" if report.gpu else ""
    events = f", {amount(report.events, 'event')}" if report.events else ""
    return f"{steps}{gpu}{events}{', recorded ' + report.recorded if report.recorded else ''}"


def gpu_line(report: TraceReport) -> str:
    """What the busiest GPU did in a step; empty without one."""
    gpu = report.gpu
    if gpu is None:
        return ""
    precision = "their names do not tell the precision"
    if gpu.in_16_bit is not None:
        precision = f"{gpu.in_16_bit:.1%} of their time in 16 bit"
    kernels = f"{gpu.kernels:.0f} kernel{'' if gpu.kernels == 1 else 's'} in a step"
    return (
        f"{gpu.device}: {gpu.compute_ms:.2f} ms of kernels, {kernels}, half of them under {gpu.median_kernel_us:.1f} µs; "
        f"{precision}"
    )


def verdict_line(report: TraceReport) -> str:
    """The verdict's word, and how sure it is."""
    cause = first_cause(report)
    return (
        f"{report.verdict}, {cause.share:.0%} of the steps' time, confidence {cause.confidence}"
        if cause
        else report.verdict
    )


def first_cause(report: TraceReport) -> TraceCause | None:
    """The cause that the verdict names; None for a healthy training, and where the profile does not tell."""
    return next((cause for cause in report.causes if cause.label == report.verdict), None)


def shares(report: TraceReport) -> Iterable[tuple[float, str]]:
    """The parts of a step that are worth a line, the largest first."""
    found = [(getattr(report.shares, part), NAMES[part]) for part in PARTS]
    return sorted(((share, name) for share, name in found if share >= LEAST), reverse=True)


def other_causes(report: TraceReport) -> str:
    """What else takes a tenth of the time or more."""
    return "; ".join(f"{each.label} ({each.share:.0%})" for each in report.causes if each.label != report.verdict)
