"""Read the RUNPATH of a shared library from a stream, which is read only up to the dynamic section."""

from __future__ import annotations

import struct
from collections.abc import Iterator

_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_STRTAB, _DT_RPATH, _DT_RUNPATH = 5, 15, 29
_ELF_64_LITTLE = b"\x7fELF\x02\x01"


class NoRunpath(ValueError):
    """The reason why there is no RUNPATH to read."""


class _Stream:
    """The beginning of a file, extended when more of it is requested."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._known = bytearray()

    def read(self, start: int, length: int) -> bytes:
        while len(self._known) < start + length:
            piece = next(self._pieces, None)
            if piece is None:
                raise NoRunpath("it is shorter than its header says")
            self._known += piece
        return bytes(self._known[start : start + length])

    def line(self, start: int) -> str:
        """Return the text from an offset to the next zero byte."""
        length = 256
        while b"\0" not in (text := self.read(start, length)):
            length *= 2
        return text.partition(b"\0")[0].decode()


def read_runpath(pieces: Iterator[bytes]) -> list[str]:
    """Return the folders of RUNPATH (or of RPATH if there is no RUNPATH), according to the ELF-64 object file format.

    Raises NoRunpath.
    """
    stream = _Stream(pieces)
    head = stream.read(0, 64)
    if head[:6] != _ELF_64_LITTLE:
        raise NoRunpath("it is not a 64-bit little-endian ELF file")
    (start,) = struct.unpack_from("<Q", head, 0x20)
    size, count = struct.unpack_from("<HH", head, 0x36)
    rows = [struct.unpack("<IIQQQQ", stream.read(start + size * index, 40)) for index in range(count)]
    dynamic = next((row for row in rows if row[0] == _PT_DYNAMIC), None)
    if dynamic is None:
        raise NoRunpath("it has no dynamic section")
    table = stream.read(dynamic[2], dynamic[5])
    tags = dict(struct.iter_unpack("<QQ", table[: len(table) // 16 * 16]))
    place = tags.get(_DT_RUNPATH, tags.get(_DT_RPATH))
    if place is None:
        return []
    segment = next((row for row in rows if row[0] == _PT_LOAD and row[3] <= tags[_DT_STRTAB] < row[3] + row[5]), None)
    if segment is None:
        raise NoRunpath("its string table is in no segment")
    return stream.line(tags[_DT_STRTAB] - segment[3] + segment[2] + place).split(":")
