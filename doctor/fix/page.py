"""Describe a repair: the plan, the result, and what was undone."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from tfgpu_doctor.fix.apply import Applied
from tfgpu_doctor.fix.bounds import RECORD
from tfgpu_doctor.fix.plan import Plan
from tfgpu_doctor.fix.undo import Undone
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.plain_text import one_line
from tfgpu_doctor.model.report import Report

_UNDO = "To undo the fix, run `tfgpu-doctor fix --undo`"
_AGAIN = re.compile(r"`tfgpu-doctor fix --(?:apply|undo)(?=`)")
_WORTH_SAYING_BYTES = 100 << 20


def addressed(text: str, python: str | None) -> str:
    """Return the text with the option --python, where it was given, in the commands that apply or undo a fix."""
    option = "" if python is None else f" --python {one_line(shlex.quote(python))}"
    return _AGAIN.sub(lambda command: command[0] + option, text)


def describe_plan(plan: Plan, *, applied: bool) -> str:
    """Return the cause, the advice, the steps inside the environment, and the manual steps."""
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
        yield "To do by hand:"
        for printed in plan.by_hand:
            yield f"     {printed.text}"
    if not plan.steps and not plan.by_hand:
        yield ""
        yield "Carry this out yourself: none of it is inside the environment."


def describe_nothing(report: Report, name: str | None) -> str:
    """Return why there is nothing to fix."""
    result = report.find(name.upper()) if name else None
    if result and result.outcome == "pass":
        return _page([f"Nothing to fix: {result.id} passes ({result.title})."])
    if result:
        return _page([f"Nothing to fix: {result.id} has no finding ({result.reason or result.outcome})."])
    if report.judged:
        return _page(["Nothing to fix: no check found a fault."])
    return _page(["Found nothing to fix, but also no evidence that TensorFlow uses a GPU."])


def describe_applied(plan: Plan, applied: Applied) -> str:
    """Return the result of a fix."""
    return _page(_applied_lines(plan, applied))


def _applied_lines(plan: Plan, applied: Applied) -> Iterator[str]:
    if not applied.repaired:
        yield f"Not fixed: {applied.why}. All changes are undone: the environment is as it was before."
        return
    yield f"Fixed: {plan.cause.id} now passes. {_UNDO}."
    if applied.kept_bytes >= _WORTH_SAYING_BYTES:
        yield (
            f"The undo data takes {applied.kept_bytes >> 20} MiB in {plan.prefix}/{RECORD}; without that folder, no undo."
        )
    for cause in applied.report.causes if applied.report else ():
        yield f"{'New since the fix' if cause in applied.new else 'Still to fix'}: {cause.id}  {cause.title}"


def describe_undone(undone: Undone | None, prefix: str) -> str:
    """Return what was undone."""
    if undone is None:
        return _page([f"Nothing to undo: no fix is recorded in {prefix}."])
    if undone.journal is None and undone.was_empty:
        return _page(
            [
                "Nothing to undo: a fix ended before it recorded anything, which is before its first change; its empty record "
                "is removed."
            ]
        )
    if undone.journal is None:
        return _page(
            [f"Undone: the leftovers of an interrupted fix are removed, and {prefix} is as it was before the fix."]
        )
    paths = amount(undone.paths, "path")
    line = f"Undone: {undone.journal.id}, the fix of {undone.journal.started} ({paths} in {prefix})."
    if not undone.journal.id:
        line = f"Undone: a fix whose journal is lost, from the list of all files before it ({paths} in {prefix})."
    return _page(
        [line, *(f"{folder} is kept: it contains files that the fix did not create." for folder in undone.left)]
    )


def _page(lines: Iterator[str] | list[str]) -> str:
    return "".join(one_line(line) + "\n" for line in lines)
