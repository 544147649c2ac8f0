"""The part of a log that a ticket includes: the significant lines with their context, the beginning and the end."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.log import Scanner, blocks, split_lines
from tfgpu_doctor.model.amounts import amount

_FIRST, _LAST = 50, 200
_AROUND = 3
_MOST = 500  # lines in all
_LONGEST = 600  # characters of a line
_MOST_PARTS = 20  # of a longer line


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
    lines = split_lines(b"".join(blocks(io.BytesIO(log))).decode("utf-8", "replace"))
    telling: dict[int, list[str]] = {}
    for number, text in sorted((hit.line - 1, hit.text) for found in scanner.found.values() for hit in found.hits):
        if number < len(lines):
            telling.setdefault(number, []).append(text)
    ends = (*range(min(_FIRST, len(lines))), *range(max(0, len(lines) - _LAST), len(lines)))
    around = (near for line in telling for near in range(line - _AROUND, line + _AROUND + 1) if 0 <= near < len(lines))
    kept = sorted(list(dict.fromkeys((*telling, *ends, *around, *range(min(_MOST, len(lines))))))[:_MOST])
    shown = {number: _shortened(lines[number], telling.get(number, ())) for number in kept}
    return Excerpt("\n".join(_with_gaps(shown)), len(kept), len(lines))


def _shortened(line: str, telling: Sequence[str]) -> str:
    """Return the beginning of a line that is too long, such as a progress bar, and the parts of it that tell something."""
    if len(line) <= _LONGEST:
        return line
    parts = [line[:_LONGEST], *(text for text in dict.fromkeys(telling[:_MOST_PARTS]) if text not in line[:_LONGEST])]
    return f"{' ... '.join(parts)} ..."


def _with_gaps(shown: Mapping[int, str]) -> Iterator[str]:
    after = 0
    for number, line in shown.items():
        if number > after:
            yield f"... {amount(number - after, 'line')} left out ..."
        yield line
        after = number + 1
