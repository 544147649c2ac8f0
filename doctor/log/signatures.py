"""Find the significant lines at disk speed: only lines that contain a known phrase are examined."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import BinaryIO

from tfgpu_doctor.knowledge.schema import LogSignature
from tfgpu_doctor.log.lines import blocks, excerpts
from tfgpu_doctor.log.multi_pattern import MultiPattern

_MOST_HITS = 40  # kept per signature; the rest are only counted
_SHOWN = 300  # characters of a line
# Prefixes that workers, CI systems, notebooks and tickets add to a line; a pattern with ^ matches after the prefix.
_BEFORE = re.compile(
    r"^(?:[\s>#\"`|]+|\{[^{}]{0,300}?\"(?:log|msg|message|textPayload)\": ?\"|\d{4}-\d\d-\d\d[T ][\d:.,+]+Z?:?(?=\s)"
    r"|\[[^\]\s]{1,40}\](?:<\w+>:?|:|(?=\s))|\((?:\w+ )?pid=[^)]{1,60}\)|[\w.-]{1,40} +\| )+"
)


@dataclass(frozen=True)
class Hit:
    """A line that a signature matches: its number (from 1), its text, and the values of the pattern's groups."""

    line: int
    text: str
    groups: dict[str, str]


@dataclass
class Found:
    """The lines of a log that match one signature."""

    signature: LogSignature
    count: int = 0
    hits: list[Hit] = field(default_factory=list)
    in_line: tuple[int, set[tuple[str, ...]]] = (0, set())  # the line of the last hit, and the groups matched in it


class Scanner:
    """Search a log for every signature."""

    def __init__(self, signatures: tuple[LogSignature, ...]) -> None:
        self.found: dict[str, Found] = {}
        self.lines = 0
        self._patterns: dict[str, re.Pattern[str]] = {}  # compiled on first use: most are never used
        self._by_gate: dict[bytes, list[LogSignature]] = {}
        for signature in signatures:
            for gate in signature.gate.split("|"):
                self._by_gate.setdefault(gate.encode(), []).append(signature)
        self._multi_pattern = MultiPattern(self._by_gate)

    def scan(self, stream: BinaryIO) -> None:
        """Read a log to the end."""
        for block in blocks(stream):
            self._scan(block)

    def _scan(self, block: bytes) -> None:
        counted = 0
        for each in excerpts(block, self._multi_pattern.find(block.lower())):
            self.lines += block.count(b"\n", counted, each.start)
            counted = each.start
            rows = {row.name: row for phrase in each.phrases for row in self._by_gate[phrase]}
            text = _unfolded(block[each.start : each.end].decode("utf-8", "replace"))
            for row in rows.values():
                self._match(row, text, self.lines + 1)
        self.lines += block.count(b"\n", counted)

    def _match(self, row: LogSignature, text: str, number: int) -> None:
        """Record the matches of a signature in a line or in part of a line, once for each set of group values."""
        if row.name not in self._patterns:
            self._patterns[row.name] = re.compile(row.pattern, re.MULTILINE)
        if row.pattern.startswith("^"):
            text = _BEFORE.sub("", text)
        for found in self._patterns[row.name].finditer(text):
            kept = self.found.setdefault(row.name, Found(row))
            caught = found.groups()
            if kept.in_line[0] != number:
                kept.in_line = (number, {caught})
            elif caught in kept.in_line[1]:
                continue
            kept.in_line[1].add(caught)
            kept.count += 1
            if len(kept.hits) < _MOST_HITS:
                groups = {name: _printable(value) for name, value in found.groupdict().items() if value}
                kept.hits.append(Hit(number, _shown(text, found.start()), groups))


def _unfolded(text: str) -> str:
    """Split a JSON string into lines, as notebooks and container logs contain them; return other text unchanged."""
    return text.replace("\\n", "\n") if text.lstrip()[:1] in ('"', "{") else text


def _shown(text: str, start: int) -> str:
    """Return the part of a line around a match to show."""
    text, cut = (text[start - 100 :], "... ") if start > _SHOWN - 100 else (text, "")
    text = _printable(text[: _SHOWN + 1]).strip()
    return cut + (text if len(text) <= _SHOWN else text[: _SHOWN - 4] + " ...")


def _printable(text: str) -> str:
    """Replace unprintable characters, so that a log cannot control the terminal."""
    return "".join(char if char.isprintable() else " " for char in text)
