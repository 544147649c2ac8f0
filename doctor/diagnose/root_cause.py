"""The root causes: findings in order of importance, each with the checks that it explains."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tfgpu_doctor.model import CONFIDENCES, SEVERITIES, UNDETERMINED, Figure, Finding, Fix
from tfgpu_doctor.model.report import Result, RootCause


def rank_causes(results: Sequence[Result]) -> tuple[RootCause, ...]:
    """Rank causes by higher severity, known before unknown, higher confidence, and earlier place in the order of checks.

    A check has an earlier place if its stage is earlier, or if others come after it. A cause explains the checks that it
    blocks; findings of several checks with the same label are one cause, reported by the first.
    """
    return _ranked(results, lambda finding: finding.severity != "info")


def rank_notes(results: Sequence[Result]) -> tuple[RootCause, ...]:
    """Rank the findings of severity `info` in the same way."""
    return _ranked(results, lambda finding: finding.severity == "info")


def _ranked(results: Sequence[Result], wanted: Callable[[Finding], bool]) -> tuple[RootCause, ...]:
    order = {result.id: place for place, result in enumerate(results)}
    found = [(result, finding) for result in results for finding in result.findings if wanted(finding)]
    found.sort(key=lambda pair: _key(pair[1], order[pair[0].id]))
    causes: list[RootCause] = []
    for label in dict.fromkeys(_label(result, finding) for result, finding in found):
        same = [pair for pair in found if _label(*pair) == label]
        causes.append(_cause(same, results))
    return tuple(causes)


def _key(finding: Finding, place: int) -> tuple[int, bool, int, int]:
    return (
        -SEVERITIES.index(finding.severity),
        finding.cause == UNDETERMINED,
        -CONFIDENCES.index(finding.confidence),
        place,
    )


def _label(result: Result, finding: Finding) -> tuple[str, str]:
    """Return the key that findings of one cause share; findings with undetermined causes of two checks are separate."""
    return finding.cause, result.id if finding.cause == UNDETERMINED else ""


def _cause(same: Sequence[tuple[Result, Finding]], results: Iterable[Result]) -> RootCause:
    first, finding = same[0]
    ids = dict.fromkeys(result.id for result, _ in same)
    blocked = [result.id for result in results if set(ids) & set(result.blocked_by)]
    more = [line for _, other in same[1:] for line in (other.message, *other.evidence)]
    return RootCause(
        label=finding.cause,
        id=first.id,
        title=finding.message,
        severity=finding.severity,
        confidence=finding.confidence,
        evidence=tuple(dict.fromkeys([*finding.evidence, *more])),
        fix=finding.fix or Fix(f"`tfgpu-doctor explain {first.id}` describes the check."),
        explains=tuple(id for id in dict.fromkeys([*ids, *blocked]) if id != first.id),
        devices=tuple(dict.fromkeys(device for _, each in same for device in each.devices)),
        figures=_figures(each for _, each in same),
    )


def _figures(findings: Iterable[Finding]) -> tuple[Figure, ...]:
    """Return one figure of each name and device, that of the first finding: each is a series of numbers."""
    found: dict[tuple[str, str], Figure] = {}
    for finding in findings:
        for figure in finding.figures:
            found.setdefault((figure.name, figure.device), figure)
    return tuple(found.values())
