"""Find the significant lines at high speed: only lines that contain a known phrase are examined."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tfgpu_doctor.knowledge.schema import LogSignature
from tfgpu_doctor.log.alternatives import matches
from tfgpu_doctor.log.kept_text import MARKERS, KeptText
from tfgpu_doctor.log.lines import Excerpt, Stream, blocks, excerpts
from tfgpu_doctor.log.multi_pattern import MultiPattern
from tfgpu_doctor.log.notebook import Notebook
from tfgpu_doctor.log.own_report import OwnReport
from tfgpu_doctor.log.relayed import Relays
from tfgpu_doctor.log.without_reports import WithoutReports

_MOST_HITS = 40  # kept per signature; the rest are only counted
MOST_COUNTED = 200
_MANY = 100  # matches in a block: from here on it is worth dropping phrases
_MOST_VALUES = 200  # of a signature
_MOST_REPEATED = 20_000  # lines to remember
# No program prints what the next two bound; without them, a text made of phrases is read at 0.2 MB/s.
_CROWDED, _MOST_CROWDED = 16, 200  # signatures of one line, and lines with more of them
_MOST_FRUITLESS = 200_000  # lines (of 256 characters) with a phrase of a signature that matches none of them
_SHOWN = 300  # characters of a line
# Prefixes that workers, CI systems, notebooks and tickets add to a line; a pattern with ^ matches after the prefix.
_BEFORE = re.compile(
    r"^(?:[\s>#\"`|]+|\{[^{}]{0,300}?\"(?:log|msg|message|textPayload)\": ?\""
    r"|\d{4}-\d\d-\d\d[T ][\d:.,+]+Z?:?(?=\s)(?: std(?:out|err) [FP]| \d\d[OE])?"
    r"|\[[^\]\s]{1,40}\](?:<\w+>:?|:|(?=\s))|\((?:\w+ )?pid=[^)]{1,60}\)|[\w.-]{1,40} +\| )+"
)
_OF_JSON = re.compile(r'^"(.*?)(?:\\n)?",?$')  # a line of code in a notebook


_Key = tuple[
    tuple[int, ...], bytes, bytes
]  # of a line: the numbers of its phrases, and its text without digits in front


@dataclass(frozen=True)
class Hit:
    """A line that a signature matches: its number (from 1), its text, and the values of the pattern's groups."""

    line: int
    text: str
    groups: dict[str, str]


@dataclass
class Found:
    """The lines of a log that match one signature. From the most counted on, a signature without values is not searched."""

    signature: LogSignature
    count: int = 0
    hits: list[Hit] = field(default_factory=list)
    values: set[tuple[str, ...]] = field(default_factory=set)  # of the groups
    in_line: tuple[int, set[tuple[str, ...]]] = (0, set())  # the line of the last hit, and the groups matched in it

    @property
    def is_exhausted(self) -> bool:
        """Whether more lines of this kind would add nothing."""
        return self.count >= MOST_COUNTED and "(?P<" not in self.signature.pattern

    def keeps(self, values: tuple[str, ...]) -> bool:
        """Whether a hit with these values is kept: the first ones, and later those with new values."""
        is_new = values not in self.values and len(self.values) < _MOST_VALUES
        if is_new:
            self.values.add(values)
        return is_new or len(self.hits) < _MOST_HITS


class _Phrases:
    """What is searched for: phrases, and the signatures to which each belongs."""

    def __init__(self, by_gate: Mapping[bytes, Sequence[LogSignature]]) -> None:
        self.pattern = MultiPattern((*by_gate, *MARKERS))
        self.rows = [by_gate.get(phrase, ()) for phrase in self.pattern.phrases]
        self.markers = frozenset(map(self.pattern.phrases.index, MARKERS))

    def without(self, exhausted: set[str]) -> _Phrases | None:
        """Those that have a signature beside these; None if that is all."""
        by_gate = {phrase: rows for phrase, rows in zip(self.pattern.phrases, self.rows, strict=True) if rows}
        left = {phrase: rows for phrase, rows in by_gate.items() if not all(row.name in exhausted for row in rows)}
        return _Phrases(left) if len(left) < len(by_gate) else None


_LAST: list[tuple[tuple[LogSignature, ...], _Phrases]] = []  # of the last scanner: most have the same signatures


def _phrases_of(signatures: tuple[LogSignature, ...]) -> _Phrases:
    for known, phrases in _LAST:
        if known is signatures:
            return phrases
    by_gate: dict[bytes, list[LogSignature]] = {}
    for signature in signatures:
        for gate in signature.gate.split("|"):
            by_gate.setdefault(gate.encode(), []).append(signature)
    phrases = _Phrases(by_gate)
    _LAST[:] = [(signatures, phrases)]
    return phrases


class Scanner:
    """Search a log for every signature, and keep its beginning and the parts around the output of other tools."""

    def __init__(self, signatures: tuple[LogSignature, ...]) -> None:
        self.found: dict[str, Found] = {}
        self.lines = 0
        self._relays = Relays()
        self.kept = KeptText(self._relays.without)
        self._phrases = _phrases_of(signatures)
        self._repeated: dict[_Key, list[Found]] = {}
        self._crowded = 0
        self._fruitless: dict[str, int] = {}
        self._own = WithoutReports()

    @property
    def reports(self) -> list[OwnReport]:
        """The doctor's own reports in the log; no signature is searched in them."""
        return self._own.reports

    def scan(self, stream: Stream) -> None:
        """Read a log to the end. An interrupt is raised after what had come by then."""
        for block in blocks(stream, Notebook().plain):
            self._scan(self._own.without(block))

    def _scan(self, block: bytes) -> None:
        counted = 0
        self._relays.learn(block)
        places = self._phrases.pattern.find(block.lower())
        self.kept.add(block, self.lines, [begin for number, begin, _ in places if number in self._phrases.markers])
        for each in excerpts(block, places):
            self.lines += block.count(b"\n", counted, each.start)
            counted = each.start
            # What stands before the first phrase differs in its digits, such as those of a timestamp.
            before_phrase = block[each.start : each.first].translate(None, b"0123456789")
            key = (tuple(each.phrases), before_phrase, block[each.first : each.end])
            repeated = self._repeated.get(key)
            if repeated is not None:
                for found in repeated:
                    found.count += 1
            else:
                self._examine(each, block, key)
        self.lines += block.count(b"\n", counted)
        if len(places) > _MANY:
            self._drop_exhausted()

    def _examine(self, excerpt: Excerpt, block: bytes, key: _Key) -> None:
        """Match the signatures of a line, and remember a line that adds nothing, because logs repeat lines."""
        rows = {row.name: row for phrase in excerpt.phrases for row in self._phrases.rows[phrase]}
        if len(rows) > _CROWDED:
            self._crowded += 1
            if self._crowded > _MOST_CROWDED:
                return
        line = self._relays.without(block[excerpt.start : excerpt.end])
        text = _unfolded(line.decode("utf-8", "replace"))
        matched = [self.found[name] for name, row in rows.items() if self._match(row, text, self.lines + 1)]
        if all(len(found.hits) >= _MOST_HITS for found in matched):
            if len(self._repeated) >= _MOST_REPEATED:
                self._repeated.clear()
            self._repeated[key] = matched

    def _drop_exhausted(self) -> None:
        """Search no longer for phrases whose signatures were all counted often enough."""
        exhausted = {name for name, found in self.found.items() if found.is_exhausted} | self._given_up()
        phrases = self._phrases.without(exhausted)
        if phrases is not None:
            self._phrases = phrases
            self._repeated.clear()  # its keys are the numbers of the phrases

    def _given_up(self) -> set[str]:
        return {name for name, lines in self._fruitless.items() if lines > _MOST_FRUITLESS and name not in self.found}

    @property
    def passed_over(self) -> tuple[str, ...]:
        """What was not searched to the end, in words."""
        found = []
        if self._crowded > _MOST_CROWDED:
            more = self._crowded - _MOST_CROWDED
            parts = "1 part of a line" if more == 1 else f"{more:,} parts of lines, each"
            found.append(f"{parts} with more than {_CROWDED} known phrases")
        if given_up := self._given_up():
            kinds = f"{len(given_up)} kind{'' if len(given_up) == 1 else 's'}"
            found.append(f"messages of {kinds}, after {_MOST_FRUITLESS:,} lines with a phrase of theirs alone")
        return tuple(found)

    def _match(self, row: LogSignature, text: str, number: int) -> bool:
        """Record the matches of a signature in a line or in part of a line, once for each set of group values."""
        if row.pattern.startswith("^"):
            text = _BEFORE.sub("", text)
        matched = False
        for begin, caught, named in matches(row.pattern, text):
            matched = True
            kept = self.found.setdefault(row.name, Found(row))
            if kept.in_line[0] != number:
                kept.in_line = (number, {caught})
            elif caught in kept.in_line[1]:
                continue
            kept.in_line[1].add(caught)
            kept.count += 1
            if kept.keeps(caught):
                groups = {name: _printable(value) for name, value in named.items() if value}
                kept.hits.append(Hit(number, _shown(text, begin), groups))
        if not matched:
            self._fruitless[row.name] = self._fruitless.get(row.name, 0) + 1 + (len(text) >> 8)
        return matched


def _unfolded(text: str) -> str:
    """Split a JSON string into lines, as notebooks and container logs contain them; return other text unchanged."""
    return text.replace("\\n", "\n") if text.lstrip()[:1] in ('"', "{") else text


def _shown(text: str, start: int) -> str:
    """Return the part of a line around a match to show."""
    text, cut = (text[start - 100 :], "... ") if start > _SHOWN - 100 else (text, "")
    text = _OF_JSON.sub(r"\1", _printable(text[: _SHOWN + 1]).strip())
    return cut + (text if len(text) <= _SHOWN else text[: _SHOWN - 4] + " ...")


def _printable(text: str) -> str:
    """Replace unprintable characters, so that a log cannot control the terminal."""
    return "".join(char if char.isprintable() else " " for char in text)
