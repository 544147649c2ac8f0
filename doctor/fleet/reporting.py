"""Make a node's report from the facts and findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from tfgpu_doctor.fleet.fleet import NOT_GRANTED
from tfgpu_doctor.fleet.hardware import boards_of, driver_codes_of
from tfgpu_doctor.fleet.measurements import measurements_of
from tfgpu_doctor.fleet.node import Cause, NodeOutcome, NodeReport, Unmet
from tfgpu_doctor.fleet.partly import partly_judged
from tfgpu_doctor.fleet.settings import settings_of
from tfgpu_doctor.fleet.unjudged import why_unjudged
from tfgpu_doctor.model import Severity
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.report import Report
from tfgpu_doctor.render.words import failing_notes

_NO_GPU_GRANTED = "scheduler_did_not_grant_gpu"  # a label
_NOT_JUDGED = 3


def node_report(
    node: str, facts: Facts, report: Report, *, began: str, seconds: float, exit_code: int,
    order: str = "", profile: str = "", unmet: Sequence[Unmet] = (), not_measured: Mapping[str, str] | None = None,
    fail_level: Severity = "error",
) -> NodeReport:  # fmt: skip
    """Return the report of an examined node. `not_measured`: suites and GPUs that were to be examined, and why they were not.

    Such a node is not judged, if nothing worse is known of it. Notes are causes where they fail the run at `fail_level`.
    """
    missed = {} if report.interrupted else not_measured or {}
    found = NodeReport(
        node=node,
        outcome="interrupted" if report.interrupted else "reported",
        reason="; ".join(f"{suite}: {why}" for suite, why in missed.items()),
        began=began,
        seconds=round(seconds, 3),
        order=order,
        doctor=report.doctor,
        exit_code=exit_code or (_NOT_JUDGED if missed else 0),
        unjudged=why_unjudged(report, exit_code),
        settings=settings_of(facts, report),
        measurements=measurements_of(facts),
        checks={result.id: result.outcome for result in report.results},
        partly=partly_judged(facts, report),
        causes=tuple(
            Cause(
                label=cause.label,
                id=cause.id,
                title=cause.title,
                severity=cause.severity,
                devices=cause.devices,
                figures=cause.figures,
            )
            for cause in (*report.causes, *failing_notes(report, fail_level))
        ),
        unmet=tuple(unmet),
        profile=profile,
        driver=facts.driver.version if facts.driver else "",
        boards=boards_of(facts),
        driver_codes=driver_codes_of(facts),
        report=report,
    )
    if report.interrupted or not (reason := _not_granted(facts, report)):
        return found
    return msgspec.structs.replace(
        found, outcome=NOT_GRANTED, reason=reason, exit_code=_NOT_JUDGED, causes=(), unmet=(), measurements=()
    )


def _not_granted(facts: Facts, report: Report) -> str:
    """Return why the job sees no GPU of the node, if only because it asked for none: that says nothing about the node."""
    scheduler = facts.scheduler
    if not scheduler or not scheduler.kind or scheduler.granted:
        return ""
    if not any(cause.label == _NO_GPU_GRANTED and cause.severity == "error" for cause in report.causes):
        return ""
    asking = " (`fleet emit slurm --gpus N`)" if scheduler.kind == "slurm" else ""
    return (
        f"the job asked {scheduler.kind} for no GPU, and this cluster hides the GPUs that a job did not ask for: ask for "
        f"all GPUs of the node{asking}"
    )


def missing_node(node: str, outcome: NodeOutcome, reason: str, *, seconds: float = 0.0) -> NodeReport:
    """Return the report for a node that did not deliver one, written by the process that waited for it."""
    return NodeReport(node=node, outcome=outcome, reason=reason, seconds=round(seconds, 3))


def in_a_line(report: NodeReport) -> str:
    """Return the outcome of a node in one line."""
    if report.outcome != "reported":
        return f"{report.outcome}: {report.reason}" if report.reason else report.outcome
    if report.unmet:
        return f"not accepted by {report.profile}: {'; '.join(each.words for each in report.unmet[:3])}"
    if report.causes:
        return "; ".join(f"{cause.label} ({cause.id}): {cause.title}" for cause in report.causes[:3])
    return (
        "healthy"
        if report.exit_code == 0
        else f"not judged: {report.reason or report.unjudged or f'exit code {report.exit_code}'}"
    )
