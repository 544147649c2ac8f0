"""The lines of a log of any size and any encoding, in a stream; of a line of a hundred megabytes, pieces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

_BLOCK_BYTES = 1 << 20
LONGEST_BYTES = 16 << 10  # a longer line is cut into pieces, each of which is looked at as a line
_OVERLAP_BYTES = 512  # of two pieces, so that a message that lies across the cut is whole in one of them
_ANSI = re.compile(rb"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]{0,500}(?:\x07|\x1b\\)|[@-Z\\-_])")


def blocks(stream: BinaryIO) -> Iterator[bytes]:
    """The log in blocks of whole lines, cleaned: no terminal codes, no NUL bytes, every line ended by a newline.

    Without its NUL bytes UTF-16 reads as ASCII, as far as it is; that is far enough for all that is looked for.
    """
    rest = b""
    while chunk := stream.read(_BLOCK_BYTES):
        text = rest + chunk
        end = max(text.rfind(b"\n"), text.rfind(b"\r"))
        if end < 0 and len(text) < _BLOCK_BYTES:
            rest = text
            continue
        if end < 0:  # one line fills the block: what is left overlaps, for a message across the cut
            yield _clean(text) + b"\n"
            rest = text[-_OVERLAP_BYTES:]
            continue
        yield _clean(text[: end + 1])
        rest = text[end + 1 :]
    if rest:
        yield _clean(rest) + b"\n"


def _clean(text: bytes) -> bytes:
    if b"\0" in text:
        text = text.replace(b"\0", b"")
    if b"\x1b" in text:
        text = _ANSI.sub(b"", text)
    return text.replace(b"\r", b"\n") if b"\r" in text else text


def pieces(line: bytes) -> Iterator[bytes]:
    """A long line in parts that overlap; a short one as it is."""
    if len(line) <= LONGEST_BYTES:
        yield line
        return
    for start in range(0, len(line), LONGEST_BYTES - _OVERLAP_BYTES):
        yield line[start : start + LONGEST_BYTES]
