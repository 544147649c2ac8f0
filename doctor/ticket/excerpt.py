"""The part of a log that a ticket includes: the significant lines with their context, the beginning and the end."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.log import Scanner, blocks

_FIRST, _LAST = 50, 200
_AROUND = 3
_MOST = 500  # lines in all
_LONGEST = 600  # characters of a line


@dataclass(frozen=True)
class Excerpt:
    """The kept lines, with a note where lines are missing, and the number of lines in the log."""

    text: str
    kept: int
    lines: int


def excerpt_of(log: bytes) -> Excerpt:
    """Return the excerpt of a log in any encoding; a short log is returned whole."""
    scanner = Scanner(read_knowledge().log_signatures)
    scanner.scan(io.BytesIO(log))
    lines = b"".join(blocks(io.BytesIO(log))).decode("utf-8", "replace").splitlines()
    hits = sorted(hit.line - 1 for found in scanner.found.values() for hit in found.hits)
    telling = dict.fromkeys(line for line in hits if line < len(lines))
    ends = (*range(min(_FIRST, len(lines))), *range(max(0, len(lines) - _LAST), len(lines)))
    around = (near for line in telling for near in range(line - _AROUND, line + _AROUND + 1) if 0 <= near < len(lines))
    kept = sorted(list(dict.fromkeys((*telling, *ends, *around, *range(min(_MOST, len(lines))))))[:_MOST])
    return Excerpt("\n".join(_with_gaps(lines, kept)), len(kept), len(lines))


def _with_gaps(lines: list[str], kept: list[int]) -> Iterator[str]:
    after = 0
    for number in kept:
        if number > after:
            yield f"... {number - after} lines left out ..."
        yield lines[number] if len(lines[number]) <= _LONGEST else f"{lines[number][:_LONGEST]} ..."
        after = number + 1
