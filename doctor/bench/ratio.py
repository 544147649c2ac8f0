"""How many times faster one side is, with a confidence interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_RESAMPLES = 2000
_CONFIDENCE = 0.95
_SEED = 20261121  # the same times always give the same interval
_BLOCKS = 24


@dataclass(frozen=True)
class Ratio:
    """A ratio of medians with its 95 % confidence interval."""

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half the interval relative to the ratio: 0.02 is plus or minus 2 %."""
        return (self.high - self.low) / (2 * self.value)

    @property
    def log_error(self) -> float:
        """The standard error of the ratio's logarithm, assuming a normal distribution."""
        return (math.log(self.high) - math.log(self.low)) / (2 * 1.96)


def ratio_of_medians(baseline_s: Sequence[float], candidate_s: Sequence[float]) -> Ratio:
    """Return how many times faster the candidate is than the baseline, from rounds measured in pairs (seconds).

    The interval comes from the percentile bootstrap over blocks of neighboring rounds (Efron, Tibshirani: An
    Introduction to the Bootstrap, 1993, chapters 8 and 13). Both sides of a round are resampled together, because
    interference on the machine slows both; neighbors are too, because such interference outlasts a round.
    """
    import numpy as np
    from scipy.stats import bootstrap

    length = max(1, len(baseline_s) // _BLOCKS)
    count = len(baseline_s) // length
    # Rounds beyond the last complete block do not count for the interval; the ratio itself uses all rounds.
    baseline, candidate = (
        np.asarray(times[: count * length], dtype=float).reshape(count, length) for times in (baseline_s, candidate_s)
    )

    def statistic(drawn: Any, axis: int = -1) -> Any:
        shape = (*drawn.shape[:-1], count * length)
        medians = (np.median(side[drawn].reshape(shape), axis=axis) for side in (baseline, candidate))
        return next(medians) / next(medians)

    value = float(np.median(baseline_s) / np.median(candidate_s))
    drawn = bootstrap(
        (np.arange(count),), statistic, vectorized=True, n_resamples=_RESAMPLES, confidence_level=_CONFIDENCE,
        method="percentile", rng=np.random.default_rng(_SEED),
    )  # fmt: skip
    low, high = (float(end) for end in drawn.confidence_interval)
    return Ratio(value, low, high)
