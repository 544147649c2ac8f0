"""The lines of a text as the readers see them: without quotes, timestamps and terminal codes; and numbers in them."""

from __future__ import annotations

import re
from collections.abc import Sequence

LONGEST = 4000  # characters of a line that the readers look at, except for XML
_ANSI = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|[@-Z\\-_])")
_QUOTES = re.compile(r"\s{0,8}(?:>(?: |$)|>(?=>))+")
_MOMENT = re.compile(
    r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]?(?=[ \t]|$)[ \t]?(?:(?:stdout|stderr) [FP] )?"
)
_NUMBER = re.compile(r"(-?\d{1,12})(?:\.(\d{1,6}))?(?:\s*(?:%|[A-Za-z/]{1,8}|bank\(s\)))?")
_SIZE = re.compile(r"(\d{1,9})\s*(KiB|MiB|GiB|KB|MB|GB)", re.IGNORECASE)
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def plain_lines(text: str) -> list[str]:
    """The lines of a text without terminal codes and the marks of quotes, one for each line of the text."""
    return [_plain(line) for line in text.replace("\0", "").split("\n")]


def _plain(line: str) -> str:
    line = line.rstrip("\r")
    if "\r" in line:  # a progress bar: what it shows last
        line = line.rpartition("\r")[2]
    if "\x1b" in line:
        line = _ANSI.sub("", line)
    if "\xa0" in line:
        line = line.replace("\xa0", " ")
    quoted = _QUOTES.match(line) if ">" in line[:12] else None
    return line[quoted.end() :] if quoted else line


def without_moments(lines: Sequence[str]) -> list[str]:
    """The lines without the moment that a CI system or container runtime writes before each."""
    found = []
    for line in lines:
        moment = _MOMENT.match(line) if line[:1] in ("[", "1", "2") else None
        found.append(line[moment.end() :] if moment else line)
    return found


def number(text: str) -> float | None:
    """`250.00 W`, `-8 C`, `67 %`: the number; None if it is not the whole text, with its unit."""
    found = _NUMBER.fullmatch(text.strip())
    return float(f"{found[1]}.{found[2] or 0}") if found else None


def whole(text: str) -> int | None:
    """`8192`, `16x`, `2560 bank(s)`: the whole number."""
    found = _NUMBER.fullmatch(text.strip())
    return int(found[1]) if found else None


def size(text: str) -> int | None:
    """`81559 MiB`: the number of bytes. nvidia-smi's `MB` of drivers before 340 are MiB, too."""
    found = _SIZE.fullmatch(text.strip())
    return int(found[1]) * _UNITS[found[2][0].lower()] if found else None
