"""The parts of a log to read as a text: its beginning, its end, and the output of other tools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

_HEAD_BYTES = 128 << 10
_TAIL_BYTES = 32 << 10
_DOCUMENT_BYTES = 256 << 10  # after the line that begins it
_MOST_DOCUMENTS = 4
# Lower-case phrases at the beginning of the output of a tool that the readers understand.
MARKERS = (
    b"nvidia-smi 3", b"nvidia-smi 4", b"nvidia-smi 5", b"nvidia-smi 6", b"nvsmi log", b"<nvidia_smi_log", b"package    ",
    b"# packages in environment at", b"vga compatible", b"3d controller", b"== check python", b"== tensorflow install",
    b"nvrm: xid",
)  # fmt: skip


@dataclass
class _Part:
    line: int  # the number of its first line, from 1
    text: bytearray
    most: int


@dataclass
class KeptText:
    """The head of a log, parts that begin with a document, and the tail. `plain` returns a part with as many lines."""

    plain: Callable[[bytes], bytes] = bytes
    _parts: list[_Part] = field(default_factory=list)
    _tail: bytes = b""
    _tail_line: int = 1

    def add(self, block: bytes, lines: int, markers: Sequence[int]) -> None:
        """Take the next block of a log; `lines` is the number of lines before it, `markers` where markers begin in it."""
        if not self._parts:
            self._parts.append(_Part(1, bytearray(), _HEAD_BYTES))
        rest, lines = self._fill(block, lines)
        while rest:
            taken = len(block) - len(rest)
            marker = next((place - taken for place in markers if place >= taken), None)
            if marker is None or len(self._parts) > _MOST_DOCUMENTS:
                self._keep_tail(rest, lines)
                return
            start = rest.rfind(b"\n", 0, marker) + 1
            lines += rest.count(b"\n", 0, start)
            self._tail = b""  # it would be a part before this one
            self._parts.append(_Part(lines + 1, bytearray(), _DOCUMENT_BYTES))
            rest, lines = self._fill(rest[start:], lines)

    def _fill(self, block: bytes, lines: int) -> tuple[bytes, int]:
        """Give the open part what it still takes; return the rest, and the number of lines before it."""
        part = self._parts[-1]
        room = part.most - len(part.text)
        end = len(block) if room >= len(block) else block.rfind(b"\n", 0, max(0, room)) + 1
        if not end and not part.text:  # its first line is longer than the part
            end = room
        part.text += block[:end]
        if end < len(block):
            part.most = len(part.text)
        return block[end:], lines + block.count(b"\n", 0, end)

    def _keep_tail(self, rest: bytes, lines: int) -> None:
        """Keep the last bytes of this block and of those before it."""
        if not self._tail or len(rest) >= _TAIL_BYTES:
            self._tail_line = lines + 1
        else:
            rest = self._tail + rest
        start = max(0, len(rest) - _TAIL_BYTES)
        self._tail = rest[start:]
        self._tail_line += rest.count(b"\n", 0, start)

    def texts(self) -> list[tuple[int, str]]:
        """Return each kept part: the number of its first line, and its text."""
        parts = [(part.line, bytes(part.text)) for part in self._parts]
        if self._tail:
            parts.append((self._tail_line, self._tail))
        return [(line, self.plain(text).decode("utf-8", "replace")) for line, text in parts if text]
