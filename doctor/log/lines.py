"""Stream the lines of a log of any size and encoding; a line of a hundred megabytes is read in parts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

_BLOCK_BYTES = 1 << 20
_OVERLAP_BYTES = 4 << 10  # of two blocks of one line: a message that crosses the boundary is complete in one of them
LONGEST_BYTES = 4 << 10  # of a line on either side of a phrase
_ANSI = re.compile(rb"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]{0,500}(?:\x07|\x1b\\)|[@-Z\\-_])")
# The help texts of nvidia-smi, which explain errors and report none. The list of properties has a paragraph for each.
_HELP_OF_QUERY = b'List of valid properties to query for the switch "--query-'
_PROPERTIES = re.compile(
    rb"^[ \t>]*" + _HELP_OF_QUERY + rb"[^\n]*\n"
    rb"(?:[ \t>]*\r?\n|[ \t>]*(?:\"[\w.]+\"|Section about )[^\n]*\n(?:[ \t>]*(?!\d{4}-)[^\s>+|=#$\[][^\n]*\n){0,8}"
    rb"(?=[ \t>]*\r?\n))*",  # a paragraph that was cut may go on with another message
    re.MULTILINE,
)
_HELP = b"NVIDIA System Management Interface -- v"
_HELP_END = b"nvidia-smi(1) manual page for more detailed information"
_LONGEST_HELP = 64 << 10


class Stream(Protocol):
    """What a log is read from; `read1`, where there is one, returns what has come without waiting for the whole."""

    def read(self, size: int, /) -> bytes:
        """Return at most that many bytes, none at the end."""


class _Chunk:
    """The next part of a stream, as large as a block, less at its end or at an interrupt."""

    def __init__(self, stream: Stream) -> None:
        # `read` waits for the whole, and what has come is lost at an interrupt.
        self._read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
        self.content = b""
        self.interrupt: KeyboardInterrupt | None = None

    def read(self) -> bool:
        """Read; return False at the end."""
        pieces: list[bytes] = []
        left = 0 if self.interrupt else _BLOCK_BYTES
        try:
            while left > 0 and (piece := self._read(left)):
                pieces.append(piece)
                left -= len(piece)
        except KeyboardInterrupt as interrupt:
            self.interrupt = interrupt
        self.content = b"".join(pieces)
        return bool(self.content)


def blocks(stream: Stream, plain: Callable[[bytes], bytes] = bytes) -> Iterator[bytes]:
    """Yield the log in blocks of whole lines, cleaned: no terminal codes, no NUL bytes, quotes without their backslashes.

    `plain` is given each block first, and returns it with as many lines.

    Help texts of nvidia-smi are empty lines. An interrupt while it waits for more is raised after what has come.

    Without its NUL bytes, the ASCII part of UTF-16 reads as ASCII, which is sufficient for all signatures.
    """
    rest, chunk = b"", _Chunk(stream)
    while chunk.read():
        text = rest + chunk.content
        end = text.rfind(b"\n") + 1
        begin = max(text.rfind(marker, max(0, end - _LONGEST_HELP), end) for marker in (_HELP, _HELP_OF_QUERY))
        if begin >= 0:  # the next block has the whole of it
            end = text.rfind(b"\n", 0, begin) + 1 or end
        if end:
            yield _clean(plain(text[:end]))
            rest = text[end:]
        elif len(text) < _BLOCK_BYTES:
            rest = text
        else:  # one line fills the block
            yield _clean(plain(text))
            rest = text[-_OVERLAP_BYTES:]
    if rest:
        yield _clean(plain(rest if rest.endswith(b"\n") else rest + b"\n"))
    if chunk.interrupt:
        raise chunk.interrupt


def split_lines(text: str) -> list[str]:
    """Return the lines as the signatures count them: a carriage return or another separator does not end one."""
    lines = [line.rstrip("\r").replace("\r", " ") for line in text.split("\n")]
    return lines if lines[-1] else lines[:-1]


def _clean(text: bytes) -> bytes:
    if b"\0" in text:
        text = text.translate(None, b"\0")  # a twentieth of the time of `replace` where there are many
    if b"\\" in text:  # quotes and backslashes as JSON escapes them: notebooks and container logs
        text = text.replace(b'\\"', b'"').replace(b"\\\\", b"\\")
    if b"\x1b" in text:
        text = _ANSI.sub(b"", text)
    return _without_help(text)


def _without_help(text: bytes) -> bytes:
    if _HELP_OF_QUERY in text:
        text = _PROPERTIES.sub(_blank, text)
    begin = text.find(_HELP)
    if begin < 0:
        return text
    kept, done = [], 0
    while begin >= 0 and (end := text.find(_HELP_END, begin)) >= 0:
        begin = text.rfind(_HELP, begin, end)
        if end - begin < _LONGEST_HELP:
            kept += [text[done:begin], b"\n" * text.count(b"\n", begin, end)]
            done = end
        begin = text.find(_HELP, end)
    return b"".join((*kept, text[done:]))


def _blank(match: re.Match[bytes]) -> bytes:
    return b"\n" * match.group().count(b"\n")


@dataclass
class Excerpt:
    """A line of a block that contains phrases (of a long line, the part around them): its position and their numbers."""

    start: int
    end: int
    phrases: list[int]
    first: int  # where the phrase that ends first begins
    reach: int  # a phrase that begins before this offset has enough of its line after it


def excerpts(block: bytes, found: Iterable[tuple[int, int, int]]) -> Iterator[Excerpt]:
    """Yield the lines around phrases, given in block order; the carriage return of a progress bar also ends a line."""
    last = None
    for phrase, place, _ in found:
        if last and place < last.reach:
            last.phrases.append(phrase)
            continue
        if last:
            yield last
        last = _excerpt(block, place, phrase)
    if last:
        yield last


def _excerpt(block: bytes, place: int, phrase: int) -> Excerpt:
    lowest, highest = max(0, place - LONGEST_BYTES), place + LONGEST_BYTES
    start = max(block.rfind(b"\n", lowest, place) + 1, lowest)
    end = block.find(b"\n", place, highest)
    if block.find(b"\r", start, end if end >= 0 else highest) >= 0:
        start = max(block.rfind(b"\r", start, place) + 1, start)
        stop = block.find(b"\r", place, end if end >= 0 else highest)
        end = stop if stop >= 0 else end
    if end >= 0:
        return Excerpt(start, end, [phrase], place, end)
    return Excerpt(start, min(highest, len(block)), [phrase], place, place + LONGEST_BYTES // 2)
