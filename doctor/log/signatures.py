"""Find the lines that mean something, at the pace of a disk: most lines are of a kind that was seen before."""

from __future__ import annotations

import bisect
import itertools
import re
from dataclasses import dataclass, field
from typing import BinaryIO

from tfgpu_doctor.knowledge import LogSignature
from tfgpu_doctor.log.lines import blocks, pieces

# Lines that differ in their numbers alone, hexadecimal ones too, are of one kind: training prints a million of them.
_KIND = bytes.maketrans(b"123456789abcdef", b"0" * 15)
_MOST_KINDS = 100_000  # of dull lines that are remembered; then it begins anew
_LONGEST_KIND_BYTES = 400  # a longer line is looked at every time: cut short, its kind is not found again
_MOST_HITS = 40  # of one signature that are kept; the rest are counted
_SHOWN = 300  # characters of a line


@dataclass(frozen=True)
class Hit:
    """A line that a signature matches: its number (from 1), its text, and what the pattern's groups caught."""

    line: int
    text: str
    groups: dict[str, str]


@dataclass
class Found:
    """What one signature found in a log."""

    signature: LogSignature
    count: int = 0
    hits: list[Hit] = field(default_factory=list)


class Scanner:
    """Looks for every signature in a log."""

    def __init__(self, signatures: tuple[LogSignature, ...]) -> None:
        self.found: dict[str, Found] = {}
        self.lines = 0
        self._dull: set[bytes] = set()
        by_gate: dict[bytes, list[tuple[LogSignature, re.Pattern[str]]]] = {}
        for signature in signatures:
            pattern = re.compile(signature.pattern)
            for gate in signature.gate.split("|"):
                by_gate.setdefault(gate.encode(), []).append((signature, pattern))
        self._by_gate = by_gate

    def scan(self, stream: BinaryIO) -> None:
        """Read a log to its end."""
        for block in blocks(stream):
            self._scan(block)

    def _scan(self, block: bytes) -> None:
        lines = block.split(b"\n")
        kinds = block.translate(_KIND).split(b"\n")
        new = [place for place, kind in enumerate(kinds) if kind not in self._dull]
        matched = set()
        for place, gates in self._gated([lines[place] for place in new]).items():
            if self._look(lines[new[place]], self.lines + new[place] + 1, gates):
                matched.add(kinds[new[place]])
        self._dull.update({kinds[place] for place in new if len(kinds[place]) <= _LONGEST_KIND_BYTES} - matched)
        self.lines += len(lines) - 1
        if len(self._dull) > _MOST_KINDS:
            self._dull.clear()

    def _gated(self, lines: list[bytes]) -> dict[int, list[bytes]]:
        """Place of each line that holds a gate, to its gates; found by searching all lines as one text."""
        text = b"\n".join(lines).lower()
        gates = [gate for gate in self._by_gate if gate in text]
        if not gates:
            return {}
        starts = [0, *itertools.accumulate(len(line) + 1 for line in lines)]
        places: dict[int, list[bytes]] = {}
        for gate in gates:
            found = text.find(gate)
            while found >= 0:
                place = bisect.bisect_right(starts, found) - 1
                places.setdefault(place, []).append(gate)
                found = text.find(gate, starts[place + 1])
        return places

    def _look(self, line: bytes, number: int, gates: list[bytes]) -> bool:
        """Whether any signature matches a line; the hits are kept."""
        rows = [row for gate in gates for row in self._by_gate[gate]]
        matched = False
        for piece in pieces(line):
            text = piece.decode("utf-8", "replace")
            for row in rows:
                matched |= self._match(row, text, number)
        return matched

    def _match(self, row: tuple[LogSignature, re.Pattern[str]], text: str, number: int) -> bool:
        signature, pattern = row
        found = pattern.search(text)
        if found is None:
            return False
        kept = self.found.setdefault(signature.name, Found(signature))
        if kept.hits and kept.hits[-1].line == number:
            return True  # by another of its gates, or in the next piece of the same line
        kept.count += 1
        if len(kept.hits) < _MOST_HITS:
            groups = {name: value for name, value in found.groupdict().items() if value}
            kept.hits.append(Hit(number, _excerpt(text, found.start()), groups))
        return True


def _excerpt(text: str, start: int) -> str:
    """The part of a line around a match that is worth showing."""
    text, cut = (text[start - 100 :], "... ") if start > _SHOWN - 100 else (text, "")
    text = "".join(char if char.isprintable() else " " for char in text[: _SHOWN + 1]).strip()
    return cut + (text if len(text) <= _SHOWN else text[: _SHOWN - 4] + " ...")
