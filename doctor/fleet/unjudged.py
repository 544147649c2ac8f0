"""Why nodes were not judged, and what to do next: said by each node, and grouped by the comparison."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tfgpu_doctor.accept import hidden_gpus, why_not_loaded
from tfgpu_doctor.fleet.fleet import BUSY, REPORTED, Silence, Unjudged
from tfgpu_doctor.fleet.partly import unlisted
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.stress import STRESS_LEVELS, StressTest
from tfgpu_doctor.model.report import Report
from tfgpu_doctor.model.tags import Goal

if TYPE_CHECKING:
    from tfgpu_doctor.fleet.columns import Node

_NOT_JUDGED = 3  # exit code
_VARIABLE = "CUDA_VISIBLE_DEVICES"
_GOALS: tuple[Goal, ...] = ("computes", "driver", "platform")
_NO_REASON = "the doctor ended with exit code {} and its report has no reason"
_WHEN_FREE = "examine them again when nobody uses their GPUs"
_LOOK = "run `tfgpu-doctor -v` on such a node: it says why each check was skipped, as does `report` in the node's file"
_CRASHED = "this is a defect of the check and not of the node: send the node's file to those who maintain the check"
_CRASH = "a check crashed: "
_AGAIN = "repair that, and examine the node again"
_LOAD = "stress test"  # begins the reason of a node that was to be stress-tested
_ALONE = "examine them again at the same level while nobody else uses their GPUs"


def why_unjudged(report: Report, exit_code: int) -> str:
    """Return why an examination judged nothing (exit code 3), in one sentence; empty if it did."""
    if exit_code != _NOT_JUDGED or report.interrupted:
        return ""
    crashed = next((each for each in report.results if each.outcome == "crash"), None)
    if crashed:
        return f"{_CRASH}{crashed.id}: {crashed.reason}"
    for goal in filter(None, map(report.shows, _GOALS)):
        if goal.outcome == "blocked":
            return f"{goal.id} was not tried: it is blocked by {', '.join(goal.blocked_by)}, whose errors are left out"
        if goal.outcome == "skip":
            return f"{goal.id} was skipped: {goal.reason}"
    skipped = next((each for each in report.results if each.outcome == "skip"), None)
    return f"{skipped.id} was skipped: {skipped.reason}" if skipped else ""


def not_examined(facts: Facts, report: Report) -> dict[str, str]:
    """Return why a part of the node's GPUs was not examined as ordered: by "GPUs" those that nothing reached, or by the test.

    At a level without a stress test, only a variable of the doctor's own says that GPUs were to be examined.
    """
    if hidden := _hidden_by_variable(facts, report):
        return {"GPUs": hidden}
    if report.level not in STRESS_LEVELS:
        return {}
    why = why_not_loaded(facts, "no GPU was stress-tested")
    if why and not _is_told_by_causes(facts.stress, report):
        return {_LOAD: why}
    accounts = report.shows("accounts")
    # Where the check knows why CUDA does not list a GPU, it is withheld on purpose, or a finding of its own.
    if accounts and accounts.outcome == "skip" and unlisted(facts):
        return {_LOAD: accounts.reason}
    return {}


def _is_told_by_causes(stress: StressTest | None, report: Report) -> bool:
    """Return whether an error names each GPU on which the test did not end: then that is what the node has, and judged."""
    if stress is None or stress.interrupted:
        return False
    named = {device for cause in report.causes if cause.severity == "error" for device in cause.devices}
    open_ = [gpu for gpu in stress.gpus if not (gpu.rounds and gpu.attempt and gpu.attempt.answered) or gpu.error]
    return bool(open_) and all((gpu.uuid or f"/GPU:{gpu.index}") in named for gpu in open_)


def _hidden_by_variable(facts: Facts, report: Report) -> str:
    hidden = len(hidden_gpus(facts, report))
    if not hidden or not facts.nvml or not facts.environment:
        return ""
    value = facts.environment.get(_VARIABLE)
    count = amount(facts.nvml.gpu_count, "GPU")
    return f"{_VARIABLE}={value} hides {hidden} of {count}, which were not examined: unset it"


def unjudged_nodes(nodes: Iterable[Node], silent: Sequence[Silence], not_judged: Sequence[str]) -> tuple[Unjudged, ...]:
    """Return the nodes that were not judged, by the reason; most nodes first."""
    wanted = set(not_judged)
    found: dict[tuple[str, str], list[str]] = {}
    for silence in silent:
        reason = f"{silence.outcome}{f', {silence.reason}' if silence.reason else ''}"
        fix = _WHEN_FREE if silence.outcome == BUSY else ""
        found.setdefault((reason, fix), []).extend(wanted.intersection(silence.nodes))
    for node in nodes:
        if node.outcome == REPORTED and node.name in wanted:
            found.setdefault(_of_node(node), []).append(node.name)
    groups = [
        Unjudged(reason=reason, fix=fix, nodes=tuple(sorted(names))) for (reason, fix), names in found.items() if names
    ]
    return tuple(sorted(groups, key=lambda each: (-len(each.nodes), each.reason)))


def _of_node(node: Node) -> tuple[str, str]:
    """Return the reason and what to do next."""
    if node.reason:
        return node.reason, _ALONE if node.reason.startswith(f"{_LOAD}: ") else _AGAIN
    if node.unjudged:
        return node.unjudged, _CRASHED if node.unjudged.startswith(_CRASH) else _LOOK
    return _NO_REASON.format(node.exit_code), _LOOK
