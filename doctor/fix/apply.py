"""Apply a plan: record, change, check again; a fix that does not help is undone."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from tfgpu_doctor._project import __version__
from tfgpu_doctor.cli.interrupts import Undisturbed, finish
from tfgpu_doctor.fix.archive import Archive, open_archive
from tfgpu_doctor.fix.bounds import Bounds, NotPossible, NotRestored
from tfgpu_doctor.fix.failures import not_restored
from tfgpu_doctor.fix.installer import StepFailed
from tfgpu_doctor.fix.links import LinkStep
from tfgpu_doctor.fix.plan import PipStep, Plan
from tfgpu_doctor.fix.record import Change, Journal, Manifest, Record, Unreadable
from tfgpu_doctor.fix.snapshot import compare, fingerprinted, keep_everything
from tfgpu_doctor.fix.undo import lost_journal, undo
from tfgpu_doctor.host.entries import Entry, look
from tfgpu_doctor.model import UNDETERMINED
from tfgpu_doctor.model.report import Outcome, Report, RootCause

LookAgain = Callable[[], Report]
RunPip = Callable[
    [PipStep, int, Callable[[], None]], None
]  # the step, the lock to hold, the function to call every second

# What a check finds later may have been there before, if it came out so.
_NOT_KNOWN: tuple[Outcome, ...] = ("blocked", "skip", "crash")


@dataclass(frozen=True)
class Applied:
    """The result: the report of the second check if it ran, and the reason if the steps were undone.

    `new` are the errors that the first check did not find, `kept_bytes` is the size of the fix's record.
    """

    repaired: bool
    report: Report | None = None
    why: str = ""
    new: tuple[RootCause, ...] = ()
    kept_bytes: int = 0


def apply_plan(
    plan: Plan, bounds: Bounds, *, run_pip: RunPip, look_again: LookAgain, say: Callable[[str], None],
    first: Report | None = None,
) -> Applied:  # fmt: skip
    """Carry out the steps of a plan, and keep the changes only if the finding is gone.

    `first` is the report with the finding, and `say` receives progress messages. Raises NotPossible and Unreadable if
    nothing was changed, OSError if the disk fails, NotRestored if the changes could not be undone, whatever ended the
    fix. Ctrl-C undoes everything; a second Ctrl-C leaves that to `undo_newest`.
    """
    with open_archive(bounds) as archive:
        _refuse_unfinished(archive)
        _refuse_occupied(plan)
        record, kept = None, False
        journal = _journal(plan)
        try:
            with Undisturbed():
                record = archive.begin()
            journal = _carry_out(plan, archive, record, journal, run_pip, say)
            say("checking again")
            report = look_again()
            if is_gone(plan, report):
                with Undisturbed():
                    record.write(msgspec.structs.replace(journal, repaired=True))
                    kept = finish()  # an interrupt that came before takes the fix back
                new = find_new(first, report) if first else ()
                return Applied(True, report, new=new, kept_bytes=journal.kept_bytes)
            return Applied(False, report, _why_not(plan, report))
        except StepFailed as error:
            return Applied(False, None, str(error))
        finally:
            if record and not kept:
                _take_back(archive, record)


def is_gone(plan: Plan, report: Report) -> bool:
    """Whether the failed check now passes, and no other check reports that cause. A skipped check does not pass."""
    result = report.find(plan.cause.id)
    labels = {cause.label for cause in report.causes}
    return result is not None and result.outcome == "pass" and plan.cause.label not in labels


def find_new(first: Report, report: Report) -> tuple[RootCause, ...]:
    """Return the errors that the fix may have caused: those of checks that found something else before, or nothing."""
    known = {_key(finding.cause, result.id) for result in first.results for finding in result.findings}
    judged = {result.id for result in first.results if result.outcome not in _NOT_KNOWN}
    return tuple(
        cause
        for cause in report.causes
        if cause.severity == "error" and _key(cause.label, cause.id) not in known and cause.id in judged
    )


def _key(label: str, id: str) -> tuple[str, str]:
    """Return what identifies a cause: its label, or its check where nothing else is known of it."""
    return label, id if label == UNDETERMINED else ""


def _why_not(plan: Plan, report: Report) -> str:
    """Return what the second check says about the finding."""
    found = next((cause for cause in report.causes if cause.label == plan.cause.label), None)
    if found:
        return f"{found.id} is still there ({found.title})"
    result = report.find(plan.cause.id)
    how = (result.reason or result.outcome) if result else "it was not checked"
    return f"{plan.cause.id} did not pass ({how})"


def _carry_out(
    plan: Plan, archive: Archive, record: Record, journal: Journal, run_pip: RunPip, say: Callable[[str], None]
) -> Journal:
    """Carry out every step, and record what changed."""
    prefix = archive.bounds.prefix
    journal, manifest = _prepare(plan, archive, record, journal, say)
    for step in plan.steps:
        say(step.text)
        if isinstance(step, PipStep):
            run_pip(step, archive.lock.descriptor, record.beat)
        else:
            archive.changes.make_link(step.path, step.target)
    changes = journal.changes
    if manifest:
        changes = fingerprinted(compare(manifest, prefix, journal, record.kept), prefix)
    journal = record.write(msgspec.structs.replace(journal, phase="applied", changes=changes))
    record.prune(changes)
    return journal


def _prepare(
    plan: Plan, archive: Archive, record: Record, journal: Journal, say: Callable[[str], None]
) -> tuple[Journal, Manifest | None]:
    """Make every step undoable: before pip steps, keep all files; the changes of link steps are known in advance."""
    bounds = archive.bounds
    record.write(journal)
    record.open_kept()
    manifest = None
    journal = msgspec.structs.replace(journal, changes=_links(plan, bounds))
    if plan.pip_steps:
        say(f"saving the contents of {bounds.prefix}")
        manifest = keep_everything(bounds, record, archive.changes)
        record.write_manifest(manifest)
        places, left_out = bounds.names(bounds.places), bounds.names(bounds.left_out)
        journal = msgspec.structs.replace(journal, places=places, left_out=left_out, aliases=bounds.aliases)
    return record.write(msgspec.structs.replace(journal, phase="applying")), manifest


def _links(plan: Plan, bounds: Bounds) -> tuple[Change, ...]:
    """Return what the link steps will change."""
    links = [step for step in plan.steps if isinstance(step, LinkStep)]
    return tuple(Change(bounds.name(step.path), after=Entry("link", 0, target=step.target)) for step in links)


def _take_back(archive: Archive, record: Record) -> None:
    journal = record.read()
    if journal is None and not record.is_empty:
        return  # somebody removed it: `undo_newest` says what can be done
    if journal is None or journal.phase == "preparing":
        record.dispose()
        return
    try:
        undo(archive, record, journal)
    except OSError as error:
        raise not_restored(error.filename or record.folder, error, "cannot be read or written") from error
    except Unreadable as error:
        raise NotRestored(f"{error}. The environment is not restored: it is as the fix left it") from error


def _journal(plan: Plan) -> Journal:
    return Journal(
        id=plan.cause.id,
        label=plan.cause.label,
        title=plan.cause.title,
        steps=tuple(step.text for step in plan.steps),
        started=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        doctor=__version__,
        phase="preparing",
    )


def _refuse_unfinished(archive: Archive) -> None:
    for record in archive.records():
        journal = record.read()
        if journal is None:
            raise lost_journal(record)
        if not journal.repaired:
            raise NotPossible(
                f"the fix of {journal.started} was interrupted ({journal.id}): undo it first with `tfgpu-doctor fix --undo`"
            )


def _refuse_occupied(plan: Plan) -> None:
    for step in plan.steps:
        if isinstance(step, LinkStep) and look(step.path):
            raise NotPossible(f"{step.path} already exists and was not created by the doctor: nothing was changed")
