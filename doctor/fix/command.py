"""`tfgpu-doctor fix`: plan, apply, or undo a repair."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from tfgpu_doctor.cli.configuration import Configuration, ConfigurationError, read_configuration
from tfgpu_doctor.cli.finite import FiniteRange
from tfgpu_doctor.cli.output import WRONG_USAGE, deliver, note, refuse
from tfgpu_doctor.collect.examination import find_python
from tfgpu_doctor.model.plain_text import one_line

if TYPE_CHECKING:
    from tfgpu_doctor.fix.plan import Plan
    from tfgpu_doctor.model.report import Report
    from tfgpu_doctor.rehearse import Look

_NOT_DONE, _NOT_JUDGED, _NOT_RESTORED = 1, 3, 3


@click.command()
@click.argument("id_", metavar="[ID]", required=False)
@click.option(
    "--apply", "apply_", is_flag=True, help="Carry out the steps inside the target environment, then check again."
)
@click.option("--undo", "undo_", is_flag=True, help="Restore the environment as it was before the last fix.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--python", metavar="PATH", help="The Python to fix: an interpreter, or a virtual environment's folder.")
@click.option(
    "--deadline", type=FiniteRange(min=1), metavar="SECONDS",
    help="The time limit for TensorFlow, and an upper limit for every other part.  [default: 120]",
)  # fmt: skip
def fix(*, id_: str | None, apply_: bool, undo_: bool, yes: bool, python: str | None, deadline: float | None) -> int:
    """Show how to fix the first cause, or the finding of the check ID; with --apply, fix it.

    Only the target environment is changed. Steps that need root or change the machine are only printed. If the finding
    is not gone after the fix, the fix is undone at once; --undo undoes it later. (pip keeps its own download cache.)

    Exit codes: 0 nothing to fix, or fixed, or undone; 1 something to fix that was not fixed (always without --apply), or
    an error that is new since the fix; 2 wrong usage; 3 nothing could be judged, the doctor itself failed, or could not
    fully restore the environment; 130 interrupted.
    """
    from tfgpu_doctor.fix.bounds import NoPython, NotPossible, NotRestored
    from tfgpu_doctor.fix.page import addressed
    from tfgpu_doctor.fix.record import Unreadable

    if undo_ and (apply_ or id_):
        refuse("--undo undoes the last fix: it cannot be combined with --apply or an ID")
    try:
        configuration = read_configuration().with_options(python=python, deadline=deadline)
    except ConfigurationError as error:
        refuse(str(error))
    try:
        return _undo(configuration, yes, python) if undo_ else _mend(configuration, id_, apply_, yes, python)
    except (NotPossible, Unreadable, OSError) as error:
        note(f"error: {addressed(_why(error), python)}")
        if isinstance(error, NotRestored):
            return _NOT_RESTORED
        return WRONG_USAGE if isinstance(error, NoPython) else _NOT_DONE


def _mend(configuration: Configuration, id_: str | None, apply_: bool, yes: bool, python: str | None) -> int:
    from tfgpu_doctor.fix.bounds import NotPossible
    from tfgpu_doctor.fix.choice import UnknownFinding, choose
    from tfgpu_doctor.fix.page import addressed, describe_nothing, describe_plan
    from tfgpu_doctor.fix.plan import plan_repair
    from tfgpu_doctor.rehearse import choose_look

    try:
        look = choose_look(configuration)
        if look.rehearses:
            note("no NVIDIA GPU works here: a rehearsal examines the environment as on a machine with a GPU")
        report = look.again()
    except (NotPossible, OSError) as error:
        note(f"error: {_why(error)}")
        return _NOT_JUDGED
    try:
        cause = choose(report, id_)
    except UnknownFinding as error:
        refuse(str(error))
    if cause is None:
        deliver(describe_nothing(report, id_), None)
        named = report.find(id_.upper()) if id_ else None
        return report.exit_code() if named is None else 0 if named.outcome == "pass" else _NOT_JUDGED
    if id_ and id_ != cause.label and id_.upper() != cause.id:
        note(f"{id_.upper()} is explained by {cause.id}, which comes first")
    plan = plan_repair(cause, look.facts)
    deliver(addressed(describe_plan(plan, applied=apply_), python), None)
    return _apply(plan, look, report, configuration, yes, python) if apply_ else _NOT_DONE


def _apply(plan: Plan, look: Look, report: Report, configuration: Configuration, yes: bool, python: str | None) -> int:
    from tfgpu_doctor.fix.apply import apply_plan
    from tfgpu_doctor.fix.archive import is_unfinished
    from tfgpu_doctor.fix.bounds import NotPossible, check_bounds, find_bounds
    from tfgpu_doctor.fix.installer import refuse_redirection, run_pip
    from tfgpu_doctor.fix.page import addressed, describe_applied
    from tfgpu_doctor.host import Host

    host = Host()
    bounds = find_bounds(host, find_python(configuration.python))
    check_bounds(bounds, plan, look.facts.target)
    if not plan.steps:
        raise NotPossible(f"the doctor carries out none of these steps in {bounds.prefix}: run them yourself")
    for step in plan.pip_steps[:1]:
        refuse_redirection(host, step)
    _ask(f"Change {bounds.prefix}?", yes)
    try:
        applied = apply_plan(
            plan, bounds, look_again=look.again, say=note, first=report,
            run_pip=lambda step, lock, beat: run_pip(step, host, folder=bounds.prefix, lock=lock, on_tick=beat),
        )  # fmt: skip
    except KeyboardInterrupt:
        left = "`tfgpu-doctor fix --undo` undoes the changes" if is_unfinished(bounds) else "everything is undone"
        note(f"interrupted: {addressed(left, python)}")
        raise
    deliver(addressed(describe_applied(plan, applied), python), None)
    return 0 if applied.repaired and not applied.new else _NOT_DONE


def _undo(configuration: Configuration, yes: bool, python: str | None) -> int:
    from tfgpu_doctor.fix.archive import has_records, open_archive
    from tfgpu_doctor.fix.bounds import find_bounds, refuse_root
    from tfgpu_doctor.fix.page import addressed, describe_undone
    from tfgpu_doctor.fix.undo import undo_newest
    from tfgpu_doctor.host import Host

    bounds = find_bounds(Host(), find_python(configuration.python))
    undone = None
    if has_records(bounds):
        refuse_root(bounds.record)
        with open_archive(bounds) as archive:
            try:
                undone = undo_newest(archive, force=yes)
            except KeyboardInterrupt:
                note(addressed("interrupted: rerun `tfgpu-doctor fix --undo` to resume", python))
                raise
    deliver(describe_undone(undone, bounds.prefix), None)
    return 0


def _why(error: Exception) -> str:
    """Return what an error says; of the system's errors, the file too."""
    return f"{error.filename or 'the disk'}: {error.strerror or error}" if isinstance(error, OSError) else str(error)


def _ask(question: str, yes: bool) -> None:
    """Continue only with the user's consent. Ends the command without it."""
    if yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        refuse("there is no terminal to ask for confirmation: add --yes to change the environment without a question")
    if not click.confirm(one_line(question), err=True):
        note("nothing was changed")
        raise SystemExit(_NOT_DONE)
