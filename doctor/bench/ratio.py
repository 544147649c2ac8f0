"""How many times as fast one side is, with a confidence interval."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

LEAST_PROCESSES = 3  # two values give an interval of no use: Student's t with one degree of freedom is 12.7
BATCHES = 5  # of the rounds of one process
# Standard deviation of a ratio's logarithm from process to process, as far as an interval from one process counts it:
# memory and compiled code lie elsewhere in each.
PROCESS_SPREAD = 0.015
_NORMAL = 1.96
# Quantiles of Student's t for 0.975 and 1 to 20 degrees of freedom:
# https://www.itl.nist.gov/div898/handbook/eda/section3/eda3672.htm
T975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
)  # fmt: skip


@dataclass(frozen=True)
class Ratio:
    """A ratio with its 95 % confidence interval."""

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half the interval relative to the ratio: 0.02 is plus or minus 2 %."""
        return (self.high - self.low) / (2 * self.value)

    def log_error(self, values: int = 0) -> float:
        """The standard error of the ratio's logarithm, from the interval of that many values; 0: of many."""
        return (math.log(self.high) - math.log(self.low)) / (2 * quantile(values))


def quantile(values: int) -> float:
    """Return half the width of a 95 % interval in standard errors: Student's t for that many values; 0: for many."""
    return T975[values - 2] if 2 <= values < len(T975) + 2 else _NORMAL


def log_ratio(baseline_s: Sequence[float], candidate_s: Sequence[float]) -> float:
    """Return the median of the logarithms of the rounds' own ratios, baseline over candidate (seconds).

    What happens to both sides of a round cancels, and a few rounds of any kind do not move the median.
    """
    pairs = zip(baseline_s, candidate_s, strict=True)
    return statistics.median(math.log(baseline / candidate) for baseline, candidate in pairs)


def ratio_of_processes(logs: Sequence[float]) -> Ratio:
    """Return the ratio from the logarithm that each process measured; there must be at least two.

    The interval is Student's t for these values alone: what differs from process to process is in it (Kalibera, Jones:
    Rigorous Benchmarking in Reasonable Time, ISMM 2013, section 5). docs/calibration.md shows what it holds.
    """
    return _around(statistics.fmean(logs), _half(logs))


def ratio_of_rounds(baseline_s: Sequence[float], candidate_s: Sequence[float]) -> Ratio:
    """Return the ratio from the rounds of one process (seconds), of which there must be at least `BATCHES`.

    The interval comes from the means of batches of neighboring rounds (Law, Kelton: Simulation Modeling and Analysis,
    2000, chapter 9.5.3). It is wider by what is known to differ between processes, which one process cannot show.
    """
    count = len(baseline_s)
    ends = [round(number * count / BATCHES) for number in range(BATCHES + 1)]
    logs = [log_ratio(baseline_s[first:last], candidate_s[first:last]) for first, last in itertools.pairwise(ends)]
    return _around(statistics.fmean(logs), math.hypot(_half(logs), _NORMAL * PROCESS_SPREAD))


def _half(logs: Sequence[float]) -> float:
    return quantile(len(logs)) * statistics.stdev(logs) / math.sqrt(len(logs))


def _around(middle: float, half: float) -> Ratio:
    return Ratio(math.exp(middle), math.exp(middle - half), math.exp(middle + half))
