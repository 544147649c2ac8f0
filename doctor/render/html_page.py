"""The report as an HTML page: one self-contained file for browsers, phones, paper and notebooks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tfgpu_doctor.model import Severity
from tfgpu_doctor.model.report import OUTCOMES, Outcome, Report, Result, VersionRow
from tfgpu_doctor.model.tags import LIBRARIES
from tfgpu_doctor.render.layout import render_page
from tfgpu_doctor.render.notebook import framed
from tfgpu_doctor.render.words import (
    NOTES_FAIL,
    all_pass,
    answers,
    counts_line,
    failing_notes,
    has_error,
    headline,
    reasons_if_open,
    subject,
)

TONES: dict[Outcome, str] = {
    "pass": "good",
    "warn": "poor",
    "fail": "bad",
    "blocked": "idle",
    "skip": "idle",
    "crash": "bad",
}


@dataclass(frozen=True)
class Group:
    """The checks of one family."""

    title: str
    results: tuple[Result, ...]

    @property
    def counts(self) -> list[tuple[int, Outcome, str]]:
        """The number of checks with each outcome, and its tone; zeros are omitted."""
        found = [(sum(each.outcome == outcome for each in self.results), outcome) for outcome in OUTCOMES]
        return [(count, outcome, TONES[outcome]) for count, outcome in found if count]

    @property
    def is_open(self) -> bool:
        """Whether any of its checks failed, warned or crashed."""
        return any(each.outcome in ("fail", "warn", "crash") for each in self.results)


def render_html(report: Report, fail_level: Severity = "error") -> str:
    """Return the complete page."""
    word, tone = verdict(report)
    first = report.causes[0] if has_error(report) and not report.interrupted else None
    return render_page(
        "report.html.jinja",
        report=report,
        verdict_word=word,
        verdict_tone=tone,
        heading=first.title if first else headline(report),
        named=first,
        subject=subject(report),
        answers=answers(report),
        counts=counts_line(report),
        shares=_shares(report),
        unjudged=reasons_if_open(report),
        notes=failing_notes(report, fail_level),
        notes_fail=NOTES_FAIL,
        versions=[(row, *_status(report, row)) for row in report.versions],
        any_copy=any(each.path or each.elsewhere or each.error for each in report.libraries),
        libraries_judged=any(each.findings for each in report.tagged(LIBRARIES)),
        groups=_groups(report.results),
        outcome_of={result.id: result.outcome for result in report.results},
        tones=TONES,
    )


def render_in_notebook(report: Report) -> str:
    """Return the page in its own frame."""
    return framed(render_html(report), "tfgpu-doctor")


def verdict(report: Report) -> tuple[str, str]:
    """Return the verdict in a few words, and its tone."""
    if report.interrupted:
        return "Interrupted", "poor"
    if report.healthy:
        return ("Works, with issues to fix", "poor") if report.causes else ("Healthy", "good")
    if has_error(report) or report.counts["crash"]:
        return "Not healthy", "bad"
    if report.judged:
        if report.causes:
            return "Issues to fix", "poor"
        return "Selected checks pass" if all_pass(report) else "Selected checks not all judged", "idle"
    return ("Not judged, with issues to fix", "poor") if report.causes else ("Not judged", "poor")


def _groups(results: Iterable[Result]) -> list[Group]:
    """Group the checks by family, in the order of the first check of each; families with findings come first."""
    found: dict[str, list[Result]] = {}
    for result in results:
        found.setdefault(result.family, []).append(result)
    groups = [Group(family, tuple(members)) for family, members in found.items()]
    return sorted(groups, key=lambda group: not group.is_open)


def _shares(report: Report) -> list[tuple[str, float, float]]:
    """Return the segments of the bar of counts: tone, start and length in per cent."""
    total = sum(report.counts.values()) or 1
    bars, start = [], 0.0
    for outcome in OUTCOMES:
        length = 100 * report.counts.get(outcome, 0) / total
        bars.append((TONES[outcome], round(start, 2), round(length, 2)))
        start += length
    return [bar for bar in bars if bar[2]]


def _status(report: Report, row: VersionRow) -> tuple[str, str]:
    """Return whether a version fits, as a word and a tone: according to its check, or to the metadata that requires it."""
    result = report.find(row.check) if row.check else None
    outcome = result.outcome if result else "skip"
    if row.fits is not None:
        if row.fits:
            return "fits", "good"
        return ("does not fit", "bad") if outcome == "fail" else ("not as required", "poor")
    if outcome == "pass":
        return "fits", "good"
    if outcome in ("warn", "fail"):
        return "does not fit", TONES[outcome]
    return "not judged", "idle"
