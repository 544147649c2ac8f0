"""The entries at paths of the target environment; links are examined, not followed."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Collection, Iterator
from typing import Literal

import msgspec

Kind = Literal["file", "link", "folder", "other"]
_CHUNK_BYTES = 1 << 20


class Entry(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """One file, symbolic link or folder: permission bits, size in bytes, and fields that show whether it was replaced."""

    kind: Kind
    mode: int
    size_bytes: int = 0
    mtime_ns: int = 0
    inode: int = 0
    target: str = ""  # of a link, unchanged

    def is_as(self, other: Entry) -> bool:
        """Whether both are the same to a user: mode and content of a file, target of a link."""
        if self.kind != other.kind or self.target != other.target:
            return False
        return self.kind == "link" or (self.mode == other.mode and self.has_content_of(other))

    def has_content_of(self, other: Entry) -> bool:
        """Whether size and time indicate that the content is the same."""
        return (self.size_bytes, self.mtime_ns) == (other.size_bytes, other.mtime_ns)


def look(path: str) -> Entry | None:
    """The entry at a path, None if there is none. Raises OSError if that cannot be determined."""
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    mode = stat.S_IMODE(found.st_mode)
    if stat.S_ISLNK(found.st_mode):
        return Entry("link", 0, target=os.readlink(path))
    if stat.S_ISDIR(found.st_mode):
        return Entry("folder", mode)
    if stat.S_ISREG(found.st_mode):
        return Entry("file", mode, found.st_size, found.st_mtime_ns, found.st_ino)
    return Entry("other", mode)


def walk(
    folder: str, leave_out: Collection[str] = (), *, enters: Callable[[str], bool] | None = None,
    device: int | None = None,
) -> Iterator[tuple[str, Entry]]:  # fmt: skip
    """A folder and its content, folders before their content. Raises OSError if one cannot be read.

    `enters` says for a folder on another device than the one around it, whose number `device` is, whether to go on in it.
    """
    top = look(folder)
    if top is None or folder in leave_out:
        return
    yield folder, top
    if top.kind != "folder":
        return
    try:
        here = os.lstat(folder).st_dev
        if enters and device not in (None, here) and not enters(folder):
            return
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return  # it disappeared in the meantime
    for name in names:
        yield from walk(os.path.join(folder, name), leave_out, enters=enters, device=here)


def links_to_folders(folder: str, depth: int) -> Iterator[str]:
    """The links to folders in a folder and, down to that depth, in those in it. What cannot be read is left out."""
    try:
        with os.scandir(folder) as listed:
            found = sorted((each for each in listed if os.path.isdir(each.path)), key=lambda each: each.name)
    except OSError:
        return
    for each in found:
        if each.is_symlink():
            yield each.path
        elif depth > 1:
            yield from links_to_folders(each.path, depth - 1)


def digest(path: str) -> str:
    """A fingerprint of a file's content. Raises OSError."""
    found = hashlib.blake2b(digest_size=16)
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            found.update(chunk)
    return found.hexdigest()


def changed_ns(path: str) -> int:
    """The last change of a file or link of any kind, including its ctime (ns). Raises OSError."""
    return os.lstat(path).st_ctime_ns


def modified_ns(path: str) -> int:
    """The time at which a file was last written (ns). Raises OSError."""
    return os.lstat(path).st_mtime_ns


def other_owner(path: str) -> str:
    """The user to whom a path belongs, as `sudo -u` takes it, if this is root and that is another; empty otherwise."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return ""
    import pwd  # there is none on Windows

    owner = os.lstat(path).st_uid
    if owner == 0:
        return ""
    try:
        return pwd.getpwuid(owner).pw_name
    except KeyError:
        return f"'#{owner}'"


def is_writable(folder: str) -> bool:
    """Whether this user may write to a folder; never true on a file system that is mounted read-only."""
    return os.access(folder, os.W_OK | os.X_OK)
