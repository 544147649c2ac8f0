"""Protocol buffers' wire format: the fields of a message in a buffer, without a schema's code and without copies.

https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_64_BITS = (1 << 64) - 1
_DOUBLE = struct.Struct("<d")


class CutOff(ValueError):
    """A message ends before the field that it began."""


def varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return the unsigned number that begins at an offset, and the offset behind it."""
    value = data[at]
    at += 1
    if value < 128:
        return value, at
    value &= 127
    shift = 7
    while True:
        byte = data[at]
        at += 1
        if byte < 128:
            return (value | byte << shift) & _64_BITS, at
        value |= (byte & 127) << shift
        shift += 7
        if shift > 63:
            raise ValueError(f"no number at byte {at}")


def signed(value: int) -> int:
    """Return what an int64 holds that was written as an unsigned number."""
    return value - (1 << 64) if value >> 63 else value


def double(bits: int) -> float:
    """Return what a double holds whose 64 bits were read as a number."""
    return float(_DOUBLE.unpack(bits.to_bytes(8, "little"))[0])


def fields(data: bytes | memoryview, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield (number, wire type, value or start, end) of each field between two offsets.

    A value is a number for `VARINT`, `FIXED64` and `FIXED32`, and for `BYTES` the offset where they begin.
    `CutOff` where a field says that it is longer than what is left; ValueError where the bytes are no message.
    """
    while at < end:
        try:
            key, at = varint(data, at)
            if key == 0:  # No field has the number 0. A copy that broke off leaves zeros, and so does a crash.
                raise CutOff(f"zeros follow from byte {at - 1}")
            kind = key & 7
            if kind == VARINT:
                value, at = varint(data, at)
                yield key >> 3, kind, value, at
                continue
            if kind == BYTES:
                size, at = varint(data, at)
            elif kind == FIXED64:
                size = 8
            elif kind == FIXED32:
                size = 4
            else:
                raise ValueError(f"no field of a message at byte {at}")
        except IndexError:
            raise CutOff(f"the message ends within a field at byte {at}") from None
        if at + size > end:
            raise CutOff(f"a field of {size} bytes begins at byte {at} of {end}")
        yield key >> 3, kind, at if kind == BYTES else int.from_bytes(data[at : at + size], "little"), at + size
        at += size


def text(data: bytes | memoryview, at: int, end: int) -> str:
    """Return a string field; bytes that are no UTF-8 are replaced."""
    return str(bytes(data[at:end]), "utf-8", "replace")
