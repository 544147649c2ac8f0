"""The record of a fix: a journal written ahead of every change, so that a fix interrupted at any moment can be undone.

It has these phases, each written to disk before it begins:
  preparing   the contents of the environment are being saved; nothing is changed yet
  applying    the environment may be changed in any way
  applied     every single change is known
  undoing     what was removed or changed is being restored; this can be restarted any number of times
Undoing removes what the fix added before that phase, as it needs the space: the earlier phases allow for that.
A record whose folder is renamed to gone-* is finished, and is removed at the next opportunity.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any, Literal, TypeVar

import msgspec

from tfgpu_doctor.host.changes import Changes
from tfgpu_doctor.host.entries import Entry, look, modified_ns
from tfgpu_doctor.host.files import Files
from tfgpu_doctor.host.json_text import read_json

SCHEMA = 1
_JOURNAL = "journal.json"
_MANIFEST = "manifest.json"
_PULSE = "pulse"
GONE = "gone-"
_MOST_BYTES = 1 << 30

Phase = Literal["preparing", "applying", "applied", "undoing"]


class Change(msgspec.Struct, frozen=True):
    """The entry at a path before and after a fix, None for no entry.

    `path` is relative to the environment's prefix. `kept` names the file of the record with the content before the
    fix; `digest` is the fingerprint of the content after it.
    """

    path: str
    before: Entry | None = None
    after: Entry | None = None
    kept: str = ""
    digest: str = ""


class Journal(msgspec.Struct, frozen=True):
    """The cause that a fix is for, its phase, and what it changed.

    `places` and `left_out` are relative to the environment's prefix, and empty where no pip runs; so are `aliases`, which
    are those of the bounds.
    """

    id: str
    label: str
    title: str
    steps: tuple[str, ...]
    started: str  # UTC, ISO 8601
    doctor: str
    phase: Phase
    places: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    aliases: dict[str, str] = {}
    changes: tuple[Change, ...] = ()
    repaired: bool = msgspec.field(default=False, name="mended")
    schema: int = SCHEMA

    @property
    def kept_bytes(self) -> int:
        """The total size of the replaced or removed files in the record."""
        return sum(change.before.size_bytes for change in self.changes if change.before and change.kept)


class Manifest(msgspec.Struct, frozen=True):
    """All entries in the places before the fix, and for each file the name under which the record keeps it."""

    entries: dict[str, Entry]
    kept: dict[str, str]
    copied: tuple[str, ...] = ()  # paths of the files kept as copies; the others are hard links


_Document = TypeVar("_Document", Journal, Manifest)


class Unreadable(Exception):
    """A record that cannot be understood; the message says why."""


class Record:
    """One record in its folder."""

    def __init__(self, folder: str, changes: Changes) -> None:
        self.folder = folder
        self.kept = os.path.join(folder, "kept")
        self._changes = changes

    @property
    def is_empty(self) -> bool:
        """Whether nothing is recorded: the journal is written before anything else."""
        return not any(look(path) for path in (self.kept, *map(self._path, (_JOURNAL, _MANIFEST, _PULSE))))

    @property
    def has_manifest(self) -> bool:
        """Whether the contents of the environment before the fix are recorded."""
        return look(self._path(_MANIFEST)) is not None

    def write(self, journal: Journal) -> Journal:
        """Write the journal to disk, and return it."""
        self._changes.write(self._path(_JOURNAL), _encode(journal))
        return journal

    def read(self) -> Journal | None:
        """Return the journal, None if it was not yet written, or is lost. Raises Unreadable."""
        found = self._read(_JOURNAL)
        if found is None:
            return None
        schema = found.get("schema", 0) if isinstance(found, dict) else 0
        if isinstance(schema, (int, float)) and schema > SCHEMA:
            raise Unreadable(f"{self.folder} was written by a newer tfgpu-doctor: undo it with that version")
        return self._convert(found, Journal)

    def open_kept(self) -> None:
        """Create the folder of the kept files; where it is, there was a journal."""
        self._changes.make_folder(self.kept)

    def write_manifest(self, manifest: Manifest) -> None:
        """Write the contents of the environment to disk."""
        self._changes.write(self._path(_MANIFEST), _encode(manifest))
        self._changes.write(self._path(_PULSE), b"")

    def read_manifest(self) -> Manifest:
        """Return the recorded contents of the environment. Raises Unreadable."""
        return self._convert(self._read(_MANIFEST), Manifest)

    def beat(self) -> None:
        """Record that the fix is still running."""
        self._changes.touch(self._path(_PULSE))

    def last_beat_ns(self) -> int:
        """Return the time when the fix was last known to run (ns)."""
        return modified_ns(self._path(_PULSE if look(self._path(_PULSE)) else _MANIFEST))

    def prune(self, changes: Iterable[Change]) -> None:
        """Keep only what is needed once the changes are known: the previous content of the changed files."""
        for name in (_MANIFEST, _PULSE):
            self._changes.forget(self._path(name))
        needed = {change.kept for change in changes if change.kept}
        for name in set(Files().names_if_any(self.kept)) - needed:
            self._changes.forget(os.path.join(self.kept, name))

    def dispose(self) -> None:
        """Remove the record. If this is interrupted, the record still counts as removed."""
        gone = os.path.join(os.path.dirname(self.folder), GONE + os.path.basename(self.folder))
        self._changes.rename(self.folder, gone)
        self._changes.discard(gone)

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def _read(self, name: str) -> Any:
        try:
            return read_json(Files().read_bytes(self._path(name), _MOST_BYTES))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise Unreadable(f"{self._path(name)} cannot be read: {error}") from error

    def _convert(self, found: Any, kind: type[_Document]) -> _Document:
        try:
            return msgspec.convert(found, kind)
        except msgspec.ValidationError as error:
            raise Unreadable(f"{self.folder} is not a record of a fix: {error}") from error


def _encode(document: Journal | Manifest) -> bytes:
    # File names can contain bytes that are not UTF-8; the standard library's JSON keeps them, msgspec's does not.
    return json.dumps(msgspec.to_builtins(document)).encode()
