"""A second loop beside the training loop that the program wrote itself, told from looks at its main thread.

The lines of a step take turns between two looks, so that looks find them in random order. Validation that is written as a
loop of TensorFlow's functions looks like steps, but its lines are found in stretches, and others between them.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Sequence

from tfgpu_doctor.watching.agent import Frame

_FEWER = -4.5  # standard deviations below the number of runs that random order has: one of up to 63 parts is chosen
_LEAST, _LINES = 4, 7  # looks; lines
_MOST = 0.4  # of the looks: what takes more may be the training itself
_TRAINS = re.compile("train|fit|step|epoch|update|optimi", re.IGNORECASE)  # in the name of a function
_TRAINS_NOT = re.compile("val|test|predict|infer", re.IGNORECASE)

Chain = tuple[Frame, ...]  # the program's own frames of a look, the outermost first


def prefixes_of_second_loops(chains: Sequence[Chain]) -> frozenset[Chain]:
    """The prefixes of those chains that were found in stretches; the looks come at equal times, further apart than steps."""
    found: set[Chain] = set()
    prefix: Chain = ()
    among = list(chains)
    while among := [chain for chain in among if len(chain) > len(prefix)]:
        lines = [chain[len(prefix)] for chain in among]
        found.update((*prefix, line) for line in _apart(lines, _MOST * len(chains)))
        most = Counter(lines).most_common(1)[0][0]
        among, prefix = [chain for chain, line in zip(among, lines, strict=True) if line == most], (*prefix, most)
    return frozenset(found)


def in_second_loop(chain: Chain, prefixes: frozenset[Chain]) -> Frame | None:
    """The function that names the second loop in which a look was, if its name is not that of a training."""
    for length in range(1, len(chain) + 1 if prefixes else 0):
        if chain[:length] in prefixes:
            named = chain[min(length, len(chain) - 1)]
            return None if _trains(named) else named
    return None


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
