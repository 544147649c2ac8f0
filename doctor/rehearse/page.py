"""The report of a rehearsal for a terminal: whether TensorFlow would register the GPUs, the causes if not, the limits."""

from __future__ import annotations

from tfgpu_doctor.model import Severity
from tfgpu_doctor.model.report import RehearsalReport
from tfgpu_doctor.model.tags import VISIBLE_GPUS
from tfgpu_doctor.render.text import Page, say_cause, say_notes, say_result
from tfgpu_doctor.render.words import counts_line, unjudged

_SHOWS = "that the libraries load, the versions fit, the GPUs register, and memory growth can be set"
_NAMELESS = "GPU of an unknown model"
_DOES_NOT_SHOW = "that kernels run and compute correctly: the simulated driver runs no kernels"


def render_rehearsal(
    report: RehearsalReport, *, width: int, colour: bool, verbose: bool, fail_level: Severity = "error"
) -> str:
    """Return the report as lines of at most `width` columns, except for commands."""
    page = Page(width, colour)
    page.say(_subject(report), style="dim")
    page.gap()
    works = report.succeeded and not _would_end(report)
    mark, style = ("✓", "green") if works else ("✗", "red")
    page.say(verdict(report), start=f"{mark} ", style="bold", start_style=f"bold {style}")
    page.gap()
    for cause in report.causes:
        say_cause(page, cause, verbose)
    say_notes(page, report, fail_level, verbose)
    if not report.succeeded and not report.causes:
        for line in _hints(report):
            page.say(line, start="  • ")
        page.gap()
    if verbose:
        for result in report.results:
            say_result(page, result)
        page.gap()
    page.say(_SHOWS, start="  Shows         " if works else "  Would show    ")
    page.say(_DOES_NOT_SHOW, start="  Cannot show   ")
    page.gap()
    page.say(f"{counts_line(report)}   {report.seconds:.1f} s{'' if verbose else '   -v shows all'}", style="dim")
    return page.text


def _subject(report: RehearsalReport) -> str:
    """Return the target and the simulated machine on one line."""
    target, machine = report.target, report.machine
    gpus = [f"{machine.gpus.count(name)} x {name or _NAMELESS}" for name in dict.fromkeys(machine.gpus)]
    parts = [
        f"TensorFlow {target.tensorflow}" if target.tensorflow else "no TensorFlow",
        f"Python {target.version}" if target.version else "",
        f"simulated: driver {machine.driver} (CUDA {report.cuda}), {', '.join(gpus) or 'no GPU'}",
    ]
    return " · ".join(part for part in parts if part)


def verdict(report: RehearsalReport) -> str:
    """Return the verdict in one sentence."""
    if report.interrupted:
        return "Interrupted: these are the results so far."
    gpus = "the GPU" if report.expected == 1 else f"all {report.expected} GPUs"
    if report.succeeded:
        ends = ", but programs would end with an error there" if _would_end(report) else ""
        return f"TensorFlow would register {gpus} of such a machine{ends}."
    if report.registered >= report.expected > 0:
        return f"TensorFlow would register {gpus} of such a machine, but would reject memory growth."
    if report.expected <= 1:
        return f"TensorFlow would not register {'the' if report.expected else 'any'} GPU of such a machine."
    return f"TensorFlow would register {report.registered or 'none'} of the {report.expected} GPUs of such a machine."


def _would_end(report: RehearsalReport) -> bool:
    """Whether an error appears only when a kernel runs: no code for this GPU, a driver that is too old, no compiler."""
    return any(cause.severity == "error" for cause in report.causes)


def _hints(report: RehearsalReport) -> list[str]:
    """Return hints to the reason if no check has named a cause."""
    listed = [f"{each.id}: {line}" for each in report.tagged(VISIBLE_GPUS) for line in each.evidence]
    return [*listed, *unjudged(report)]
