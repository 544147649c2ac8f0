"""Lower prediction bounds that hold together, from repeated runs of one machine.

The rule: the bounds are for one further run on another day, from the logarithms of the runs, and hold together: an equal
machine meets all of them with 95 %. So each bound has Bonferroni's level, 1 - 0.05 / values (Hahn, Meeker: Statistical
Intervals, 1991, chapter 4.8). As few runs show a spread poorly, the variance of a value is the larger of its own and the
mean of its kind. docs/calibration.md shows how many equal machines are accepted.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LEAST_RUNS, MOST_RUNS = 3, 20
DAYS = 0.015  # standard deviation of a value's logarithm from day to day, which consecutive runs do not show
_DIGITS = 3
_LEVEL = 0.05  # the chance that an equal machine misses any bound
# Quantiles of Student's t for 0.95 and 2 to 19 degrees of freedom:
# https://www.itl.nist.gov/div898/handbook/eda/section3/eda3672.htm
T95 = (
    2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796,
    1.782, 1.771, 1.761, 1.753, 1.746, 1.740, 1.734, 1.729,
)  # fmt: skip


@dataclass(frozen=True)
class Bound:
    """A bound, and the runs that it comes from."""

    value: float
    runs: tuple[float, ...]
    margin: float  # its distance below the mean of the runs, as a share


def bounds_of(table: Mapping[str, Sequence[float]], values: int) -> dict[str, Bound]:
    """Return a bound for each value of one kind, from its runs: at least three numbers above 0, equally many of each.

    `values`: the number of all values of the machine, which has to meet all bounds.
    """
    logs = {name: [math.log(each) for each in runs] for name, runs in table.items()}
    variances = {name: statistics.variance(each) for name, each in logs.items()}
    pooled = statistics.fmean(variances.values()) if variances else 0.0
    found = {}
    for name, runs in table.items():
        count = len(runs)
        spread = math.sqrt(max(variances[name], pooled) * (1 + 1 / count) + 2 * DAYS**2)
        margin = quantile(len(table) * (count - 1), values) * spread
        value = math.exp(statistics.fmean(logs[name]) - margin)
        found[name] = Bound(rounded_down(value), tuple(runs), 1 - math.exp(-margin))
    return found


def quantile(freedom: int, values: int) -> float:
    """Return Student's t for 1 - 0.05 / values; off by 2 % at most with 4 degrees of freedom, by 0.1 % with 10.

    The expansion is from Abramowitz, Stegun: Handbook of Mathematical Functions, 1964, 26.7.5.
    """
    if values == 1:
        return T95[min(freedom, MOST_RUNS - 1) - 2]
    x = statistics.NormalDist().inv_cdf(1 - _LEVEL / values)
    return (
        x
        + (x**3 + x) / (4 * freedom)
        + (5 * x**5 + 16 * x**3 + 3 * x) / (96 * freedom**2)
        + (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / (384 * freedom**3)
        + (79 * x**9 + 776 * x**7 + 1482 * x**5 - 1920 * x**3 - 945 * x) / (92160 * freedom**4)
    )


def rounded_down(value: float) -> float:
    """Return the value with three digits, and not above it."""
    scale = 10.0 ** (_DIGITS - 1 - math.floor(math.log10(value)))
    return math.floor(value * scale) / scale
