"""The contents of an environment, saved before pip changes it, and the difference afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from tfgpu_doctor.fix.bounds import Bounds
from tfgpu_doctor.fix.installed import is_of_installers, of_fix
from tfgpu_doctor.fix.record import Change, Journal, Manifest, Record
from tfgpu_doctor.host.changes import Changes
from tfgpu_doctor.host.entries import Entry, digest, walk


def keep_everything(bounds: Bounds, record: Record, changes: Changes) -> Manifest:
    """Keep every file of the places in the record, where possible as a hard link, which takes no space."""
    entries: dict[str, Entry] = {}
    kept: dict[str, str] = {}
    copied: list[str] = []
    for path, entry in _walk(bounds.places, bounds.left_out):
        name = os.path.relpath(path, bounds.prefix)
        entries[name] = entry
        if entry.kind == "file":
            kept[name] = str(len(kept))
            if not changes.keep(path, os.path.join(record.kept, kept[name])):
                copied.append(name)
    return Manifest(entries, kept, tuple(copied))


def compare(manifest: Manifest, prefix: str, journal: Journal, kept: str) -> list[Change]:
    """Return what the steps of a fix changed: the differences to the contents saved in the folder `kept` that are theirs.

    A file that was rewritten in place is left out, unless it was kept as a copy: its hard link was rewritten with it.
    pip replaces files; a program that writes to an existing file is the user's, and continues to write to it.
    """
    copied = set(manifest.copied)
    places, left_out = ([_place(name, prefix) for name in names] for names in (journal.places, journal.left_out))
    now = {os.path.relpath(path, prefix): entry for path, entry in _walk(places, left_out)}
    found = []
    for path in sorted(manifest.entries.keys() | now.keys()):
        before, after = manifest.entries.get(path), now.get(path)
        if before and after and _is_untouched(before, after, path in copied):
            continue
        found.append(Change(path, before, after, manifest.kept.get(path, "")))
    if not any(map(is_of_installers, manifest.entries)):
        return found  # a layout in which nobody knows where installers write
    return of_fix(found, prefix, kept, {change.path for change in journal.changes})


def fingerprinted(changes: Iterable[Change], prefix: str) -> tuple[Change, ...]:
    """Return the changes, with the fingerprint of the content for each file that exists after the fix."""
    return tuple(
        msgspec.structs.replace(change, digest=digest(os.path.join(prefix, change.path)))
        if change.after and change.after.kind == "file"
        else change
        for change in changes
    )


def _is_untouched(before: Entry, after: Entry, was_copied: bool) -> bool:
    if before.kind == after.kind == "file" and before.inode == after.inode and not was_copied:
        return before.mode == after.mode
    return before.is_as(after) and (before.inode == after.inode or was_copied)


def _place(name: str, prefix: str) -> str:
    return os.path.normpath(os.path.join(prefix, name))


def _walk(places: Sequence[str], left_out: Sequence[str]) -> Iterator[tuple[str, Entry]]:
    for place in places:
        yield from walk(place, left_out)
