"""Machines with two faults at once, drawn by chance from those of the lab that can be one machine."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from lab.machine import Machine
from lab.machines import MACHINES

SEED, COUNT = 20261122, 40
# What only one of the two may set; a fault that sets none of these is of the target, or of the files of the machine.
_ALONE = ("driver", "libcuda", "options", "under", "library_path", "target", "only_of")
_PLAIN = Machine("plain")


@dataclass(frozen=True)
class Pair:
    """Two machines of the lab, and the machine that has the faults of both."""

    one: Machine
    other: Machine
    both: Machine

    @property
    def name(self) -> str:
        """The names of the two."""
        return f"{self.one.name}+{self.other.name}"

    def without(self, label: str) -> Machine:
        """The machine after the fault of this label is mended: the one with the other fault."""
        return self.other if label == self.one.label else self.one


def draw(machines: Sequence[Machine] = MACHINES, count: int = COUNT, seed: int = SEED) -> list[Pair]:
    """Draw pairs of faults with different labels; each label is in at most three."""
    chance = random.Random(seed)
    possible = [
        Pair(one, other, both)
        for one, other in itertools.combinations([each for each in machines if each.label and not each.as_root], 2)
        if one.label != other.label and (both := combined(one, other))
    ]
    chance.shuffle(possible)
    used: dict[str, int] = {}
    drawn: list[Pair] = []
    for pair in possible:
        labels = (pair.one.label, pair.other.label)
        if len(drawn) < count and all(used.get(label, 0) < 3 for label in labels):
            drawn.append(pair)
            used.update({label: used.get(label, 0) + 1 for label in labels})
    return drawn


def combined(one: Machine, other: Machine) -> Machine | None:
    """Return the machine with both faults; None if they set the same thing."""
    merged = replace(one, name=f"{one.name}+{other.name}", label="", says="", done=(*one.done, *other.done))
    if set(one.variables) & set(other.variables) or set(one.done) & set(other.done):
        return None
    merged = replace(merged, variables={**one.variables, **other.variables})
    for name in _ALONE:
        mine, theirs = getattr(one, name), getattr(other, name)
        if _is_set(one, name) and _is_set(other, name):
            return None
        merged = replace(merged, **{name: theirs if _is_set(other, name) else mine})
    return merged


def _is_set(machine: Machine, name: str) -> bool:
    assert name in {each.name for each in fields(Machine)}
    return bool(getattr(machine, name) != getattr(_PLAIN, name))
