"""Several whole nodes that are slower than all others by about the same: a rack with too little power or cooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

from tfgpu_doctor.fleet.thresholds import (
    ALIKE,
    FEWEST_SLOW_NODES,
    GAP,
    GROUP_SHARE,
    MOST_BETWEEN,
    MOST_STRAY,
    WHOLE,
    is_batch,
)


@dataclass(frozen=True)
class NodeLevel:
    """A node in one measurement: its values, those beyond the limit, and the median of their deviations (more is worse).

    `own`: the median of its earlier values, where it is compared with these.
    """

    node: int
    values: int
    beyond: int
    middle: float
    own: float = 0.0

    @property
    def is_slow(self) -> bool:
        """Whether most of its devices are beyond the limit."""
        return self.beyond >= WHOLE * self.values


def slow_nodes(levels: Sequence[NodeLevel], limit: float) -> list[NodeLevel]:
    """Return the nodes of a slow group, or none.

    They are a group if hardly any value of another node is beyond the limit, hardly any node lies between them and the
    others, and they are alike. Noise with a tail of any length has nodes in between, or nodes that are not alike.
    """
    slow = [each for each in levels if each.is_slow]
    others = [each for each in levels if not each.is_slow]
    if len(slow) < FEWEST_SLOW_NODES or len(slow) >= GROUP_SHARE * len(levels) or is_batch(len(slow), len(levels)):
        return []
    stray = sum(each.beyond for each in others)
    between = sum(each.middle > GAP * limit for each in others)
    middles = [each.middle for each in slow]
    told = stray <= MOST_STRAY * sum(each.beyond for each in slow) and between <= MOST_BETWEEN * len(slow)
    return slow if told and stdev(middles) <= ALIKE * fmean(middles) else []


def only_slow_node(levels: Sequence[NodeLevel]) -> NodeLevel | None:
    """Return the node all of whose devices are slow, if there is one alone: it is one exception, however many it has."""
    slow = [each for each in levels if each.is_slow]
    return slow[0] if len(slow) == 1 else None


def median_of(levels: Sequence[NodeLevel]) -> tuple[float, float]:
    """Return the median deviation of a group, and the median of its earlier values."""
    return median(each.middle for each in levels), median(each.own for each in levels)
