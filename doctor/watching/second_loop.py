"""A second loop beside the training loop that the program wrote itself, told from looks at its main thread.

The lines of a step take turns within a second, so that looks find them in random order. Validation that is written as a
loop of TensorFlow's functions looks like steps, but its lines are found in stretches, and others between them.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Sequence

from tfgpu_doctor.watching.agent import Frame

LONGEST_STEP_MS = 500.0  # of a step whose lines take turns between two looks
_FEWER = -4.5  # standard deviations below the number of runs that random order has: one of up to 63 parts is chosen
_LEAST, _LINES = 4, 7  # looks; lines
_MOST = 0.4  # of the looks: what takes more may be the training itself
_TRAINS = re.compile("train|fit|step|epoch|update|optimi", re.IGNORECASE)  # in the name of a function
_TRAINS_NOT = re.compile("val|test|predict|infer", re.IGNORECASE)


def places_in_stretches(chains: Sequence[Sequence[Frame]]) -> list[Frame | None]:
    """For each look, one a second, the function that names what was found in stretches; None for the others.

    `chains`: the program's own frames of each look, the outermost first.
    """
    found: list[Frame | None] = [None] * len(chains)
    among, depth = list(range(len(chains))), 0
    while among := [place for place in among if len(chains[place]) > depth]:
        lines = [chains[place][depth] for place in among]
        apart = _apart(lines, _MOST * len(chains))
        for place in (place for place, line in zip(among, lines, strict=True) if line in apart):
            below = chains[place][min(depth + 1, len(chains[place]) - 1)]
            found[place] = None if _trains(below) else below
        most = Counter(lines).most_common(1)[0][0]
        among = [place for place, line in zip(among, lines, strict=True) if line == most]
        depth += 1
    return found


def _apart(lines: Sequence[Frame], most_looks: float) -> set[Frame]:
    """Those lines that looks find in stretches, between the most frequent one and others; empty if the order may be random."""
    counted = [line for line, count in Counter(lines).most_common(_LINES) if count >= _LEAST]
    numbers = [counted.index(line) for line in lines if line in counted]
    parts = (
        part
        for size in range(1, len(counted))
        for part in itertools.combinations(range(1, len(counted)), size)
        if sum(map(numbers.count, part)) <= most_looks
    )
    scores = {part: _runs_score([number in part for number in numbers]) for part in parts}
    best = min(scores, key=lambda part: scores[part], default=())
    return {counted[number] for number in best} if best and scores[best] <= _FEWER else set()


def _trains(frame: Frame) -> bool:
    return bool(_TRAINS.search(frame[2])) and not _TRAINS_NOT.search(frame[2])


def _runs_score(sequence: Sequence[bool]) -> float:
    """How many standard deviations the number of runs is above that of a random order; both values must occur.

    A. Wald and J. Wolfowitz, On a test whether two samples are from the same population, Ann. Math. Statist. 11 (1940).
    """
    count, hits = len(sequence), sum(sequence)
    runs = 1 + sum(one != other for one, other in itertools.pairwise(sequence))
    twice = 2 * hits * (count - hits)
    spread = math.sqrt(twice * (twice - count) / (count * count * (count - 1)))
    return (runs - 1 - twice / count) / spread if spread else 0.0
