"""Unpack a compressed log while it is read: gzip, bzip2 and xz, also several one after the other in one file."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from typing import Protocol

# The first bytes of a file to how it is compressed.
MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\0": "xz"}
_LONGEST_MAGIC = 6
_PIECE_BYTES = 64 << 10
_OF_GZIP = 31  # for zlib: with the head and the checksum of gzip


class _Decompressor(Protocol):
    """What `bz2` and `lzma` have."""

    @property
    def eof(self) -> bool:
        """Whether the end of what was compressed at once has come."""

    @property
    def needs_input(self) -> bool:
        """Whether more bytes must come before more text."""

    @property
    def unused_data(self) -> bytes:
        """What came behind that end."""

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        """Return text of at most that length."""


class _Gzip:
    """The same for gzip, which `zlib` reads."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(_OF_GZIP)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        text = self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)
        self.needs_input = not self._zlib.unconsumed_tail and len(text) < max_length
        return text


class Unpacked:
    """The text of a compressed log; of a damaged one what comes before the damage."""

    def __init__(self, read: Callable[[int], bytes], kind: str, first: bytes) -> None:
        """`first` was read before."""
        self._read, self._kind, self._packed = read, kind, first
        self._decompressor: _Decompressor | None = None
        self._is_over = False
        self.damaged = ""

    def read1(self, size: int) -> bytes:
        """Return the next part of the text, empty at its end and where it is damaged."""
        while not self._is_over:
            if self._decompressor is None or self._decompressor.eof:
                self._begin()
            elif self._decompressor.needs_input and not self._packed and not self._more():
                self._end(f"the {self._kind} file is cut off")
            elif text := self._text(self._decompressor, size):
                return text
        return b""

    def _text(self, decompressor: _Decompressor, size: int) -> bytes:
        packed, self._packed = self._packed, b""
        try:
            return decompressor.decompress(packed, size)
        except _errors() as error:
            self._end(f"the {self._kind} file is damaged: {error}")
        return b""

    def _begin(self) -> None:
        """Begin, at the first byte or behind what was compressed before; zeros fill some files up."""
        if self._decompressor is not None:
            self._packed = self._decompressor.unused_data.lstrip(b"\0")
            while len(self._packed) < _LONGEST_MAGIC and self._more():
                self._packed = self._packed.lstrip(b"\0")
            if not self._packed:
                self._is_over = True
                return
            if not self._packed.startswith(_magic(self._kind)):
                self._end(f"other data follows in the {self._kind} file")
                return
        try:
            self._decompressor = _decompressor(self._kind)
        except ImportError:
            self._end(f"this Python cannot read {self._kind} files")

    def _more(self) -> bool:
        piece = self._read(_PIECE_BYTES)
        self._packed += piece
        return bool(piece)

    def _end(self, why: str) -> None:
        self.damaged, self._is_over = why, True


def _magic(kind: str) -> bytes:
    return next(magic for magic, each in MAGIC.items() if each == kind)


def _decompressor(kind: str) -> _Decompressor:
    """Raises ImportError where Python was built without it."""
    if kind == "gzip":
        return _Gzip()
    if kind == "bzip2":
        import bz2

        return bz2.BZ2Decompressor()
    import lzma

    return lzma.LZMADecompressor()


def _errors() -> tuple[type[Exception], ...]:
    """What the decompressors raise for damaged data."""
    found: tuple[type[Exception], ...] = (zlib.error, EOFError, OSError)
    if lzma := sys.modules.get("lzma"):
        found = (*found, lzma.LZMAError)
    return found
