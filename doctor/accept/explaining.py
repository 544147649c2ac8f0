"""One root cause, one red line: rows that do not hold because of another say so, and only that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from packaging.specifiers import SpecifierSet

from tfgpu_doctor.accept.requirement import Case, Requirement
from tfgpu_doctor.accept.terms import gpu_range
from tfgpu_doctor.model.facts.stress import LEVELS
from tfgpu_doctor.model.tags import GPU_LOST, STRESS, SUITES_STOPPED, requirement

_MEASURED_BY_SUITES = ("suites", "speed-ups", "metric-fractions")


def explained(rows: Sequence[Requirement], case: Case) -> Iterator[Requirement]:
    """The rows; those that do not hold because of others point to them."""
    amiss = {row.key: row for row in rows if not row.holds}
    for row in rows:
        roots = tuple(dict.fromkeys(_roots(row, amiss, case))) if row.key in amiss else ()
        if roots and roots != (row.key,):
            yield msgspec.structs.replace(row, outcome="explained", explained_by=roots)
        else:
            yield row


def _roots(row: Requirement, amiss: Mapping[str, Requirement], case: Case) -> Iterator[str]:
    """The keys of the rows at the end of all that explains a row: its own where nothing does."""
    rows_of = {each.check: each.key for each in amiss.values() if each.outcome == "missed" and each.check}
    keys = [*(rows_of.get(id, "") for id in _checks_behind(row, case)), *_rows_behind(row, case)]
    nearest = [amiss[key] for key in keys if key in amiss and key != row.key]
    if not nearest:
        yield row.key
    for each in nearest:
        yield from _roots(each, amiss, case)


def _rows_behind(row: Requirement, case: Case) -> list[str]:
    """Keys of the rows that what was not measured builds on: a comparison on its suite, and that on any suites at all."""
    kind, _, name = row.key.partition(".")
    if row.outcome != "not measured":
        return []
    if kind == "peak-fractions" or _waits_for_load(row, case):
        return ["level"]
    if kind in ("speed-ups", "metric-fractions"):
        return [f"suites.{name.partition('/')[0]}", "suites"]
    return ["suites"] if kind == "suites" and name else []


def _waits_for_load(row: Requirement, case: Case) -> bool:
    """Whether a check could not be judged because no load, or too short a one, was put on the GPUs."""
    result = case.report.find(row.check)
    return result is not None and STRESS in result.tags and result.outcome == "skip"


def _checks_behind(row: Requirement, case: Case) -> Iterable[str]:
    """Ids of the checks whose findings a row follows from."""
    kind, _, name = row.key.partition(".")
    if row.check:
        return _before(row.check, case)
    if row.outcome == "not measured":
        lost = _ids(case, SUITES_STOPPED) if kind in _MEASURED_BY_SUITES else []
        return [*lost, *_before_measuring(row, case)]
    if kind == "gpus" and _bus_has_enough(case):
        return _ids(case, GPU_LOST)
    if kind in ("speed-ups", "metric-fractions"):
        return [id for id in _ids(case, requirement(kind)) if _names(id, name.replace("/", " ", 1), case)]
    return _ids(case, requirement(kind)) if kind in ("suites", "peak-fractions") else []


def _ids(case: Case, tag: str) -> list[str]:
    return [result.id for result in case.report.tagged(tag)]


def _before(id: str, case: Case) -> list[str]:
    """What blocks a check; and what stands for the cause of its finding, unless the check stands for one itself."""
    result, causes = case.report.find(id), case.report.causes
    heads = [] if any(cause.id == id for cause in causes) else [cause.id for cause in causes if id in cause.explains]
    return [*(result.blocked_by if result else ()), *heads]


def _before_measuring(row: Requirement, case: Case) -> list[str]:
    """What keeps a machine from being measured: what the goal needs, and the goal; for a version, whoever tells it."""
    if row.key == "level" and LEVELS.index(case.report.level) < LEVELS.index(case.profile.level):
        return []
    judging = case.report.tagged(requirement(row.key)) if row.key in ("driver", "tensorflow") else []
    result = judging[0] if judging else case.report.find(case.goal)
    return [*result.blocked_by, result.id] if result and result.outcome in ("fail", "blocked") else []


def _names(id: str, words: str, case: Case) -> bool:
    """Whether a finding of that check tells of a comparison or a metric."""
    result = case.report.find(id)
    findings = result.findings if result else ()
    return any(words in text for finding in findings for text in (finding.message, *finding.evidence))


def _bus_has_enough(case: Case) -> bool:
    """Whether the PCI bus has as many GPUs as are asked for: then one was lost between the bus and TensorFlow."""
    pci = case.facts.pci
    return pci is not None and SpecifierSet(gpu_range(case.profile.gpus)).contains(str(len(pci.nvidia_gpus)))
