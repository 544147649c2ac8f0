"""Undo the changes of a fix; refuse if another program has changed the same files since."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from tfgpu_doctor.fix.archive import Archive
from tfgpu_doctor.fix.bounds import Bounds, NotPossible
from tfgpu_doctor.fix.failures import Failures, not_restored
from tfgpu_doctor.fix.foreign import refuse_foreign_changes, refuse_later_changes, remove_orphans
from tfgpu_doctor.fix.record import Change, Journal, Record
from tfgpu_doctor.fix.snapshot import compare
from tfgpu_doctor.host.changes import Changes
from tfgpu_doctor.host.entries import Entry, look

_OPEN = stat.S_IRWXU  # the mode of a folder in which its owner may change everything


@dataclass(frozen=True)
class Undone:
    """What was undone: the fix, the number of paths, and the folders that are kept because others put files there.

    Without a journal, the fix was interrupted before it changed anything, or an undo was interrupted at its very end;
    `was_empty`: there was a record without anything in it.
    """

    journal: Journal | None = None
    paths: int = 0
    left: tuple[str, ...] = ()
    was_empty: bool = False


def undo_newest(archive: Archive, *, force: bool = False) -> Undone | None:
    """Undo the newest fix, including an interrupted one; return None if there is no fix.

    `force` undoes an interrupted fix even if files were changed after it. Raises NotPossible and Unreadable.
    """
    if archive.cleared:
        return Undone(was_empty=archive.was_empty)
    records = archive.records()
    if not records:
        return None
    journal = records[-1].read() or _journal_of_manifest(records[-1], archive.bounds)
    if journal.phase == "applied":
        refuse_foreign_changes(journal.changes, archive.bounds.prefix, records[-1].folder)
    return undo(archive, records[-1], journal, force=force)


def lost_journal(record: Record) -> NotPossible:
    """Return the error of a fix whose journal is gone."""
    return NotPossible(
        f"{record.folder} has no journal.json any more: what that fix changed is not known, and nothing can be undone. "
        "Recreate the environment; only then remove that folder"
    )


def _journal_of_manifest(record: Record, bounds: Bounds) -> Journal:
    """Return what stands for a lost journal if all contents before the fix are recorded. Raises NotPossible."""
    if not record.has_manifest:
        raise lost_journal(record)
    places, left_out = bounds.names(bounds.places), bounds.names(bounds.left_out)
    return Journal("", "", "", (), "", "", "applying", places=places, left_out=left_out, aliases=bounds.aliases)


def undo(archive: Archive, record: Record, journal: Journal, *, force: bool = True) -> Undone:
    """Undo what a fix changed, whatever its phase, and remove its record. Raises NotRestored if a part remains."""
    prefix = archive.bounds.prefix
    changes = journal.changes
    if journal.phase == "applying" and journal.places:
        changes = tuple(compare(record.read_manifest(), prefix, journal, record.kept))
        if not force:
            refuse_later_changes(changes, record.last_beat_ns(), prefix)
    failures = Failures()
    _open_folders(changes, archive.changes, prefix)
    left = _remove_added(changes, archive.changes, prefix, failures)
    replaced = [change for change in changes if change.before]
    if replaced:
        if journal.phase != "undoing":
            journal = _begin_undoing(record, journal, changes)
        left += _put_back_all(replaced, record, archive.changes, prefix, failures)
    failures.tell()
    record.dispose()
    return Undone(journal, len(changes), tuple(left))


def _open_folders(changes: Sequence[Change], door: Changes, prefix: str) -> None:
    """Let this user write to the folders of the fix: it may have come to be read-only, or an undo that was interrupted did."""
    for change in sorted(changes, key=lambda each: each.path):
        path = os.path.join(prefix, change.path)
        try:
            now = look(path)
            if now and now.kind == "folder" and now.mode & _OPEN != _OPEN:
                door.set_mode(path, now.mode | _OPEN)
        except OSError:
            pass  # another user's: what cannot be done in it is reported


def _remove_added(changes: Sequence[Change], door: Changes, prefix: str, failures: Failures) -> list[str]:
    """Remove what was added, and return the folders that stay. Every phase allows it, and can be resumed after it.

    It comes before any write: the fix may have filled the disk.
    """
    remove_orphans(changes, door, prefix)
    return _remove([change for change in changes if not change.before], door, prefix, failures)


def _begin_undoing(record: Record, journal: Journal, changes: tuple[Change, ...]) -> Journal:
    try:
        return record.write(msgspec.structs.replace(journal, phase="undoing", changes=changes))
    except OSError as error:
        raise not_restored(record.folder, error, "cannot be written") from error


def _put_back_all(
    changes: Sequence[Change], record: Record, door: Changes, prefix: str, failures: Failures
) -> list[str]:
    """Restore what was removed or changed, and return the folders in its place that stay. Can be restarted.

    The modes of folders come last: nothing can be put into one that is read-only.
    """
    left = _remove(changes, door, prefix, failures)
    ordered = sorted(changes, key=lambda each: each.path)
    for change in ordered:
        path = os.path.join(prefix, change.path)
        with failures.collected(path):
            _put_back(change, path, record, door)
    for change in reversed(ordered):
        path = os.path.join(prefix, change.path)
        with failures.collected(path):
            _set_mode_of_folder(change, path, door)
    return left


def _remove(changes: Sequence[Change], door: Changes, prefix: str, failures: Failures) -> list[str]:
    """Remove what the fix put there, deepest first, and return the folders that are not empty."""
    left = []
    for change in sorted(changes, key=lambda each: each.path, reverse=True):
        path = os.path.join(prefix, change.path)
        with failures.collected(path):
            now = look(path)
            if now and _must_go(change, now) and not door.remove(path, now):
                left.append(path)
    return left


def _must_go(change: Change, now: Entry) -> bool:
    """Whether the entry comes from the fix, and no entry of that kind was there before."""
    if not change.after or now.kind != change.after.kind or now.target != change.after.target:
        return False
    return change.before is None or change.before.kind != now.kind


def _put_back(change: Change, path: str, record: Record, door: Changes) -> None:
    before, now = change.before, look(path)
    if before is None or (now and before.is_as(now) and before.inode == now.inode):
        return
    if before.kind == "link":
        door.make_link(path, before.target, replace=True)
        return
    if before.kind == "folder":
        door.make_folder(path)
        return
    if before.kind == "file" and not (now and now.inode == before.inode and before.has_content_of(now)):
        door.put_back(os.path.join(record.kept, change.kept), path)
    door.set_mode(path, before.mode)


def _set_mode_of_folder(change: Change, path: str, door: Changes) -> None:
    before, now = change.before, look(path)
    if before and now and before.kind == now.kind == "folder":
        door.set_mode(path, before.mode)
