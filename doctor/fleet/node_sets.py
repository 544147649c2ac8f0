"""Lists of nodes as Slurm and operators write them: n001, n002, n003, m7 is m7,n[001-003]."""

from __future__ import annotations

import re
from collections.abc import Collection

_NUMBERED = re.compile(r"(.*?)(\d+)(\D*)")  # the last number of a name counts
_LONGEST_NUMBER = 15  # digits
# What a scheduler takes as the name of a node; another name may come from a report, and must reach no command.
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")


def is_node_name(name: str) -> bool:
    """Whether a scheduler may have a node of this name."""
    return _NAME.fullmatch(name) is not None


def folded(names: Collection[str]) -> str:
    """Return the names as one text; `launched.expand` is the inverse. Names are not checked."""
    numbered = {
        name: found for name in names if (found := _NUMBERED.fullmatch(name)) and len(found[2]) <= _LONGEST_NUMBER
    }
    # 9 and 10 are in one group, and 099 and 100; 100 is in that of 99 where no name is written with zeros.
    padded = {(found[1], found[3], len(found[2])) for found in numbered.values() if found[2].startswith("0")}
    groups: dict[tuple[str, str, int], set[int]] = {}
    for found in numbered.values():
        width = len(found[2])
        key = (found[1], found[3], width if (found[1], found[3], width) in padded else 0)
        groups.setdefault(key, set()).add(int(found[2]))
    parts = [(name, name) for name in set(names) - numbered.keys()]
    parts += [
        (before + after, _written(before, after, width, sorted(numbers)))
        for (before, after, width), numbers in groups.items()
    ]
    return ",".join(text for _, text in sorted(parts))


def _written(before: str, after: str, width: int, numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"{before}{numbers[0]:0{width}d}{after}"
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = ranges[-1][0], number
        else:
            ranges.append((number, number))
    words = (f"{low:0{width}d}" + (f"-{high:0{width}d}" if high > low else "") for low, high in ranges)
    return f"{before}[{','.join(words)}]{after}"
