"""The records of one environment, newest last, under one lock: one fix at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from tfgpu_doctor.cli.interrupts import Undisturbed
from tfgpu_doctor.fix.bounds import Bounds, NotPossible
from tfgpu_doctor.fix.record import GONE, Record, Unreadable
from tfgpu_doctor.host.changes import Changes
from tfgpu_doctor.host.files import Files
from tfgpu_doctor.host.lock import Busy, Lock, Unsupported, acquire

_PATIENCE_S = 2.0  # after the doctor is killed, its pip ends within a fraction of this time
_LOCK = "lock"


class Archive:
    """The records, while this process holds the lock.

    `cleared` is true if leftovers of an interrupted fix or undo were removed that needed no further action; `was_empty`
    if there was a record in which nothing was recorded yet.
    """

    def __init__(self, bounds: Bounds, changes: Changes, lock: Lock) -> None:
        self.bounds, self.changes, self.lock = bounds, changes, lock
        self.was_empty = False
        self.cleared = self._sweep()

    def records(self) -> list[Record]:
        """Return all records, oldest first."""
        return [Record(os.path.join(self.bounds.record, name), self.changes) for name in _numbered(self.bounds)]

    def begin(self) -> Record:
        """Create a new, empty record."""
        numbers = [int(name) for name in _numbered(self.bounds)]
        record = Record(os.path.join(self.bounds.record, f"{max(numbers, default=0) + 1:04}"), self.changes)
        self.changes.make_folder(record.folder)
        return record

    def _sweep(self) -> bool:
        """Remove finished records, and those of fixes killed before they changed anything; return whether any existed."""
        rubbish = [name for name in Files().names_if_any(self.bounds.record) if name.startswith(GONE)]
        for name in rubbish:
            self.changes.discard(os.path.join(self.bounds.record, name))
        idle = False
        for record in self.records():
            journal = record.read()
            if journal is None and not record.is_empty:
                continue  # its journal is lost: what remains may be all that is known of the fix
            self.was_empty = self.was_empty or journal is None
            if journal is None or journal.phase == "preparing":
                record.dispose()
                idle = True
        return bool(rubbish or idle)


@contextmanager
def open_archive(bounds: Bounds) -> Iterator[Archive]:
    """Lock and return the records of an environment. Raises NotPossible if that fails."""
    archive = None
    try:
        with Undisturbed():
            archive = _opened(bounds)
        yield archive
    finally:
        if archive:
            with Undisturbed():
                archive.lock.release(remove=not _numbered(bounds))
                archive.changes.discard_empty(bounds.record)


def _opened(bounds: Bounds) -> Archive:
    changes = Changes([*bounds.places, bounds.record])
    try:
        changes.make_folder(bounds.record)
        lock = acquire(os.path.join(bounds.record, _LOCK), patience_s=_PATIENCE_S)
    except Busy:
        raise NotPossible(f"another fix of {bounds.prefix} is in progress: wait until it ends") from None
    except Unsupported as error:
        changes.discard_empty(bounds.record)
        raise NotPossible(f"fixes are not supported here: {error}") from None
    except OSError as error:
        raise NotPossible(f"{bounds.record} cannot be written: {error.strerror or error}") from None
    try:
        return Archive(bounds, changes, lock)
    except (Unreadable, OSError):
        lock.release(remove=not _numbered(bounds))
        raise


def has_records(bounds: Bounds) -> bool:
    """Whether there is anything to undo or to clean up; this changes nothing."""
    return Files().exists(bounds.record)


def is_unfinished(bounds: Bounds) -> bool:
    """Whether the newest fix was interrupted and not yet undone; does not take the lock."""
    names = _numbered(bounds)
    journal = Record(os.path.join(bounds.record, names[-1]), Changes([])).read() if names else None
    return bool(journal and not journal.repaired and journal.phase != "preparing")


def _numbered(bounds: Bounds) -> list[str]:
    return [name for name in Files().names_if_any(bounds.record) if name.isdecimal()]
