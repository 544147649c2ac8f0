"""Candidates for the engine's interval. Each gets the times of all trials, and returns the logarithm of the ratio.

Times have the shape trials, processes, sides (baseline, candidate), rounds. An answer has a row per trial: the
logarithm of the ratio, and the low and the high end of its 95 % interval.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.stats import t

from calibration.scenarios import ROUND_S, Array, Shape

Answer: TypeAlias = Array
_TAIL = 0.975
_SURE = 1.96


@dataclass(frozen=True)
class Method:
    """A candidate: how it measures (every trial alike, without an early end), and how it computes the interval."""

    name: str
    parameters: str
    processes: int
    seconds: float  # in each process
    answer: Callable[[Array], Answer]
    fresh: bool = True  # as in Shape

    def shape(self, trials: int) -> Shape:
        """Return what to simulate for that many trials."""
        return Shape(trials, self.processes, round(self.seconds / ROUND_S), self.fresh)


def log_ratio(times: Array) -> Array:
    """Return the logarithm of the ratio of medians; the last axes are sides and rounds."""
    medians = np.log(np.median(times, axis=-1))
    found: Array = medians[..., 0] - medians[..., 1]
    return found


def in_batches(times: Array, count: int) -> Array:
    """Return the logarithm of the ratio in each of `count` batches of neighboring rounds, along a new last axis."""
    length = times.shape[-1] // count
    cut = times[..., : count * length].reshape((*times.shape[:-1], count, length))
    return log_ratio(np.moveaxis(cut, -3, -2))


def around(middle: Array, half: Array) -> Answer:
    """Return the answer with that middle and half its width."""
    return np.stack([middle, middle - half, middle + half], axis=-1)


def t_interval(values: Array) -> Answer:
    """Return mean plus or minus t(0.975, k - 1) s / sqrt(k) along the last axis.

    With batches as values: batch means (Law, Kelton: Simulation Modeling and Analysis, 2000, chapter 9.5.3). With
    processes as values: the top level of Kalibera, Jones: Rigorous Benchmarking in Reasonable Time, ISMM 2013.
    """
    number = values.shape[-1]
    error = values.std(axis=-1, ddof=1) / math.sqrt(number)
    return around(values.mean(axis=-1), t.ppf(_TAIL, number - 1) * error)


def batch_means(count: int) -> Callable[[Array], Answer]:
    """Batches of one process as if they were independent."""
    return lambda times: t_interval(in_batches(times, count)[:, 0])


def processes(times: Array) -> Answer:
    """One ratio of medians in each process, and Student's t for these few values."""
    return t_interval(log_ratio(times))


def paired(times: Array) -> Array:
    """Return the median of the logarithms of the rounds' own ratios: what happens to both sides of a round cancels."""
    logs = np.log(times)
    found: Array = np.median(logs[..., 0, :] - logs[..., 1, :], axis=-1)
    return found


def paired_processes(times: Array) -> Answer:
    """One median of paired ratios in each process, and Student's t for these few values."""
    return t_interval(paired(times))


def longer_if_wide(first: int, limit: float) -> Callable[[Array], Answer]:
    """The same with the first few processes; with all of them where half the interval is wider than the limit."""

    def answer(times: Array) -> Answer:
        values = paired(times)
        short, long = t_interval(values[:, :first]), t_interval(values)
        return np.where((short[:, 2:] - short[:, :1]) > limit, long, short)

    return answer


def with_allowance(spread: float) -> Callable[[Array], Answer]:
    """The same, wider by what is known to change from process to process but was not seen within one."""

    def answer(times: Array) -> Answer:
        seen = processes(times)
        return around(seen[:, 0], np.hypot(seen[:, 2] - seen[:, 0], _SURE * spread))

    return answer


def long_run_variance(values: Array, share: float) -> Array:
    """Return the variance of the mean along the last axis, by Bartlett's window over that share of the values.

    Newey, West: A Simple, Positive Semi-definite, Heteroskedasticity and Autocorrelation Consistent Covariance Matrix,
    Econometrica 55 (1987).
    """
    number = values.shape[-1]
    centred = values - values.mean(axis=-1, keepdims=True)
    width = max(1, round(share * number))
    total = (centred**2).sum(axis=-1)
    for lag in range(1, width):
        total += 2 * (1 - lag / width) * (centred[..., lag:] * centred[..., :-lag]).sum(axis=-1)
    found: Array = total / number**2
    return found


def fixed_b_quantile(share: float) -> float:
    """Return the 0.975 quantile of the t statistic with that window, instead of the normal distribution's 1.96.

    Kiefer, Vogelsang: A New Asymptotic Theory for Heteroskedasticity-Autocorrelation Robust Tests, Econometric Theory
    21 (2005), table 1, Bartlett.
    """
    return 1.96 + 2.9694 * share + 0.4160 * share**2 - 0.5324 * share**3


def lag_window(share: float) -> Callable[[Array], Answer]:
    """The mean of the rounds' log ratios in one process, with the variance from their correlations."""

    def answer(times: Array) -> Answer:
        logs = np.log(times[:, 0])
        ratios = logs[:, 0] - logs[:, 1]
        return around(ratios.mean(axis=-1), fixed_b_quantile(share) * np.sqrt(long_run_variance(ratios, share)))

    return answer


def widest(share: float) -> Callable[[Array], Answer]:
    """The wider of two: between the processes, and within them by a lag window."""

    def answer(times: Array) -> Answer:
        between = processes(times)
        logs = np.log(times)
        within = long_run_variance(logs[:, :, 0] - logs[:, :, 1], share).mean(axis=-1) / times.shape[1]
        half = np.maximum(between[:, 2] - between[:, 0], fixed_b_quantile(share) * np.sqrt(within))
        return around(between[:, 0], half)

    return answer


def stationary_bootstrap(batch: int, block: float, resamples: int = 999) -> Callable[[Array], Answer]:
    """Resample processes, then blocks of random length within them; the percentiles of the mean over small batches.

    Politis, Romano: The Stationary Bootstrap, Journal of the American Statistical Association 89 (1994). `block`: the
    mean length, in batches of `batch` rounds. The same resamples serve all trials, as the engine's seed does.
    """

    def answer(times: Array) -> Answer:
        values = in_batches(times, times.shape[-1] // batch)
        trials, number, length = values.shape
        weights = stationary_weights(number, length, block, resamples)
        means = values.reshape(trials, -1) @ weights.T
        low, high = np.percentile(means, [2.5, 97.5], axis=1)
        return np.stack([values.mean(axis=(1, 2)), low, high], axis=-1)

    return answer


@functools.cache
def stationary_weights(number: int, length: int, block: float, resamples: int) -> Array:
    """Return how much each value of each process counts in each resample; a row sums to 1."""
    random = np.random.default_rng(20261121)
    weights = np.zeros((resamples, number * length))
    for row in weights:
        for process in random.integers(0, number, number):
            starts = random.random(length) < 1 / block
            starts[0] = True
            places = random.integers(0, length, length)
            since = np.arange(length) - np.maximum.accumulate(np.where(starts, np.arange(length), 0))
            places = places[np.arange(length) - since] + since
            np.add.at(row, process * length + places % length, 1 / (number * length))
    return weights


def _paired(number: int, seconds: float) -> Method:
    return Method(
        f"paired {number} x {seconds:g}", f"{number} processes, {seconds:g} s each", number, seconds, paired_processes
    )


METHODS = (
    Method("batches", "8 batches of one process, 5 s", 1, 5.0, batch_means(8)),
    Method("lag window", "one process, 5 s, a window of half the rounds", 1, 5.0, lag_window(0.5)),
    Method("visits", "one process, 5 visits of 1 s, allowance of 1.5 %", 5, 1.0, with_allowance(0.015), fresh=False),
    Method("stationary", "stationary bootstrap of 5 processes, 1 s each", 5, 1.0, stationary_bootstrap(10, 3)),
    Method("widest", "5 processes, 1 s each; between or within (lag window of 0.2)", 5, 1.0, widest(0.2)),
    Method("medians", "5 processes, 0.3 s each, ratio of medians", 5, 0.3, processes),
    Method("paired", "5 processes, 0.3 s each, median of paired ratios", 5, 0.3, paired_processes),
    Method("more if wide", "the same, 10 processes if wider than 5 %", 10, 0.3, longer_if_wide(5, 0.05)),
)
DESIGNS = tuple(
    _paired(number, seconds)
    for number, seconds in ((3, 0.5), (3, 1.0), (4, 0.3), (4, 0.5), (5, 0.03), (5, 0.15), (5, 0.3), (5, 1.0), (7, 0.3), (10, 0.3))
)  # fmt: skip
