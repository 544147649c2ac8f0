"""Libraries that ldd does not find."""

from __future__ import annotations

import re
from collections.abc import Sequence

_MISSING = re.compile(r"\s*(\S{1,200}\.so(?:\.[\w.]{1,40})?) => not found\s*")


def read_missing(lines: Sequence[str]) -> tuple[int, tuple[str, ...]]:
    """The line (from 1) of the first, 0 if there is none; and their names, each once."""
    found: dict[str, int] = {}
    for place, line in enumerate(lines):
        if "=> not found" in line and (missing := _MISSING.fullmatch(line)):
            found.setdefault(missing[1], place + 1)
    return min(found.values(), default=0), tuple(found)
