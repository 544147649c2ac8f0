"""The report on a watched training as text for a terminal, about one screen, and as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tabulate import tabulate

from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.render.markdown_page import escape
from tfgpu_doctor.render.text import Page
from tfgpu_doctor.watching import units, words
from tfgpu_doctor.watching.result import WatchReport
from tfgpu_doctor.watching.stretches import Total, in_slots, stretches, totals

_BAR = 30
_MARKS = {True: ("✓ ", "bold green"), False: ("✗ ", "bold red"), None: ("· ", "bold yellow")}
_LETTERS = "abcdefgh"  # as many verdicts as the timeline names; what is left of the time is a point
_LONGEST_NAME = 24
_NARROW = 60  # columns; below, what is said of a GPU is not set off by its name


def render_watch_text(report: WatchReport, *, width: int, colour: bool) -> str:
    """Return the report, on about one screen."""
    report = words.cleaned(report)
    page = Page(width, colour)
    page.line(report.command, style="dim")
    page.say(words.subject(report), style="dim")
    page.gap()
    _verdict(page, report)
    _shares(page, report)
    _machine(page, report, width)
    _timeline(page, report, width)
    _rules(page, report)
    for note in words.notes(report):
        page.say(note, start="  ", style="dim")
    return page.text.rstrip("\n") + "\n"


def _verdict(page: Page, report: WatchReport) -> None:
    """The one verdict, its evidence and its fix: the only red line."""
    head = words.headline(report)
    mark, style = _MARKS[head.healthy]
    page.say(head.title, start=mark, style="bold", start_style=style)
    page.say(head.line, start="  ", style="dim")
    page.gap()
    for line in head.evidence:
        page.say(line, start="  • ")
    if head.evidence:
        page.gap()
    if head.fix:
        page.say(head.fix, start="  Fix  ", start_style="bold green")
        for line in head.code.splitlines():
            page.command(line)
        page.gap()
    if best := words.at_best(report):
        page.say(best, start="  At best  ")
        page.gap()
    if head.before:
        page.say(head.before, start="  Before  ")
        page.gap()


def _shares(page: Page, report: WatchReport) -> None:
    found = words.shares(report)
    for _, name, share in found:
        page.say(f"{share:6.1%}  {name:<32}{'█' * round(share * _BAR)}", start="  ")
    if also := words.other_causes(report):
        page.say(also, start="  Also  ")
    if found or also:
        page.gap()


def _machine(page: Page, report: WatchReport, width: int) -> None:
    """What slowed the program from outside, and the numbers of its CPUs and GPUs."""
    for cause in words.machine_beside(report):
        page.say(words.machine_line(cause), start="  ! ", style="bold", start_style="bold yellow")
        for line in cause.evidence:
            page.say(line, start="    • ")
        if cause.fix:
            page.say(cause.fix, start="    Fix  ", start_style="bold green")
        page.gap()
    if report.host:
        page.say(words.host_line(report.host), start="  CPU  ")
    rows = [(_short(words.gpu_name(gpu)), words.gpu_line(gpu)) for gpu in report.gpus]
    longest = 0 if width < _NARROW else max((len(name) for name, _ in rows), default=0)
    for name, line in rows:
        if longest:
            page.say(line, start=f"  {name:<{longest}}  ")
        else:
            page.say(f"{name}: {line}", start="  ")
    if rows or report.host:
        page.gap()


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"


def _timeline(page: Page, report: WatchReport, width: int) -> None:
    """A bar along the run, and how long each verdict held; nothing if one verdict held all the time."""
    found = stretches(report)
    if len(found) < 2:
        return
    rows = totals(found)
    letters = dict(zip((row.verdict for row in rows), _LETTERS, strict=False))
    slots = in_slots(found, report.seconds, max(20, min(60, width - 16)))
    bar = "".join(letters.get(verdict, ".") if verdict else " " for verdict in slots)
    page.line(f"  {units.clock(0)} {bar} {units.clock(report.seconds)}")
    for row in rows[: len(_LETTERS)]:
        page.say(timeline_line(row, report.seconds), start=f"  {letters[row.verdict]}  ")
    if len(rows) > len(_LETTERS):
        page.say(f"{amount(len(rows) - len(_LETTERS), 'more verdict')}, each shorter than these", start="  .  ")
    page.gap()


def timeline_line(row: Total, seconds: float) -> str:
    """How long a verdict held, and what from outside was behind it."""
    times = f" in {row.times} stretches" if row.times > 1 else ""
    behind = f"; behind it: {', '.join(row.causes)}" if row.causes else ""
    share = f" ({units.percent(row.seconds / seconds)})" if seconds > 0 else ""
    return f"{row.verdict}: {units.duration(row.seconds)}{share}{times}{behind}"


def _rules(page: Page, report: WatchReport) -> None:
    """Rules of --fail-if. A broken one is not red beside a red verdict: it is the same fault once more."""
    red = words.headline(report).healthy is False
    for rule in report.rules:
        mark, style = _MARKS[None if rule.broken is None else not rule.broken]
        page.say(words.rule_line(rule), start=f"  {mark}", start_style="bold yellow" if red and rule.broken else style)
    if report.rules:
        page.gap()


def render_watch_markdown(report: WatchReport) -> str:
    """Return the report, to paste into an issue."""
    report = words.cleaned(report)
    head = words.headline(report)
    lines = ["## tfgpu-doctor watch", "", f"{escape(report.command)}: {escape(words.subject(report))}", ""]
    lines += [f"**{_MARKS[head.healthy][0]}{escape(head.title)}**", "", escape(head.line), ""]
    lines += _list(head.evidence)
    lines += [f"**Fix:** {escape(head.fix)}", ""] if head.fix else []
    lines += _fenced(head.code) if head.code else []
    lines += [f"At best, {escape(best)}.", ""] if (best := words.at_best(report)) else []
    lines += [f"Before: {escape(head.before)}", ""] if head.before else []
    lines += _table(("a step's time", "share"), [(name, f"{share:.1%}") for _, name, share in words.shares(report)])
    lines += [f"Also: {escape(also)}", ""] if (also := words.other_causes(report)) else []
    for cause in words.machine_beside(report):
        lines += [f"### {escape(words.machine_line(cause))}", "", *_list(cause.evidence)]
        lines += [f"**Fix:** {escape(cause.fix)}", ""] if cause.fix else []
    rows = [("CPU", words.host_line(report.host))] if report.host else []
    rows += [(words.gpu_name(gpu), words.gpu_line(gpu)) for gpu in report.gpus]
    lines += _table(("device", "over the run"), rows)
    found = stretches(report)
    if len(found) > 1:
        lines += _table(
            ("verdict", "held for", "of the run", "stretches", "behind it"),
            [_timeline_row(row, report.seconds) for row in totals(found)],
        )
    lines += _list(f"{_MARKS[_kept(rule.broken)][0]}{words.rule_line(rule)}" for rule in report.rules)
    lines += [f"_{escape(each)}_  " for each in words.notes(report)]
    return "\n".join([*lines, f"_tfgpu-doctor {escape(report.doctor)}, {escape(report.started)}_", ""])


def _kept(broken: bool | None) -> bool | None:
    return None if broken is None else not broken


def _timeline_row(row: Total, seconds: float) -> tuple[str, ...]:
    share = units.percent(row.seconds / seconds) if seconds > 0 else ""
    return row.verdict, units.duration(row.seconds), share, str(row.times), ", ".join(row.causes)


def _list(found: Iterable[str]) -> list[str]:
    lines = [f"- {escape(line)}" for line in found]
    return [*lines, ""] if lines else []


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    safe = [[escape(cell) for cell in row] for row in rows]
    return [tabulate(safe, headers=heads, tablefmt="github", disable_numparse=True), ""] if safe else []


def _fenced(code: str) -> list[str]:
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", code)), default=0))
    return [f"{fence}python", code, fence, ""]
