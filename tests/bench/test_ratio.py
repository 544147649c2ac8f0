"""The ratio of medians, its interval, and the verdict that follows from it."""

from __future__ import annotations

import math
import random

import pytest

from tfgpu_doctor.bench.ratio import Ratio, ratio_of_medians
from tfgpu_doctor.bench.verdict import judge

pytest.importorskip("scipy", reason="the benchmarks' own packages are not installed")


def noisy(median_s: float, rounds: int, seed: int, spread: float = 0.05) -> list[float]:
    """Times as a machine gives them: mostly near the median, a few much slower."""
    numbers = random.Random(seed)
    return [median_s * math.exp(abs(numbers.gauss(0, spread)) + (numbers.random() < 0.1)) for _ in range(rounds)]


def test_the_ratio_is_that_of_the_medians() -> None:
    ratio = ratio_of_medians([2.0, 2.0, 2.2] * 8, [1.0, 1.0, 9.0] * 8)
    assert ratio.value == 2.0
    assert ratio.low <= 2.0 <= ratio.high


def test_the_same_times_give_the_same_interval() -> None:
    baseline, candidate = noisy(2.0, 60, seed=1), noisy(1.0, 60, seed=2)
    assert ratio_of_medians(baseline, candidate) == ratio_of_medians(baseline, candidate)


def test_the_interval_holds_the_true_ratio_as_often_as_it_says() -> None:
    held = 0
    for seed in range(100):
        ratio = ratio_of_medians(noisy(1.5, 60, seed=seed), noisy(1.0, 60, seed=1000 + seed))
        held += ratio.low <= 1.5 <= ratio.high
    assert (
        held >= 88
    )  # 95 are meant; with fewer than 88 of 100 the interval would be of another level (binomial, 0.1 %)


def test_slow_moments_of_the_machine_widen_the_interval() -> None:
    """A slow moment outlasts a round: rounds that are not independent must not count as if they were."""
    steady = [1.0 + 0.01 * (place % 7) for place in range(240)]
    in_blocks = [each * (1.5 if place // 40 % 2 else 1.0) for place, each in enumerate(steady)]
    alone = ratio_of_medians(steady, steady[::-1])
    blocked = ratio_of_medians(in_blocks, steady)
    assert blocked.half_width > 3 * alone.half_width


@pytest.mark.parametrize(
    ("ratio", "at_least", "verdict"),
    [
        (Ratio(1.5, 1.4, 1.6), 1.0, "faster"),
        (Ratio(1.5, 1.4, 1.6), 1.45, "not shown"),
        (Ratio(1.015, 1.01, 1.02), 1.0, "not shown"),
        (Ratio(1.0, 0.97, 1.03), 1.0, "not shown"),
        (Ratio(0.9, 0.88, 0.92), 1.0, "slower"),
        (Ratio(0.99, 0.985, 0.995), 1.0, "not shown"),
        (Ratio(1.3, 1.02, 1.6), 1.0, "too noisy"),
        (Ratio(0.8, 0.6, 0.95), 1.0, "too noisy"),
        (Ratio(5.0, 3.5, 6.5), 1.0, "faster"),  # wide, and far from 1 all the same
        (Ratio(0.2, 0.15, 0.25), 1.0, "slower"),
        (Ratio(4.5, 2.8, 7.4), 1.1, "faster"),
        (Ratio(1.37, 1.09, 1.66), 1.0, "too noisy"),
    ],
)
def test_the_verdict(ratio: Ratio, at_least: float, verdict: str) -> None:
    told, reason = judge(ratio, at_least)
    assert told == verdict
    assert bool(reason) == (verdict != "faster")
