"""Read a file past the system's cache, as the first epoch of a training reads its data."""

from __future__ import annotations

import contextlib
import mmap
import os
import time
from collections.abc import Iterator
from pathlib import Path

BLOCK = 4 << 20  # bytes of a read; a multiple of the sector size, as direct reads require
# They accept direct reads, which may come from memory all the same: tmpfs since Linux 6.6 (commit e88e0d366f9c), OpenZFS
# before 2.3, and later releases for what is still in their cache (dmu_read_abd_dispatch in module/zfs/dmu_direct.c).
_FROM_MEMORY = ("tmpfs", "ramfs", "rootfs", "zfs")
_MOUNTS = Path("/proc/self/mountinfo")


class Cached(OSError):
    """The file system cannot read past its cache."""


def write_file(path: Path, size: int) -> None:
    """Write random bytes, which no file system compresses, and wait until they are stored."""
    with path.open("wb") as file:
        for _ in range(size // BLOCK):
            file.write(os.urandom(BLOCK))
        file.flush()
        os.fsync(file.fileno())


def read_past_cache(path: Path) -> tuple[int, float]:
    """Return the bytes of a file and the seconds of reading it directly from its storage. Raises Cached."""
    if (kind := file_system_of(path)) in _FROM_MEMORY:
        raise Cached(f"{kind} reads from memory")
    with _opened(path) as file, mmap.mmap(-1, BLOCK) as block:  # its memory is aligned to pages
        began, done = time.perf_counter(), 0
        try:
            while count := os.readv(file, [block]):
                done += count
        except OSError as error:
            raise Cached(str(error)) from error
        return done, time.perf_counter() - began


def file_system_of(path: Path, mounts: Path = _MOUNTS) -> str:
    """Return the type of the file system that a file is on, such as ext4; empty if it is unknown."""
    device = path.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        rows = [line.split() for line in mounts.read_text("utf-8", errors="replace").splitlines()]
    except OSError:
        return ""
    return next((words[words.index("-") + 1] for words in rows if words[2] == number), "")  # proc_pid_mountinfo(5)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    direct = getattr(os, "O_DIRECT", None)  # Linux alone has it
    if direct is None:
        raise Cached("this system has no direct reads")
    try:
        file = os.open(path, os.O_RDONLY | direct)
    except OSError as error:
        raise Cached(str(error)) from error
    try:
        yield file
    finally:
        os.close(file)
