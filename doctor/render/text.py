"""The report for a terminal: the cause, its evidence, its fix, what it explains, and one line of counts."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from tfgpu_doctor.model import UNDETERMINED, Severity
from tfgpu_doctor.model.plain_text import one_line
from tfgpu_doctor.model.report import Report, Result, RootCause
from tfgpu_doctor.render.words import (
    NOTES_FAIL,
    answers,
    counts_line,
    failing_notes,
    headline,
    measured,
    reasons_if_open,
    subject,
)

_TRAILING = re.compile(r"[ \t]+((?:\x1b\[0m)*)$", re.MULTILINE)
_MARKS = {
    "pass": ("✓", "green"),
    "warn": ("!", "yellow"),
    "fail": ("✗", "red"),
    "blocked": ("·", "dim"),
    "skip": ("-", "dim"),
    "crash": ("☠", "magenta"),
}
_INDENT = 2  # of what follows a line without a start
_FEW = 8  # ids of explained checks that are shown without --verbose


def render_text(report: Report, *, width: int, colour: bool, verbose: bool, fail_level: Severity = "error") -> str:
    """Return the report as lines of at most `width` columns; commands are not wrapped, so that they can be copied."""
    page = Page(width, colour)
    page.say(subject(report), style="dim")
    for question, answer in answers(report):
        page.say(f"{question}: {answer}", style="dim" if answer == "yes" else "")
    page.gap()
    if verdict := headline(report):
        page.say(verdict, style="bold green" if report.healthy else "bold")
        page.gap()
    if reasons := reasons_if_open(report):
        for line in reasons:
            page.say(line, start="  • ")
        page.gap()
    for cause in report.causes:
        say_cause(page, cause, verbose)
    say_notes(page, report, fail_level, verbose)
    for result in report.results:
        if result.outcome == "crash" and not verbose:
            page.say(f"{result.id} {result.title}: {result.reason}", start="☠ ", style="magenta")
    if not verbose and (figures := measured(report)):
        for result in figures:
            say_result(page, result)
        page.gap()
    if verbose:
        for result in report.results:
            say_result(page, result)
        page.gap()
    page.say(f"{counts_line(report)}   {report.seconds:.1f} s{'' if verbose else '   -v shows all'}", style="dim")
    return page.text


class Page:
    """Lines of text with hanging indents; markup in them is not interpreted."""

    def __init__(self, width: int, colour: bool) -> None:
        self._file = io.StringIO()
        self._console = Console(
            file=self._file, width=width, force_terminal=colour, color_system="standard" if colour else None,
            no_color=not colour, highlight=False, legacy_windows=False, markup=False, emoji=False,
        )  # fmt: skip

    @property
    def text(self) -> str:
        """All text so far."""
        return _TRAILING.sub(r"\1", self._file.getvalue())

    def gap(self) -> None:
        """Add an empty line."""
        self._console.print()

    def say(self, text: str, *, start: str = "", style: str = "", start_style: str = "") -> None:
        """Add text after a start such as a bullet. Further lines are indented: none of them can pass for another line."""
        indent = len(start) or _INDENT
        whole = Text(one_line(text), style=style)
        room = self._console.width - len(start)
        fits = whole.cell_len <= room
        lines = whole.wrap(self._console, max(20, room if fits else self._console.width - indent))
        for place, line in enumerate(lines):
            head = Text().append(" " * indent if place else start, style=start_style)
            self._console.print(head.append_text(line), soft_wrap=True)

    def line(self, text: str, style: str = "") -> None:
        """Add a line that is never wrapped: a name of which no part may come to stand at the begin of a line."""
        self._console.print(Text(one_line(text), style=style), soft_wrap=True)

    def command(self, command: str) -> None:
        """Add a command to paste, never wrapped."""
        self._console.print(Text("       " + one_line(command), style="bold cyan"), soft_wrap=True)


def say_notes(page: Page, report: Report, fail_level: Severity, verbose: bool) -> None:
    """Say the notes that fail the run at this level, if any."""
    if notes := failing_notes(report, fail_level):
        page.say(NOTES_FAIL)
        page.gap()
        for note in notes:
            say_cause(page, note, verbose)


def say_cause(page: Page, cause: RootCause, verbose: bool) -> None:
    """Add a root cause: its title, evidence, fix, and what it explains."""
    mark, style = _MARKS["fail" if cause.severity == "error" else "warn"]
    page.say(cause.title, start=f"{mark} ", style="bold", start_style=f"bold {style}")
    known = "the cause is unknown" if cause.label == UNDETERMINED else f"{cause.label}, confidence {cause.confidence}"
    page.say(f"{cause.id} · {known}", start="  ", style="dim")
    page.gap()
    for line in cause.evidence:
        page.say(line, start="  • ")
    page.gap()
    if cause.costs:
        page.say(cause.costs, start="  Costs  ")
    page.say(cause.fix.text, start="  Fix  ", start_style="bold green")
    for command in cause.fix.commands:
        page.command(command)
    if cause.explains:
        page.gap()
        page.say(_explained(cause.explains, verbose), start="  ", style="dim")
    page.gap()


def _explained(ids: tuple[str, ...], verbose: bool) -> str:
    shown = ids if verbose or len(ids) <= _FEW else ids[:_FEW]
    more = f" and {len(ids) - len(shown)} more" if len(ids) > len(shown) else ""
    return f"Explains {', '.join(shown)}{more}"


def say_result(page: Page, result: Result) -> None:
    """Add a check, its outcome, and the reasons."""
    mark, style = _MARKS[result.outcome]
    page.say(f"{result.id}  {result.title}", start=f"{mark} ", start_style=style)
    for detail in _details(result):
        page.say(detail, start=" " * 10, style="dim")


def _details(result: Result) -> Iterator[str]:
    if result.blocked_by:
        yield f"blocked by {', '.join(result.blocked_by)}"
    if result.reason:
        yield result.reason
    yield from (finding.message for finding in result.findings)
    yield from (result.evidence if result.outcome == "pass" else ())
