"""Files of a machine, read under a root folder and never outside it."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
import time
from collections import deque
from dataclasses import dataclass
from typing import BinaryIO

from tfgpu_doctor.host.open_streams import OpenStream, stream_of

_MOST_LINKS = 40  # the number that Linux follows before it returns ELOOP
_MOST_BYTES = 4 << 20
# Windows has no O_NONBLOCK, and needs O_BINARY.
_NEVER_WAIT = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
_READER_S, _AGAIN_S = 2.0, 0.02
_PIECE_BYTES = 64 << 10  # /proc/sys returns ENOMEM for a read of 4 MiB at once (fs/proc/proc_sysctl.c)


@dataclass(frozen=True)
class Status:
    """The result of `stat`: size in bytes, numbers of a device node, permission bits, time of the last change."""

    size_bytes: int
    mode: int
    uid: int
    gid: int
    major: int
    minor: int
    changed_s: float = 0.0  # of content, name, owner or permissions, since 1970: when it came to this file system

    @property
    def kind(self) -> str:
        """`character device`, `folder`, `file` or `other`."""
        if stat.S_ISCHR(self.mode):
            return "character device"
        if stat.S_ISDIR(self.mode):
            return "folder"
        return "file" if stat.S_ISREG(self.mode) else "other"


class Files:
    """The files of the machine whose `/` is the folder `root`; every path below is a path of that machine."""

    def __init__(self, root: str = "/") -> None:
        self.root = os.path.realpath(root)

    def read_text(self, path: str) -> str:
        """Text of a regular file, at most 4 MiB, undecodable bytes replaced. Raises OSError."""
        return self.read_bytes(path).decode("utf-8", "replace")

    def read_bytes(self, path: str, limit: int = _MOST_BYTES) -> bytes:
        """Bytes of a regular file, at most `limit`. Raises OSError."""
        pieces: list[bytes] = []
        with self.open_binary(path) as file:
            while limit and (piece := file.read(min(limit, _PIECE_BYTES))):
                pieces.append(piece)
                limit -= len(piece)
        return b"".join(pieces)

    def read_end(self, path: str, limit: int) -> bytes:
        """The last bytes of a regular file, at most `limit`. Raises OSError."""
        with self.open_binary(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - limit))
            return file.read(limit)

    def open_binary(self, path: str, *, streams: bool = False) -> BinaryIO:
        """A regular file opened for reading, for callers that need only a few bytes of it. Raises OSError.

        A pipe, a socket or a device may give nothing for ever, or never end: they are refused. With `streams`, a pipe or a
        terminal is opened, which a user names and can interrupt.
        """
        place = self.place(path)
        if streams:
            return _no_device(open(place, "rb"), path)
        number = os.open(place, os.O_RDONLY | _NEVER_WAIT)
        mode = os.fstat(number).st_mode
        if stat.S_ISREG(mode):
            return open(number, "rb")
        os.close(number)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        raise OSError(errno.EINVAL, "not a regular file", path)

    def text_if_any(self, path: str) -> str:
        """Text of a file, empty if it cannot be read."""
        try:
            return self.read_text(path)
        except OSError:
            return ""

    def names_if_any(self, path: str) -> list[str]:
        """Names in a folder, empty if it cannot be read."""
        try:
            return self.list_folder(path)
        except OSError:
            return []

    def list_folder(self, path: str) -> list[str]:
        """Names in a folder, sorted. Raises OSError."""
        return sorted(os.listdir(self.place(path)))

    def exists(self, path: str) -> bool:
        """Whether the path exists, as far as this user can see."""
        try:
            return os.path.exists(self.place(path))
        except OSError:
            return False

    def is_writable(self, path: str) -> bool:
        """Whether this user may write to a file or folder."""
        try:
            return os.access(self.place(path), os.W_OK)
        except OSError:
            return False

    def status(self, path: str) -> Status:
        """`stat` of a file, links followed. Raises OSError."""
        found = os.stat(self.place(path))
        device = getattr(found, "st_rdev", 0)
        major, minor = (os.major(device), os.minor(device)) if hasattr(os, "major") else (0, 0)
        return Status(found.st_size, found.st_mode, found.st_uid, found.st_gid, major, minor, found.st_ctime)

    def folder_capacity_bytes(self, path: str) -> int:
        """Size of the file system that holds a folder. Raises OSError."""
        found = os.statvfs(self.place(path))
        return found.f_blocks * found.f_frsize

    def folder_free_bytes(self, path: str) -> int:
        """The free space for this user on the file system of a folder. Raises OSError."""
        found = os.statvfs(self.place(path))
        return found.f_bavail * found.f_frsize

    def link_target(self, path: str) -> str:
        """The target of a symbolic link, unchanged. Raises OSError."""
        folder, name = os.path.split(path)
        return os.readlink(os.path.join(self.place(folder), name))

    def real_path(self, path: str) -> str:
        """The path with every link followed, as this machine names it. Raises OSError if links form a loop."""
        place = self.place(path)
        if self.root == "/":
            real = os.path.realpath(place)
            if os.path.islink(real):  # realpath returns a loop of links unchanged
                os.stat(real)
            return real
        return "/" + os.path.relpath(place, self.root).removeprefix(".")

    def place(self, path: str) -> str:
        """The location here of the machine's `path`: links are followed as after a chroot to the root."""
        if self.root == "/":
            return path
        waiting = deque(path.split("/"))
        done: list[str] = []
        links = 0
        while waiting:
            name = waiting.popleft()
            if name in ("", "."):
                continue
            if name == "..":
                os.stat(os.path.join(self.root, *done))  # raises if the folder does not exist, as the kernel does
                done = done[:-1]
                continue
            here = os.path.join(self.root, *done, name)
            if not os.path.islink(here):
                done.append(name)
                continue
            links += 1
            if links > _MOST_LINKS:
                raise OSError(40, "Too many levels of symbolic links", path)
            target = os.readlink(here)
            if target.startswith("/"):
                done = []
            waiting.extendleft(reversed(target.split("/")))
        return os.path.join(self.root, *done)


def _no_device(file: BinaryIO, path: str) -> BinaryIO:
    found = os.fstat(file.fileno())
    empty = found.st_rdev == os.stat(os.devnull).st_rdev
    if stat.S_ISBLK(found.st_mode) or (stat.S_ISCHR(found.st_mode) and not file.isatty() and not empty):
        file.close()
        raise OSError(errno.EINVAL, "a device, which may never end", path)
    return file


def working_folder_is_gone() -> bool:
    """Whether somebody removed the folder that this process works in."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def why_no_root(path: str) -> str:
    """Return why nothing can be read under a folder, of which a confident diagnosis would be made; empty if it can."""
    if not os.path.isdir(path):
        return "it is not a folder" if os.path.lexists(path) else "there is no such folder"
    return "" if os.access(path, os.R_OK | os.X_OK) else "this user may not read the folder"


def owners_of(path: str) -> set[int]:
    """Return the numbers of the users to whom a file belongs, and each link that leads to it. Raises OSError."""
    found: set[int] = set()
    for _ in range(_MOST_LINKS):
        status = os.lstat(path)
        found.add(status.st_uid)
        if not stat.S_ISLNK(status.st_mode):
            break
        path = os.path.join(os.path.dirname(path), os.readlink(path))
    return found


def write_whole(path: str, content: bytes) -> None:
    """Write a file atomically, completely or not at all; write directly to a device, a pipe or an open stream.

    A file that is a mount point is overwritten in place: no other can be renamed over it. Raises OSError.
    """
    stream = stream_of(path)
    if stream is not None or (os.path.exists(path) and not os.path.isfile(path)):
        with _in_place(path, stream) as file:
            file.write(content)
        return
    path = os.path.realpath(path)
    try:
        _replace(path, content)
    except OSError as error:
        if error.errno != errno.EBUSY and not is_mount_point(path):  # its folder may be read-only: EROFS, EACCES
            raise
        with open(os.open(path, os.O_WRONLY | os.O_TRUNC | getattr(os, "O_BINARY", 0)), "wb") as file:
            file.write(content)


def is_mount_point(path: str) -> bool:
    """Whether something is mounted on a file, as a container's volume of one file is."""
    place = os.fsencode(os.path.realpath(path))
    try:
        mounts = Files().read_bytes("/proc/self/mountinfo").splitlines()
    except OSError:
        return False  # no Linux, or no /proc
    return any(_without_octal(line.split(b" ")[4]) == place for line in mounts)


def _without_octal(name: bytes) -> bytes:
    """Decode a name of /proc/self/mountinfo, where a space is a backslash and three octal digits, 040."""
    return re.sub(rb"\\([0-3][0-7]{2})", lambda found: bytes([int(found[1], 8)]), name)


def _replace(path: str, content: bytes) -> None:
    """Write a file beside another, and rename it over that one. Raises OSError."""
    part = part_of(path)
    try:
        with open(part, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if os.path.exists(path):
            shutil.copymode(path, part)
        os.replace(part, path)
    except BaseException:  # including Ctrl-C: it is raised again, and no incomplete file remains
        if os.path.exists(part):
            os.unlink(part)
        raise


def part_of(path: str) -> str:
    """Return a name beside a file for what is being written: machines that share a folder have the same process ids."""
    return f"{path}.{os.getpid()}.{int.from_bytes(os.urandom(8), 'big')}.part"


def _in_place(path: str, stream: OpenStream | None) -> BinaryIO:
    """Open a stream, a pipe or a device for writing behind what is there: `>> FILE`. Wait for no reader. Raises OSError."""
    if stream is not None and stream.is_own:
        return open(os.dup(stream.number), "wb")
    number = _opened(stream.path if stream else path)
    if hasattr(os, "set_blocking"):
        os.set_blocking(number, True)  # a reader may be slow
    return open(number, "wb")


def _opened(path: str) -> int:
    """Open for appending, and give a pipe's reader a moment to come. Raises OSError."""
    until = time.monotonic() + _READER_S
    while True:
        try:
            return os.open(path, os.O_WRONLY | getattr(os, "O_APPEND", 0) | _NEVER_WAIT)
        except OSError as error:
            if error.errno != errno.ENXIO or not stat.S_ISFIFO(os.stat(path).st_mode):
                raise
            if time.monotonic() > until:
                raise OSError(errno.ENXIO, "no program reads from this pipe", path) from None
        time.sleep(_AGAIN_S)


def silence(stream: int) -> None:
    """Let nothing that is written to an open stream from now on arrive anywhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream)


def create_whole(path: str, content: bytes) -> None:
    """Create a file; of several writers, on several machines, one succeeds. Raises FileExistsError or another OSError.

    Where the file system has links, the name appears with all of the content; until then it is another, hidden one.
    """
    folder, name = os.path.split(path)
    part = part_of(os.path.join(folder, f".{name}"))
    try:
        _create(part, content)
        try:
            os.link(part, path)
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            _create(path, content)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(part)


def _create(path: str, content: bytes) -> None:
    with open(path, "xb") as file:
        file.write(content)


def make_executable(path: str) -> None:
    """Let everyone who may read a regular file run it; other kinds stay as they are. Raises OSError."""
    mode = os.stat(path).st_mode
    if stat.S_ISREG(mode):
        os.chmod(path, stat.S_IMODE(mode) | (mode & 0o444) >> 2)


def append_whole(path: str, content: bytes, most_bytes: int) -> None:
    """Append to a regular file, created if missing, either everything or nothing. Raises OSError.

    If the file would grow beyond `most_bytes`, nothing is appended, and OSError says so (EFBIG).
    """
    if os.path.exists(path) and not os.path.isfile(path):  # opening a pipe may block forever
        raise OSError(errno.EINVAL, "not a regular file", path)
    with open(path, "ab", buffering=0) as file:
        before = os.fstat(file.fileno())
        if before.st_size + len(content) > most_bytes:
            raise OSError(errno.EFBIG, f"it would be larger than {most_bytes >> 10} KiB", path)
        written: int | None = 0
        try:
            written = file.write(content)
        finally:
            if written != len(content):  # the disk accepted nothing, or only a part
                os.ftruncate(file.fileno(), before.st_size)
        if written != len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
