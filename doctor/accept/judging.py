"""Judge a machine by a profile."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import msgspec

from tfgpu_doctor.accept.canonical import digest_of_bytes
from tfgpu_doctor.accept.certificate import Certificate, verdict_of
from tfgpu_doctor.accept.explaining import explained
from tfgpu_doctor.accept.requirement import Case, Requirement
from tfgpu_doctor.accept.rules_checks import (
    allowance_notes,
    allowed_findings,
    check_requirements,
    is_as_asked,
    required_checks,
)
from tfgpu_doctor.accept.rules_machine import driver_of, goal_of, machine_requirements, tensorflow_of
from tfgpu_doctor.accept.rules_references import reference_requirements
from tfgpu_doctor.accept.rules_stress import stress_requirements
from tfgpu_doctor.accept.rules_suites import suite_requirements
from tfgpu_doctor.accept.rules_units import unit_requirements
from tfgpu_doctor.accept.terms import Resolved
from tfgpu_doctor.diagnose.engine import BrokenPlugin, diagnose
from tfgpu_doctor.diagnose.selection import Selection
from tfgpu_doctor.model import Check
from tfgpu_doctor.model.facts import Facts, encode_facts
from tfgpu_doctor.model.report import Report

_LONGEST_NAME = 200  # characters of a version, or of the name of a machine


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
    """Return the certificate of a machine, without digest and seal. `today` decides which allowances are still valid."""
    allowed = allowed_findings(resolved.profile, today)
    report = diagnose(facts, checks=checks, broken=broken, interrupted=interrupted, seconds=seconds, allowed=allowed)
    wanted = resolved.profile.checks
    selection = Selection(select=wanted.select, ignore=wanted.ignore)
    counted = diagnose(facts, checks=checks, selection=selection, broken=broken, allowed=allowed).results
    goal = report.shows(goal_of(resolved.profile, facts))
    case = Case(facts, report, counted, resolved, goal.id if goal else "", today)
    requirements = tuple(explained(_requirements(case), case))
    certificate = Certificate(
        verdict=verdict_of(requirements, interrupted),
        subject=subject[:_LONGEST_NAME],
        doctor=report.doctor,
        issued=issued,
        recorded=report.recorded,
        seconds=round(seconds, 1),
        level=report.level,
        machine=report.machine,
        versions=_versions(facts, report),
        facts=digest_of_bytes(encode_facts(facts)),
        profile=resolved,
        requirements=requirements,
        causes=tuple(
            cause
            for cause in report.causes
            if any(each.id == cause.id for each in counted) and not is_as_asked(cause.label, resolved.profile)
        ),
        notes=tuple(allowance_notes(case)),
    )
    return msgspec.convert(_in_utf8(msgspec.to_builtins(certificate)), Certificate)


def _in_utf8(value: Any) -> Any:
    """Return the document with a question mark for each character that UTF-8 cannot encode (from the name of a file)."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_in_utf8(key): _in_utf8(each) for key, each in value.items()}
    return [_in_utf8(each) for each in value] if isinstance(value, list | tuple) else value


def _requirements(case: Case) -> list[Requirement]:
    """Return findings first, then requirements of the machine, then requirements of its performance."""
    parts = (
        check_requirements, machine_requirements, stress_requirements, reference_requirements, required_checks,
        suite_requirements, unit_requirements,
    )  # fmt: skip
    return [row for part in parts for row in part(case)]


def _versions(facts: Facts, report: Report) -> dict[str, str]:
    found = {
        "TensorFlow": tensorflow_of(facts) or report.target.tensorflow,
        "Python": report.target.version,
        "driver": driver_of(facts),
        "CUDA of the driver": facts.cuda_driver.cuda_version if facts.cuda_driver else "",
        "CUDA of TensorFlow": facts.tensorflow.cuda_version if facts.tensorflow else "",
        "suites": facts.bench.suite_version if facts.bench else "",
    }
    return {name: version[:_LONGEST_NAME] for name, version in found.items() if version}
