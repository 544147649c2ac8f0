"""Wording that several output formats share."""

from __future__ import annotations

import collections

from tfgpu_doctor.diagnose.fitness import makes_unfit
from tfgpu_doctor.diagnose.root_cause import rank_notes
from tfgpu_doctor.model import Severity
from tfgpu_doctor.model.facts.stress import STRESS_LEVELS
from tfgpu_doctor.model.report import IGNORED, NOT_EXAMINED, Report, Result, RootCause
from tfgpu_doctor.model.tags import STRESS, plugin_of

_COUNTS = (
    ("pass", "passed"),
    ("warn", "with warnings"),
    ("fail", "failed"),
    ("blocked", "blocked"),
    ("skip", "skipped"),
    ("crash", "crashed"),
)


NOTES_FAIL = "Notes fail this run (fail-level info):"
OPEN = "Not judged: nothing showed whether TensorFlow computes on a GPU."


def headline(report: Report) -> str:
    """Return the verdict in one sentence; empty if an error states it."""
    if report.interrupted:
        return "Interrupted: these are the results so far."
    if report.healthy:
        proof = (
            "the driver provides a GPU; TensorFlow itself was not tested (--quick)"
            if report.quick
            else "TensorFlow computes on the GPU"
        )
        count = len(report.causes)
        return (
            f"Works, with {count} {'issue' if count == 1 else 'issues'} to fix: {proof}."
            if count
            else f"Healthy: {proof}."
        )
    if has_error(report):
        return ""
    if report.counts["crash"]:
        return _crashed(report)
    if report.judged:
        unlike = "" if all_pass(report) else f"Not every selected check passed: {counts_line(report)}."
        return f"{unlike or 'The selected checks pass.'} Whether TensorFlow computes on a GPU was not among them."
    if report.causes:
        return OPEN
    return "Not judged: no fault was found, but nothing showed that TensorFlow computes on a GPU."


def _crashed(report: Report) -> str:
    """Return whose checks crashed, and which plugins could not be loaded: the doctor's own ones are the doctor's fault."""
    crashed = [each for each in report.results if each.outcome == "crash"]
    unloaded = [each for each in crashed if each.id.startswith("plugin:")]
    ran = [each for each in crashed if each not in unloaded]
    told = []
    if ran:
        names = sorted({plugin_of(each.tags) for each in ran})  # the doctor's own have none, which comes first
        whose = " and ".join(f"of the plugin {name}" if name else "of the doctor" for name in names)
        told.append(
            f"A check {whose} crashed; what it examines was not judged."
            if len(ran) == 1
            else f"{len(ran)} checks {whose} crashed; what they examine was not judged."
        )
    if unloaded:
        names = [plugin_of(each.tags) for each in unloaded]
        subject, whose = ("plugin", "its") if len(names) == 1 else ("plugins", "their")
        told.append(
            f"The {subject} {' and '.join(names)} could not be loaded; what {whose} checks examine was not judged."
        )
    return " ".join(told)


def failing_notes(report: Report, fail_level: Severity) -> tuple[RootCause, ...]:
    """Return the notes: findings of severity `info`, if they fail the run. No verdict depends on them."""
    return rank_notes(report.results) if fail_level == "info" else ()


def has_error(report: Report) -> bool:
    """Whether a check found an error: then the first cause is the verdict."""
    return any(cause.severity == "error" for cause in report.causes)


def all_pass(report: Report) -> bool:
    """Whether every check of the report passed: none was skipped, blocked or warns."""
    return all(result.outcome == "pass" for result in report.results)


def answers(report: Report) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return the two questions of a diagnosis, each with its answer: yes, no with the reason, or why it is open."""
    untried = "not tried (--quick)" if report.quick else "not judged"
    computes = untried if report.computes is None else "yes" if report.computes else "no"
    unfit = ", ".join(cause.id for cause in report.causes if cause.severity == "error" and _makes_unfit(cause, report))
    fit = "not known" if report.fit is None else "yes" if report.fit else f"no ({unfit})" if unfit else "no"
    return ("TensorFlow computes on a GPU here", computes), ("every GPU of this machine is fit for work", fit)


def _makes_unfit(cause: RootCause, report: Report) -> bool:
    found = report.find(cause.id)
    return makes_unfit(cause.label, found.tags if found else ())


def subject(report: Report) -> str:
    """Return what was diagnosed, on one line."""
    target, machine = report.target, report.machine
    parts = [
        f"TensorFlow {target.tensorflow}" if target.tensorflow else _absent(report, "TensorFlow", "tensorflow"),
        f"Python {target.version}" if target.version else "",
        f"driver {machine.driver}" if machine.driver else _absent(report, "NVIDIA driver", "driver"),
        gpus_in_words(machine.gpus) or _absent(report, "NVIDIA GPU", "pci"),
        f"in {machine.container}" if machine.container else "",
        machine.system,
    ]
    return " · ".join(part for part in parts if part)


def _absent(report: Report, what: str, fact: str) -> str:
    """Return `no NVIDIA GPU`, or that this was not examined: what is missing in an examination is not known to be absent."""
    whole = report.target.python if fact == "tensorflow" else report.machine.system
    missing = not whole or any(result.reason == NOT_EXAMINED + fact for result in report.results)
    return f"{what} not examined" if missing else f"no {what}"


def gpus_in_words(names: tuple[str, ...]) -> str:
    """Return `8 x NVIDIA H100`, or all names if they differ."""
    return f"{len(names)} x {names[0]}" if len(set(names)) == 1 else ", ".join(names)


def number(value: float) -> str:
    """Format a number with four significant digits, and with all digits before the point: 0.1235, 40,800."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def counts_line(report: Report) -> str:
    """Return `21 passed · 1 failed · 3 blocked`; zeros are omitted."""
    return " · ".join(f"{report.counts[key]} {word}" for key, word in _COUNTS if report.counts.get(key))


def reasons_if_open(report: Report) -> list[str]:
    """Return why checks were skipped, where neither a healthy machine nor an error answers the question; else nothing."""
    return [] if report.healthy or has_error(report) else unjudged(report)


def unjudged(report: Report) -> list[str]:
    """Return why checks were skipped, each reason once; what was not examined is one reason.

    First comes what the user ignores although others depend on it: only that can be changed at once.
    """
    waiting = collections.Counter(id for result in report.results for id in result.blocked_by)
    ignored = [result.id for result in report.results if result.reason == IGNORED and waiting[result.id]]
    reasons: dict[str, list[str]] = {}
    facts: dict[str, None] = {}
    for result in report.results:
        if result.outcome == "skip" and result.id not in ignored:
            missing = result.reason.startswith(NOT_EXAMINED)
            reasons.setdefault(NOT_EXAMINED if missing else result.reason, []).append(result.id)
            facts.update({result.reason.removeprefix(NOT_EXAMINED): None} if missing else {})
    return [
        *(
            f"{id}: {IGNORED}, but others ({waiting[id]}) cannot be judged without it: do not ignore it"
            for id in ignored
        ),
        *(
            f"{_first_of(ids)}: {reason}{', '.join(facts) if reason == NOT_EXAMINED else ''}"
            for reason, ids in reasons.items()
        ),
    ]


def _first_of(ids: list[str]) -> str:
    return ids[0] if len(ids) == 1 else f"{ids[0]} and {len(ids) - 1} more"


def measured(report: Report) -> list[Result]:
    """Return the checks of the stress test if the level includes one: users want their values. Each skip reason appears once."""
    if report.level not in STRESS_LEVELS:
        return []
    found: list[Result] = []
    for result in report.results:
        told = result.outcome == "skip" and any(each.reason == result.reason for each in found)
        if STRESS in result.tags and result.outcome != "blocked" and not told:
            found.append(result)
    return found


def open_question(report: Report) -> str:
    """Return why nothing could be judged (exit code 3) or the run was interrupted (130); empty if the question was answered."""
    if report.interrupted:
        return headline(report)
    return "" if report.judged or has_error(report) else OPEN
