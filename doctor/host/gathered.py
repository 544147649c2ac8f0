"""Files of a folder that others filled, each read completely or rejected: none can block the reader or exhaust its memory."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass

_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True)
class Unread:
    """Why a file was not read."""

    why: str


def gather(folder: str, names: list[str], most_bytes: int) -> Iterator[tuple[str, bytes | Unread]]:
    """Each file with its content; files that are larger than the limit are not read."""
    for name in names:
        try:
            yield name, _read(os.path.join(folder, name), most_bytes)
        except OSError as error:
            link = os.path.islink(os.path.join(folder, name))
            yield name, Unread("a link, which is not followed" if link else error.strerror or str(error))


def _read(path: str, most_bytes: int) -> bytes | Unread:
    file = os.open(path, _FLAGS)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            return Unread("a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file")
        if status.st_size > most_bytes:
            return Unread(f"too large to be a report ({_size(status.st_size)})")
        content = os.read(file, status.st_size + 1)
        if len(content) < status.st_size:  # a network file system may return less at once
            pieces = [content]
            while piece := os.read(file, status.st_size):
                pieces.append(piece)
            content = b"".join(pieces)
        return content
    finally:
        os.close(file)


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
