"""Is a line getting worse, apart from what happens to all of its peers? Robust changes of all lines, and slopes of some.

The change is the level of the last third of the points less that of the first third: it shows a steady drift as well as a
step, wherever in the middle of the window. To be judged, it must be there between the lower median of the last and the upper
median of the first, so that two bad points of four do not make it. The slope is the median of the slopes between
all pairs of points (Theil and Sen: Sen 1968, https://doi.org/10.1080/01621459.1968.10480934).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tfgpu_doctor.fleet.history_lines import Lines
from tfgpu_doctor.fleet.history_runs import medians, middles
from tfgpu_doctor.fleet.thresholds import FEWEST_PEERS, LEAST_SPREAD, MAD_TO_SIGMA

_MOST_MISSING = 0.4  # of the points of a line
_FEWEST_AT_ENDS = 3  # of the points of a third
_MANY_MISSING = 0.05  # of all points: the level of a line and what happens to all are then estimated twice


@dataclass(frozen=True)
class Changes:
    """For each line, in logarithms where more is worse."""

    change: Any  # between the medians of both thirds; NaN if it has too few points
    certain: Any  # between the lower median of the last, and the upper median of the first
    noise: Any  # the standard deviation of a point, from the differences of neighbours
    first: Any  # the level of the first third, as it was measured
    last: Any
    apart: Any  # the points without the level of the line, and without what happens to all
    fleet: float  # the change of all peers; NaN if there are too few


def changes_of(lines: Lines) -> Changes:
    """Return the changes of the lines of one series."""
    import numpy as np

    apart, of_peers = _apart(lines.values)
    known = ~np.isnan(apart)
    third = apart.shape[1] // 3
    first, last = (middles(np.ascontiguousarray(each)) for each in (apart[:, :third], apart[:, -third:]))
    at_ends = np.minimum(known[:, :third].sum(axis=1), known[:, -third:].sum(axis=1))
    enough = (known.mean(axis=1) >= 1 - _MOST_MISSING) & (at_ends >= _FEWEST_AT_ENDS)
    noise = MAD_TO_SIGMA / math.sqrt(2) * medians(np.abs(np.diff(apart, axis=1)))
    before, after = (medians(each.astype("float32")) for each in (of_peers[None, :third], of_peers[None, -third:]))
    return Changes(
        change=np.where(enough, (last[0] + last[1] - first[0] - first[1]) / 2, np.nan),
        certain=np.where(enough, last[0] - first[1], np.nan),
        noise=np.maximum(np.nan_to_num(noise), LEAST_SPREAD),
        first=medians(np.ascontiguousarray(lines.values[:, :third])),
        last=medians(np.ascontiguousarray(lines.values[:, -third:])),
        apart=apart,
        fleet=float(after[0] - before[0]),
    )


def _apart(values: Any) -> tuple[Any, Any]:
    """Return the values without the level of each line and without what all lines have at a point; and the latter.

    A line is compared with itself, so that it does not matter which nodes were measured on a day.
    """
    import numpy as np

    apart, of_peers = values.copy(), np.zeros(values.shape[1], dtype="float32")
    for _ in range(2 if np.isnan(values).mean() > _MANY_MISSING else 1):
        apart -= medians(apart.copy())[:, None]
        counts = (~np.isnan(apart)).sum(axis=0)
        step = np.where(counts >= FEWEST_PEERS, medians(np.ascontiguousarray(apart.T)), np.nan).astype("float32")
        apart -= step
        of_peers += step
    return apart, of_peers


def theil_sen(values: Any, days: Any) -> float:
    """Return the median slope per day of one line; NaN if it has fewer than two points."""
    import numpy as np

    before, after = np.triu_indices(len(values), 1)
    slopes = ((values[after] - values[before]) / (days[after] - days[before]))[None, :]
    return float(medians(slopes)[0])
