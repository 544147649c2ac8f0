"""Judge a machine by a profile."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence

import msgspec

from tfgpu_doctor.acceptance.canonical import digest_of
from tfgpu_doctor.acceptance.certificate import Certificate, verdict_of
from tfgpu_doctor.acceptance.of_the_checks import allowance_notes, check_requirements, required_checks
from tfgpu_doctor.acceptance.of_the_load import load_requirements
from tfgpu_doctor.acceptance.of_the_machine import driver_of, machine_requirements, tensorflow_of
from tfgpu_doctor.acceptance.of_the_suites import suite_requirements
from tfgpu_doctor.acceptance.profile import Resolved
from tfgpu_doctor.acceptance.requirement import Case, Requirement
from tfgpu_doctor.diagnosis import BrokenPlugin, diagnose
from tfgpu_doctor.facts import Facts
from tfgpu_doctor.model import Check
from tfgpu_doctor.report import Report
from tfgpu_doctor.selection import Selection

# The check that a requirement builds on, where it is not the goal.
_BUILDS_ON = {"driver": "DRV001", "tensorflow": "TFW001"}


def judge(
    facts: Facts,
    resolved: Resolved,
    *,
    today: dt.date,
    checks: Sequence[Check] | None = None,
    broken: Sequence[BrokenPlugin] = (),
    interrupted: bool = False,
    seconds: float = 0.0,
    issued: str = "",
    subject: str = "",
) -> Certificate:
    """The certificate of a machine, without digest and seal. `today` decides which allowances still hold."""
    report = diagnose(facts, checks=checks, broken=broken, interrupted=interrupted, seconds=seconds)
    wanted = resolved.profile.checks
    selection = Selection(select=wanted.select, ignore=wanted.ignore)
    counted = diagnose(facts, checks=checks, selection=selection, broken=broken).results
    case = Case(facts, report, counted, resolved, today)
    requirements = tuple(_blocked(_requirements(case), report))
    return Certificate(
        verdict=verdict_of(requirements, interrupted),
        subject=subject,
        doctor=facts.doctor,
        issued=issued,
        recorded=facts.recorded,
        seconds=round(seconds, 1),
        level=report.level,
        machine=report.machine,
        versions=_versions(facts, report),
        facts=digest_of(msgspec.to_builtins(facts)),
        profile=resolved,
        requirements=requirements,
        causes=tuple(cause for cause in report.causes if any(each.id == cause.id for each in counted)),
        notes=tuple(allowance_notes(case)),
    )


def _requirements(case: Case) -> list[Requirement]:
    """What is wrong with the machine first, then what it must be, then what it must do."""
    parts = (check_requirements, machine_requirements, load_requirements, required_checks, suite_requirements)
    return [row for part in parts for row in part(case)]


def _blocked(rows: list[Requirement], report: Report) -> Iterable[Requirement]:
    """The same, with what could not be measured because of a fault that has a row of its own blocked by it."""
    faults = {row.check for row in rows if row.outcome == "missed"}
    goal = "DRV008" if report.quick else "GPU004"
    for row in rows:
        result = report.find(_BUILDS_ON.get(row.key, goal))
        blockers = ((*result.blocked_by, result.id) if result.outcome in ("fail", "blocked") else ()) if result else ()
        named = tuple(id for id in blockers if id in faults)
        if row.outcome == "not measured" and named:
            yield msgspec.structs.replace(row, outcome="blocked", blocked_by=named)
        else:
            yield row


def _versions(facts: Facts, report: Report) -> dict[str, str]:
    found = {
        "TensorFlow": tensorflow_of(facts) or report.target.tensorflow,
        "Python": report.target.version,
        "driver": driver_of(facts),
        "CUDA of the driver": facts.cuda_driver.cuda_version if facts.cuda_driver else "",
        "CUDA of TensorFlow": facts.tensorflow.cuda_version if facts.tensorflow else "",
        "suites": facts.bench.suite_version if facts.bench else "",
    }
    return {name: version for name, version in found.items() if version}
