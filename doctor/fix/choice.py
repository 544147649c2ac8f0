"""Choose the cause to fix: the first, or the one behind the finding that the user names."""

from __future__ import annotations

from tfgpu_doctor.diagnose.selection import Selection, UnknownId
from tfgpu_doctor.model.report import Report, RootCause


class UnknownFinding(ValueError):
    """A name that is neither a check's id nor a cause's label; the message suggests similar names."""


def choose(report: Report, name: str | None) -> RootCause | None:
    """Return the cause to fix, None if there is nothing to fix. `name` is a check's id, or a cause's label."""
    if name is None:
        return next(iter(report.causes), None)
    by_label = next((cause for cause in report.causes if cause.label == name), None)
    if by_label:
        return by_label
    result = report.find(name.upper())
    if result is None:
        _refuse_unknown(report, name)
        return None
    ids = {result.id, *result.blocked_by}
    return next((cause for cause in report.causes if cause.id in ids or ids & set(cause.explains)), None)


def _refuse_unknown(report: Report, name: str) -> None:
    from tfgpu_doctor.knowledge import read_knowledge

    labels = read_knowledge().causes
    try:
        Selection(select=(name,)).validate([*(result.id for result in report.results), *labels])
    except UnknownId as error:
        raise UnknownFinding(str(error)) from error
    if name not in labels:
        raise UnknownFinding(f"{name!r} is not a single check: name one (`tfgpu-doctor check --list` lists them all)")
