"""A repair in words: the plan, how it went, what was undone."""

from __future__ import annotations

from collections.abc import Iterator

from tfgpu_doctor.fix.apply import Applied
from tfgpu_doctor.fix.bounds import RECORD
from tfgpu_doctor.fix.plan import Plan
from tfgpu_doctor.fix.undo import Undone
from tfgpu_doctor.model.report import Report
from tfgpu_doctor.render.text import clean

_UNDO = "`tfgpu-doctor fix --undo` takes it back"
_WORTH_SAYING_BYTES = 100 << 20


def describe_plan(plan: Plan, *, applied: bool) -> str:
    """The cause, the advice, the steps inside the environment, and those left to the user."""
    return _page(_plan_lines(plan, applied))


def _plan_lines(plan: Plan, applied: bool) -> Iterator[str]:
    yield f"{plan.cause.id}  {plan.cause.title}"
    yield f"Fix  {plan.advice}"
    if plan.steps:
        yield ""
        yield (
            f"Inside {plan.prefix}:" if applied else f"Inside {plan.prefix}, carried out by `tfgpu-doctor fix --apply`:"
        )
        for place, step in enumerate(plan.steps, 1):
            yield f"  {place}. {step.text}"
    if plan.by_hand:
        yield ""
        yield "Left to you:"
        for printed in plan.by_hand:
            yield f"     {printed.text}"
    if not plan.steps and not plan.by_hand:
        yield ""
        yield "That is left to you: nothing of it is inside the environment."


def describe_nothing(report: Report, name: str | None) -> str:
    """Why there is nothing to mend."""
    result = report.find(name.upper()) if name else None
    if result and result.outcome == "pass":
        return _page([f"Nothing to mend: {result.id} passes ({result.title})."])
    if result:
        return _page([f"Nothing to mend: {result.id} gave no finding ({result.reason or result.outcome})."])
    if report.judged:
        return _page(["Nothing to mend: no check found a fault."])
    return _page(["Nothing to mend was found, but nothing showed that TensorFlow uses a GPU either."])


def describe_applied(plan: Plan, applied: Applied) -> str:
    """How it went."""
    return _page(_applied_lines(plan, applied))


def _applied_lines(plan: Plan, applied: Applied) -> Iterator[str]:
    if not applied.mended:
        yield f"Not mended: {applied.why}. Everything is undone: the environment is as it was."
        return
    yield f"Mended: {plan.cause.id} passes now. {_UNDO}."
    if applied.kept_bytes >= _WORTH_SAYING_BYTES:
        yield (
            f"For that {applied.kept_bytes >> 20} MiB are kept in {plan.prefix}/{RECORD}; remove that folder to give it up."
        )
    for cause in applied.report.causes if applied.report else ():
        yield f"Still to mend: {cause.id}  {cause.title}"


def describe_undone(undone: Undone | None, prefix: str) -> str:
    """What was taken back."""
    if undone is None:
        return _page([f"Nothing to undo: no fix is recorded in {prefix}."])
    if undone.journal is None:
        return _page([f"Undone: what was left of an interrupted fix is gone, and {prefix} is as it was before it."])
    paths = "1 path" if undone.paths == 1 else f"{undone.paths} paths"
    line = f"Undone: {undone.journal.id}, the fix of {undone.journal.started} ({paths} in {prefix})."
    return _page([line, *(f"{folder} stays: others put files there." for folder in undone.left)])


def _page(lines: Iterator[str] | list[str]) -> str:
    return "".join(clean(line) + "\n" for line in lines)
