"""Make the text of a report safe: clean it, limit its length, and omit commands that could hide something."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import msgspec

from tfgpu_doctor.model import SEVERITIES, Figure, Finding, Fix
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.plain_text import clean
from tfgpu_doctor.model.report import (
    GpuCard,
    GpuUser,
    LibraryCopy,
    MachineSummary,
    Report,
    Result,
    RootCause,
    TargetSummary,
    VersionRow,
)

# More than any known machine needs, and small enough for every reader of a report.
_LONGEST_LINE = 2000  # characters of a message, a reason, a piece of evidence
_LONGEST_NAME = 200  # of a GPU, a driver, a system, a version
_LONGEST_PATH = 4096  # PATH_MAX of Linux; a command is as long as the paths in it
_MOST_LINES = 60  # pieces of evidence, findings of one check
_MOST_GPUS = 64

_MOST_ROWS = 100  # libraries, versions

_Summary = TypeVar("_Summary", TargetSummary, MachineSummary)
_Row = TypeVar("_Row", VersionRow, LibraryCopy, GpuCard, GpuUser)


def bound(report: Report) -> Report:
    """Return the report with every text cut to its limit."""
    return msgspec.structs.replace(
        report,
        doctor=_name(report.doctor),
        recorded=_name(report.recorded),
        target=_bound_names(report.target, ("python", "prefix")),
        machine=_bound_names(report.machine, ()),
        causes=tuple(_bound_cause(cause) for cause in report.causes),
        results=tuple(_bound_result(result) for result in report.results),
        versions=tuple(_bound_row(row) for row in report.versions[:_MOST_ROWS]),
        libraries=tuple(_bound_row(row) for row in report.libraries[:_MOST_ROWS]),
        gpus=tuple(_bound_row(row) for row in report.gpus[:_MOST_GPUS]),
    )


def _bound_names(summary: _Summary, paths: Sequence[str]) -> _Summary:
    bounded: dict[str, object] = {}
    for name in summary.__struct_fields__:
        value = getattr(summary, name)
        if isinstance(value, str):
            bounded[name] = _cut(value, _LONGEST_PATH) if name in paths else _name(value)
        else:
            bounded[name] = tuple(_name(each) for each in value[:_MOST_GPUS])
    return msgspec.structs.replace(summary, **bounded)


def _bound_row(row: _Row) -> _Row:
    names = ("name", "user", "version", "component")
    bounded: dict[str, object] = {}
    for name in row.__struct_fields__:
        value = getattr(row, name)
        if isinstance(value, str):
            bounded[name] = _name(value) if name in names else _cut(value)
        elif name == "users":
            bounded[name] = tuple(_bound_row(each) for each in value[:_MOST_LINES])
        elif isinstance(value, tuple):
            bounded[name] = _bound_lines(value)
    return msgspec.structs.replace(row, **bounded)


def _bound_result(result: Result) -> Result:
    return msgspec.structs.replace(
        result,
        id=_name(result.id),
        title=_name(result.title),
        family=_name(result.family),
        tags=tuple(map(_name, result.tags[:_MOST_LINES])),
        goal=_name(result.goal),
        reason=_cut(result.reason),
        evidence=_bound_lines(result.evidence),
        findings=tuple(_bound_finding(each) for each in _gravest(result.findings)),
    )


def _gravest(findings: tuple[Finding, ...]) -> Sequence[Finding]:
    """Return all findings, or the most severe if there are too many: the exit code depends on them."""
    if len(findings) <= _MOST_LINES:
        return findings
    return sorted(findings, key=lambda each: -SEVERITIES.index(each.severity))[:_MOST_LINES]


def _bound_finding(finding: Finding) -> Finding:
    return replace(
        finding,
        message=_cut(finding.message),
        cause=_name(finding.cause),
        evidence=_bound_lines(finding.evidence),
        fix=_bound_fix(finding.fix) if finding.fix else None,
        devices=_bound_names_of(finding.devices),
        figures=_bound_figures(finding.figures),
    )


def _bound_cause(cause: RootCause) -> RootCause:
    return msgspec.structs.replace(
        cause,
        label=_name(cause.label),
        title=_cut(cause.title),
        evidence=_bound_lines(cause.evidence),
        costs=_cut(cause.costs),
        fix=_bound_fix(cause.fix),
        devices=_bound_names_of(cause.devices),
        figures=_bound_figures(cause.figures),
    )


def _bound_names_of(devices: Sequence[str]) -> tuple[str, ...]:
    return tuple(map(_name, devices[:_MOST_GPUS]))


def _bound_figures(figures: Sequence[Figure]) -> tuple[Figure, ...]:
    return tuple(
        replace(each, name=_name(each.name), unit=_name(each.unit), device=_name(each.device))
        for each in figures[:_MOST_ROWS]
    )


def _bound_fix(fix: Fix) -> Fix:
    """Omit commands that are too long or have unprintable characters: nobody must paste half of one, or one that hides text."""
    safe = tuple(each for each in fix.commands if len(each) <= _LONGEST_PATH and each.isprintable())
    left_out = len(fix.commands) - len(safe)
    more = " A command is omitted here: a name in it is too long or has unprintable characters." if left_out else ""
    return Fix(_cut(fix.text) + more, safe[:_MOST_LINES])


def _bound_lines(lines: Sequence[str]) -> tuple[str, ...]:
    shown = tuple(_cut(each) for each in lines[:_MOST_LINES])
    left_out = len(lines) - len(shown)
    return (*shown, f"... and {amount(left_out, 'more line')}") if left_out else shown


def _name(text: str) -> str:
    """Return a name on one line."""
    return _cut(text if text.isprintable() else " ".join(text.split()), _LONGEST_NAME)


def _cut(text: str, longest: int = _LONGEST_LINE) -> str:
    """Return the text, cut to a length; characters that UTF-8 cannot encode become question marks."""
    if len(text) > longest:
        text = f"{text[:longest]} ... (truncated)"
    return clean(text if text.isascii() else text.encode("utf-8", "replace").decode())
