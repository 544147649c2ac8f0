"""Nodes that have fewer GPUs than others of their kind, where no majority says how many there should be.

A node whose hypervisor gives it 7 of 8 GPUs cannot know: its own list of devices has 7. Among few nodes, or where several
lost one, the number is all that tells: machines are built with 1, 2, 4, 8 or 16 GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from tfgpu_doctor.fleet.thresholds import is_batch

_BUILT = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Counted:
    """A number of GPUs that nodes of a kind have by one setting. `value`: its number in the table; `usual`: no drift."""

    kind: int
    name: int
    value: int
    gpus: int
    nodes: int
    usual: bool


def lost(counts: Iterable[Counted]) -> list[tuple[Counted, Counted]]:
    """Return the numbers that only a machine has that lost a GPU, each with the next larger one: what it should be."""
    ordered = sorted(counts, key=lambda each: (each.kind, each.name, -each.gpus))
    return [
        found
        for _, group in groupby(ordered, key=lambda each: (each.kind, each.name))
        for found in _of_setting(list(group))
    ]


def _of_setting(counts: list[Counted]) -> list[tuple[Counted, Counted]]:
    """Return those of one setting of one kind, the largest number first."""
    total, whole, found = sum(each.nodes for each in counts), list[Counted](), []
    for each in counts:
        more = [other for other in whole if other.usual or other.nodes >= each.nodes]
        if more and each.gpus > 0 and each.gpus not in _BUILT and not is_batch(each.nodes, total):
            found.append((each, more[-1]))
        else:
            whole.append(each)
    return found
