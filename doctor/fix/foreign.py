"""Changes that other programs made to the environment after a fix: they are reported, never overwritten."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from tfgpu_doctor.fix.bounds import NotPossible
from tfgpu_doctor.fix.record import Change
from tfgpu_doctor.host.changes import Changes
from tfgpu_doctor.host.entries import changed_ns, digest, look
from tfgpu_doctor.host.files import Files

_AFTERGLOW_NS = 10 * 10**9  # after the doctor is killed, its pip ends long before that
_CACHE = "__pycache__"


def refuse_foreign_changes(changes: Iterable[Change], prefix: str, record: str) -> None:
    """Raise NotPossible if a file that the fix changed is no longer as the fix left it. `record` is the fix's folder."""
    foreign = [path for change in changes if _is_foreign(change, path := os.path.join(prefix, change.path))]
    if foreign:
        raise NotPossible(
            f"{foreign[0]}{_and_more(foreign)} changed after the fix: nothing was undone, because that change would be lost. "
            f"Restore the file, or keep the environment as it is: then delete {record}, which only this undo needs"
        )


def refuse_later_changes(changes: Iterable[Change], last_beat_ns: int, prefix: str) -> None:
    """Raise NotPossible if files were written long after the fix was interrupted, and so by another program."""
    until = last_beat_ns + _AFTERGLOW_NS
    paths = (os.path.join(prefix, change.path) for change in changes if change.after and change.after.kind != "folder")
    later = [path for path in paths if not _is_bytecode(path) and changed_ns(path) > until]
    if later:
        raise NotPossible(
            f"{later[0]}{_and_more(later)} changed after the fix was interrupted: nothing was undone, because that change "
            "would be lost. `--undo --yes` discards it"
        )


def remove_orphans(changes: Iterable[Change], door: Changes, prefix: str) -> None:
    """Remove bytecode that Python wrote later for modules that the fix added, where this user may: no program uses it."""
    known = {change.path for change in changes}
    for change in changes:
        folder, name = os.path.split(change.path)
        if change.before or not name.endswith(".py"):
            continue
        cache = os.path.join(prefix, folder, _CACHE)
        stem = name.removesuffix("py")
        for found in Files().names_if_any(cache):
            path = os.path.join(cache, found)
            if found.startswith(stem) and _is_bytecode(path) and os.path.relpath(path, prefix) not in known:
                _remove_if_allowed(door, path)
        door.discard_empty(cache)


def _remove_if_allowed(door: Changes, path: str) -> None:
    try:
        if entry := look(path):
            door.remove(path, entry)
    except OSError:
        pass  # another user's Python wrote it: its folder stays, which is reported


def _is_foreign(change: Change, path: str) -> bool:
    after, now = change.after, look(path)
    if _is_bytecode(path) or (now is None and change.before is None):
        return False  # rewritten at every import; or already removed, as undo would do
    if after is None:  # the fix removed it; restored files can go into a folder that others recreated
        return now is not None and not (change.before and change.before.kind == now.kind == "folder")
    if now is None or now.kind != after.kind or now.target != after.target:
        return True
    if now.kind != "file" or (now.inode == after.inode and now.has_content_of(after)):
        return False
    return now.size_bytes != after.size_bytes or digest(path) != change.digest


def _is_bytecode(path: str) -> bool:
    return path.endswith(".pyc") and os.path.basename(os.path.dirname(path)) == _CACHE


def _and_more(paths: Sequence[str]) -> str:
    return f" (and {len(paths) - 1} more)" if len(paths) > 1 else ""
