"""Search for one of many texts: Python's `re` tries each alternative at each character, 25 ms for 200 of them in 8 KB."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_FEWEST = 4  # plain texts, for which it pays
_FLAGS = re.MULTILINE | re.IGNORECASE
_ESCAPED = re.compile(r"\\(\W)")
_SPECIAL = re.compile(r"[\\^$.|?*+()\[\]{}]")

Match = tuple[int, tuple[Any, ...], dict[str, Any]]  # where it begins, its groups, and those with a name


@dataclass(frozen=True)
class Searched:
    """A pattern without groups in two parts: plain texts in lower case, and the other alternatives."""

    texts: tuple[str, ...]
    rest: re.Pattern[str] | None

    def first(self, text: str, lower: str) -> int:
        """Where the first match begins, -1 if there is none."""
        found = [begin for each in self.texts if (begin := lower.find(each)) >= 0]
        if self.rest is not None and (match := self.rest.search(text)):
            found.append(match.start())
        return min(found, default=-1)


def matches(pattern: str, text: str) -> Iterator[Match]:
    """Yield the matches of a pattern, whatever their case; of a pattern without groups that has many texts, the first."""
    searched = _searched(pattern)
    if searched is not None and (lower := _lower(text)) is not None:
        begin = searched.first(text, lower)
        if begin >= 0:
            yield begin, (), {}
        return
    for match in compiled(pattern).finditer(text):
        yield match.start(), match.groups(), match.groupdict()


@functools.lru_cache(maxsize=1)  # a text is searched for many patterns
def _lower(text: str) -> str | None:
    lower = text.lower()
    return lower if len(lower) == len(text) else None  # a few letters are two in lower case


@functools.cache  # compiled on first use: most are never used
def compiled(pattern: str) -> re.Pattern[str]:
    """Return the pattern as a signature means it."""
    return re.compile(pattern, _FLAGS)


@functools.cache
def _searched(pattern: str) -> Searched | None:
    """Split a pattern; None where that would change its meaning, or not pay."""
    parts = [each for part in split(pattern) or [pattern] for each in _opened(part)]
    texts = {each: _plain(each) for each in parts}
    plain = tuple(sorted({text for text in texts.values() if text}))
    if len(plain) < _FEWEST or compiled(pattern).groups:
        return None
    others = [each for each in parts if not texts[each]]
    return Searched(plain, re.compile("|".join(others), _FLAGS) if others else None)


def _opened(part: str) -> list[str]:
    """The alternatives of a group that only says what holds anyway: the case does not matter."""
    is_group = part.startswith("(?i:") and part.endswith(")")
    return (split(part[len("(?i:") : -1]) if is_group else None) or [part]


def split(pattern: str) -> list[str] | None:
    """Split a pattern at its own alternatives, not at those of its groups and sets; None if its brackets do not match."""
    parts, begin, depth, place, in_set = [], 0, 0, 0, False
    while place < len(pattern):
        char = pattern[place]
        if char == "\\":
            place += 1
        elif in_set:
            in_set = char != "]"
        elif char == "[":
            in_set = True
            place += 2 if pattern.startswith("[^]", place) else 1 if pattern.startswith("[]", place) else 0
        elif char in "()":
            depth += 1 if char == "(" else -1
            if depth < 0:
                return None
        elif char == "|" and not depth:
            parts.append(pattern[begin:place])
            begin = place + 1
        place += 1
    return None if depth or in_set else [*parts, pattern[begin:]]


def _plain(alternative: str) -> str:
    """The text in lower case, if the alternative is nothing else; empty if it is a pattern."""
    if _SPECIAL.search(_ESCAPED.sub("", alternative)):
        return ""
    return _ESCAPED.sub(r"\1", alternative).lower()
