"""Robust slopes: is a line getting worse, apart from what happens to all of its peers?

The slope is the median of the slopes between all pairs of points (Theil and Sen: Sen 1968,
https://doi.org/10.1080/01621459.1968.10480934); up to 29 % of wrong points do not change it. Whether there is a trend at all
is told by the signs of the same pairs (Mann and Kendall: https://doi.org/10.2307/1907187).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tfgpu_doctor.fleet.history_lines import Lines
from tfgpu_doctor.fleet.history_runs import medians
from tfgpu_doctor.fleet.history_windows import FEWEST_POINTS
from tfgpu_doctor.fleet.thresholds import FEWEST_PEERS

_MOST_MISSING = 0.4  # of the points of a line
_MANY_MISSING = 0.05  # of all points: the level of a line and what happens to all are then estimated twice
_ENDS = 0.25  # of the points, at the beginning and at the end, of which the two levels are the medians
_AT_ONCE = 1 << 15


@dataclass(frozen=True)
class Slopes:
    """For each line, in logarithms where more is worse: the change over its points, and what tells whether it is one."""

    change: Any  # over the days from its first to its last point; NaN if it has too few points
    trend: Any  # of Mann and Kendall, in standard deviations
    days: Any  # from its first to its last point
    points: Any
    first: Any  # the level at the beginning, as it was measured
    last: Any
    fleet: float  # the change of all peers; NaN if there are too few


def slopes_of(lines: Lines) -> Slopes:
    """Return the slopes of the lines of one series."""
    import numpy as np

    apart, of_peers = _apart(lines.values)
    known = ~np.isnan(apart)
    points = known.sum(axis=1)
    least = max(FEWEST_POINTS, math.ceil((1 - _MOST_MISSING) * apart.shape[1]))
    slope, signs = _theil_sen(apart, lines.days)
    span = lines.days[apart.shape[1] - 1 - known[:, ::-1].argmax(axis=1)] - lines.days[known.argmax(axis=1)]
    fleet, _ = _theil_sen(of_peers[None, :], lines.days)
    ends = max(1, round(_ENDS * apart.shape[1]))
    return Slopes(
        change=np.where(points >= least, slope * span, np.nan),
        trend=signs / np.sqrt(np.maximum(1, points * (points - 1) * (2 * points + 5) / 18)),
        days=span,
        points=points,
        first=medians(np.ascontiguousarray(lines.values[:, :ends])),
        last=medians(np.ascontiguousarray(lines.values[:, -ends:])),
        fleet=float(fleet[0] * (lines.days[-1] - lines.days[0])),
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


def _theil_sen(values: Any, days: Any) -> tuple[Any, Any]:
    """Return the median slope per day of each row, and the sum of the signs of all pairs."""
    import numpy as np

    before, after = np.triu_indices(values.shape[1], 1)
    times = (days[after] - days[before]).astype("float32")
    slopes, signs = np.empty(len(values), dtype="float32"), np.empty(len(values), dtype="float32")
    for start in range(0, len(values), _AT_ONCE):
        rows = values[start : start + _AT_ONCE]
        steps = (rows[:, after] - rows[:, before]) / times
        signs[start : start + _AT_ONCE] = (steps > 0).sum(axis=1) - (steps < 0).sum(axis=1, dtype="int32")
        slopes[start : start + _AT_ONCE] = medians(steps)
    return slopes, signs
