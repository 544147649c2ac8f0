"""One root cause, one missed requirement: rows that fail because of another row refer to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from packaging.specifiers import SpecifierSet

from tfgpu_doctor.accept.quantities import QUANTITIES
from tfgpu_doctor.accept.requirement import Case, Requirement
from tfgpu_doctor.accept.rules_stress import why_stopped
from tfgpu_doctor.accept.terms import gpu_range
from tfgpu_doctor.model.facts.stress import LEVELS
from tfgpu_doctor.model.tags import GPU_LOST, STRESS, SUITES_STOPPED, requirement

_MEASURED_BY_SUITES = ("suites", "speed-ups", "metric-fractions", "metrics")
_MEASURED_UNDER_STRESS = ("peak-fractions", "reference-fractions", "spreads")


def explained(rows: Sequence[Requirement], case: Case) -> Iterator[Requirement]:
    """Yield the rows; those that fail because of others refer to them."""
    amiss = {row.key: row for row in rows if not row.holds}
    for row in rows:
        roots = tuple(dict.fromkeys(_roots(row, amiss, case))) if row.key in amiss else ()
        if roots and roots != (row.key,):
            yield msgspec.structs.replace(row, outcome="explained", explained_by=roots)
        else:
            yield row


def _roots(row: Requirement, amiss: Mapping[str, Requirement], case: Case) -> Iterator[str]:
    """Yield the keys of the rows at the end of the chain that explains a row: its own key if nothing does."""
    rows_of = {each.check: each.key for each in amiss.values() if each.outcome == "missed" and each.check}
    keys = [*(rows_of.get(id, "") for id in _checks_behind(row, case)), *_rows_behind(row, case)]
    nearest = [amiss[key] for key in keys if key in amiss and key != row.key]
    if not nearest:
        yield row.key
    for each in nearest:
        yield from _roots(each, amiss, case)


def _rows_behind(row: Requirement, case: Case) -> list[str]:
    """Return the keys of the rows that an unmeasured row depends on: a comparison on its suite, a suite on all suites."""
    kind, _, name = row.key.partition(".")
    if row.outcome != "not measured":
        return []
    if kind in _MEASURED_UNDER_STRESS or (kind == "metrics" and name in QUANTITIES) or _waits_for_load(row, case):
        return ["level"]
    if kind in ("speed-ups", "metric-fractions", "metrics"):
        return [f"suites.{name.partition('/')[0]}", "suites"]
    return ["suites"] if kind == "suites" and name else []


def _waits_for_load(row: Requirement, case: Case) -> bool:
    """Return whether a check was skipped because the stress test was not run or was too short."""
    result = case.report.find(row.check)
    return result is not None and STRESS in result.tags and result.outcome == "skip"


def _checks_behind(row: Requirement, case: Case) -> Iterable[str]:
    """Return the ids of the checks whose findings explain a row."""
    kind, _, name = row.key.partition(".")
    if row.check:
        return _before(row.check, case)
    if row.outcome == "not measured":
        lost = _ids(case, SUITES_STOPPED) if kind in _MEASURED_BY_SUITES else []
        return [*lost, *_stopping_load(row, case), *_before_measuring(row, case)]
    if kind == "gpus" and _bus_has_enough(case):
        return _ids(case, GPU_LOST)
    if kind in ("speed-ups", "metric-fractions"):
        return [id for id in _ids(case, requirement(kind)) if _names(id, name.replace("/", " ", 1), case)]
    if kind == "reference-fractions":
        kind = "peak-fractions"  # the same checks report why a GPU is slow
    return _ids(case, requirement(kind)) if kind in ("suites", "peak-fractions") else []


def _ids(case: Case, tag: str) -> list[str]:
    return [result.id for result in case.report.tagged(tag)]


def _before(id: str, case: Case) -> list[str]:
    """Return the checks that block a check, and those that report the cause of its finding unless it reports one itself."""
    result, causes = case.report.find(id), case.report.causes
    heads = [] if any(cause.id == id for cause in causes) else [cause.id for cause in causes if id in cause.explains]
    return [*(result.blocked_by if result else ()), *heads]


def _before_measuring(row: Requirement, case: Case) -> list[str]:
    """Return what prevents the measurement: the checks that block the goal, and the goal; for a version, its check."""
    if row.key == "level" and LEVELS.index(case.report.level) < LEVELS.index(case.profile.level):
        return []
    judging = case.report.tagged(requirement(row.key)) if row.key in ("driver", "tensorflow") else []
    result = judging[0] if judging else case.report.find(case.goal)
    return [*result.blocked_by, result.id] if result and result.outcome in ("fail", "blocked") else []


def _stopping_load(row: Requirement, case: Case) -> list[str]:
    """Return the checks that found errors under load, if the stress test of a GPU stopped, and each was tested otherwise."""
    stress = case.facts.stress
    if row.key != "level" or stress is None or len(stress.tested) < len(stress.gpus):
        return []
    failed = [result.id for result in case.report.tagged(STRESS) if result.outcome == "fail"]
    return failed if any(map(why_stopped, stress.tested)) else []


def _names(id: str, words: str, case: Case) -> bool:
    """Return whether a finding of that check mentions a comparison or a metric."""
    result = case.report.find(id)
    findings = result.findings if result else ()
    return any(words in text for finding in findings for text in (finding.message, *finding.evidence))


def _bus_has_enough(case: Case) -> bool:
    """Return whether the PCI bus has the required number of GPUs: then one was lost between the bus and TensorFlow."""
    pci = case.facts.pci
    return pci is not None and SpecifierSet(gpu_range(case.profile.gpus)).contains(str(len(pci.nvidia_gpus)))
