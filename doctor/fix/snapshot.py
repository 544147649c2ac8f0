"""The contents of an environment, saved before pip changes it, and the difference afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from tfgpu_doctor.fix.bounds import Bounds, NotPossible
from tfgpu_doctor.fix.installed import as_named, is_of_installers, of_fix
from tfgpu_doctor.fix.record import Change, Journal, Manifest, Record
from tfgpu_doctor.host.changes import Changes
from tfgpu_doctor.host.entries import Entry, digest, walk
from tfgpu_doctor.host.files import Files

# The folders below the prefix, and their parents outside of it, in which pip puts files: another device there is part of
# the environment, and any other, such as a data set's in the folder of a project, is the user's.
_OF_PIP = ("..", "bin", "etc", "include", "lib", "lib64", "local", "man", "share")


def keep_everything(bounds: Bounds, record: Record, changes: Changes) -> Manifest:
    """Keep every file of the places in the record, where possible as a hard link, which takes no space.

    Raises NotPossible if there is no space for the copies of the others.
    """
    entries: dict[str, Entry] = {}
    kept: dict[str, str] = {}
    copied: list[str] = []
    for path, entry in _walk(bounds.places, bounds.left_out, bounds.prefix, bounds.aliases):
        name = os.path.relpath(path, bounds.prefix)
        entries[name] = entry
        if entry.kind == "file":
            kept[name] = str(len(kept))
            if not changes.keep(path, os.path.join(record.kept, kept[name])):
                copied.append(name)
    _refuse_without_space(sum(entries[name].size_bytes for name in copied), bounds, record)
    for name in copied:
        try:
            changes.copy(_place(name, bounds.prefix), os.path.join(record.kept, kept[name]))
        except FileNotFoundError:  # somebody removed it in the meantime
            del entries[name], kept[name]
    return Manifest(entries, kept, tuple(copied))


def _refuse_without_space(needed_bytes: int, bounds: Bounds, record: Record) -> None:
    free_bytes = Files().folder_free_bytes(record.kept)
    if needed_bytes > free_bytes:
        raise NotPossible(
            f"to undo the fix later, {_mib(needed_bytes)} of {bounds.prefix} must be copied, because hard links to those files "
            f"are not possible, and {bounds.record} has {_mib(free_bytes)} free: nothing was changed. Free space, or run the "
            "commands yourself"
        )


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 20):,.1f} MiB"


def compare(manifest: Manifest, prefix: str, journal: Journal, kept: str) -> list[Change]:
    """Return what the steps of a fix changed: the differences to the contents saved in the folder `kept` that are theirs.

    A file that was rewritten in place is left out, unless it was kept as a copy: its hard link was rewritten with it.
    pip replaces files; a program that writes to an existing file is the user's, and continues to write to it.
    """
    copied = set(manifest.copied)
    places, left_out = ([_place(name, prefix) for name in names] for names in (journal.places, journal.left_out))
    now = {os.path.relpath(path, prefix): entry for path, entry in _walk(places, left_out, prefix, journal.aliases)}
    found = []
    for path in sorted(manifest.entries.keys() | now.keys()):
        before, after = manifest.entries.get(path), now.get(path)
        if before and after and _is_untouched(before, after, path in copied):
            continue
        found.append(Change(path, before, after, manifest.kept.get(path, "")))
    if not any(is_of_installers(as_named(name, journal.aliases)) for name in manifest.entries):
        return found  # a layout in which nobody knows where installers write
    return of_fix(found, prefix, kept, {change.path for change in journal.changes}, journal.aliases)


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


def _walk(
    places: Sequence[str], left_out: Sequence[str], prefix: str, aliases: Mapping[str, str]
) -> Iterator[tuple[str, Entry]]:
    def enters(path: str) -> bool:
        name = os.path.relpath(path, prefix)
        leads_there = any(real.startswith(os.path.join(name, "")) for real in aliases)
        return leads_there or as_named(name, aliases).split(os.sep)[0] in _OF_PIP

    for place in places:
        yield from walk(place, left_out, enters=enters)
