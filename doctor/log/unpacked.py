"""Unpack a compressed log while it is read: gzip, bzip2 and xz, by Python's own modules."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Callable

# The first bytes of a file to how it is compressed.
MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\0": "xz"}


class Unpacked:
    """The text of a compressed log; of a damaged one what comes before the damage."""

    def __init__(self, read: Callable[[int], bytes], kind: str, first: bytes) -> None:
        """`first` was read before."""
        self._packed = _Packed(read, first)
        self._kind = kind
        self._text: io.BufferedIOBase | None = None
        self.damaged = ""

    def read1(self, size: int) -> bytes:
        """Return the next part of the text, empty at its end and where it is damaged."""
        if self.damaged:
            return b""
        try:
            self._text = self._text or _opened(self._kind, self._packed)
            return self._text.read1(size)
        except ImportError:
            self.damaged = f"this Python cannot read {self._kind} files"
        except EOFError:
            self.damaged = f"the {self._kind} file is cut off"
        except _errors() as error:
            self.damaged = f"the {self._kind} file is damaged: {error}"
        return b""


class _Packed(io.RawIOBase):
    """A stream of which the first bytes were read before."""

    def __init__(self, read: Callable[[int], bytes], first: bytes) -> None:
        self._read, self._first = read, first

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        piece = self._first or self._read(len(buffer))
        piece, self._first = piece[: len(buffer)], piece[len(buffer) :]
        buffer[: len(piece)] = piece
        return len(piece)


def _opened(kind: str, stream: io.RawIOBase) -> io.BufferedIOBase:
    """Raises ImportError where Python was built without it."""
    packed = io.BufferedReader(stream)
    if kind == "gzip":
        return gzip.open(packed)
    if kind == "bzip2":
        import bz2

        return bz2.open(packed)
    import lzma

    return lzma.open(packed)


def _errors() -> tuple[type[Exception], ...]:
    """What the modules raise for damaged data."""
    lzma = sys.modules.get("lzma")
    return (zlib.error, OSError, *([lzma.LZMAError] if lzma else []))
