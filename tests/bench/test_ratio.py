"""The ratio of two sides, its interval, and the verdict that follows from it."""

from __future__ import annotations

import math
import random

import pytest

from tfgpu_doctor.bench.ratio import (
    BATCHES,
    PROCESS_SPREAD,
    T975,
    Ratio,
    log_ratio,
    quantile,
    ratio_of_processes,
    ratio_of_rounds,
)
from tfgpu_doctor.bench.verdict import judge


def test_the_quantiles_are_those_of_students_t() -> None:
    student = pytest.importorskip("scipy.stats", reason="the benchmarks' own packages are not installed").t
    for freedom, due in enumerate(T975, 1):
        assert student.ppf(0.975, freedom) == pytest.approx(due, abs=6e-4)
    assert (quantile(2), quantile(5), quantile(21)) == (T975[0], T975[3], T975[19])
    assert quantile(0) == quantile(1) == quantile(22) == pytest.approx(student.ppf(0.975, 10**9), abs=1e-3)


@pytest.mark.parametrize(
    ("values", "due"),
    [(0, 1.96), (1, 1.96), (2, 12.706), (5, 2.776), (19, 2.101), (20, 2.093), (21, 2.086), (22, 1.96), (500, 1.96)],
)
def test_the_quantile_is_from_the_table_as_far_as_it_goes(values: int, due: float) -> None:
    assert quantile(values) == due


def test_a_round_that_is_slow_on_both_sides_does_not_count() -> None:
    assert math.exp(log_ratio([2.0, 20.0, 2.2, 2.0], [1.0, 10.0, 1.1, 9.0])) == pytest.approx(2.0)


def test_the_interval_of_processes_is_students() -> None:
    logs = [math.log(each) for each in (1.9, 2.0, 2.1)]
    ratio = ratio_of_processes(logs)
    student = pytest.importorskip("scipy.stats", reason="the benchmarks' own packages are not installed").t
    low, high = student.interval(0.95, 2, loc=sum(logs) / 3, scale=_deviation(logs) / math.sqrt(3))
    assert (ratio.low, ratio.high) == pytest.approx((math.exp(low), math.exp(high)), rel=1e-3)
    assert ratio.value == pytest.approx((1.9 * 2.0 * 2.1) ** (1 / 3))
    assert ratio.log_error(3) == pytest.approx(_deviation(logs) / math.sqrt(3))


def _deviation(values: list[float]) -> float:
    mean = sum(values) / len(values)
    return math.sqrt(sum((each - mean) ** 2 for each in values) / (len(values) - 1))


def test_one_process_knows_no_better_than_processes_differ() -> None:
    ratio = ratio_of_rounds([2.0] * 20, [1.0] * 20)
    assert ratio.value == pytest.approx(2.0)
    assert math.log(ratio.high / ratio.low) / 2 == pytest.approx(1.96 * PROCESS_SPREAD)


def test_batches_that_differ_widen_the_interval() -> None:
    """A slow moment outlasts a round: rounds that are not independent must not count as if they were."""
    steady = [1.0] * 50
    in_batches = [1.0 + 0.1 * (place // 10 % 2) for place in range(50)]
    by_turns = [1.0 + 0.1 * (place % 2) for place in range(50)]
    assert ratio_of_rounds(in_batches, steady).half_width > 2 * ratio_of_rounds(by_turns, steady).half_width


def test_every_round_is_in_one_batch() -> None:
    numbers = random.Random(5)
    for count in (BATCHES, 7, 12, 123):
        slow = [math.exp(numbers.gauss(0, 0.01)) for _ in range(count)]
        middle = ratio_of_rounds(slow, [1.0] * count)
        for place in range(0, count, max(1, count // 3)):
            changed = [*slow[:place], 1e6, *slow[place + 1 :]]
            batch = math.ceil(count / BATCHES)
            moved = ratio_of_rounds(changed, [1.0] * count)
            assert moved != middle or batch > 2  # a median of three or more leaves it out


@pytest.mark.parametrize(
    ("ratio", "at_least", "verdict"),
    [
        (Ratio(1.5, 1.4, 1.6), 1.0, "faster"),
        (Ratio(1.5, 1.4, 1.6), 1.45, "not shown"),
        (Ratio(1.015, 1.01, 1.02), 1.0, "not shown"),
        (Ratio(1.03, 1.02, 1.04), 1.0, "not shown"),  # not above the smallest effect
        (Ratio(1.6, 1.5, 1.7), 1.5, "not shown"),  # not above what is asked for
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
