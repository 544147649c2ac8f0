"""A run against earlier ones."""

from __future__ import annotations

import random

import msgspec
import pytest

from tfgpu_doctor.bench.regression import compare, normal_of, suspects
from tfgpu_doctor.model.facts.bench import Bench, Comparison


def comparison(ratio: float | None, width: float = 0.02, name: str = "prefetch") -> Comparison:
    if ratio is None:
        return Comparison(suite="pipeline", name=name, verdict="not run", reason="out of memory")
    interval = (ratio * (1 - width), ratio * (1 + width))
    return Comparison(suite="pipeline", name=name, verdict="faster", ratio=ratio, interval=interval, rounds=20)


def status(now: Comparison, then: Comparison, *earlier: Comparison) -> str:
    (row,) = compare(
        Bench(comparisons=(now,)), [Bench(comparisons=(then,))], [Bench(comparisons=(each,)) for each in earlier]
    )
    return row.status


@pytest.mark.parametrize(
    ("now", "then", "expected"),
    [
        (comparison(2.0), comparison(2.0), "within"),
        (comparison(1.8), comparison(2.0), "slower"),
        (comparison(2.2), comparison(2.0), "faster"),
        (comparison(1.96), comparison(2.0), "within"),
        (comparison(1.5, width=0.3), comparison(2.0), "unstable"),
        (comparison(2.6, width=0.2), comparison(2.0), "within"),
        (comparison(None), comparison(2.0), "missing"),
        (comparison(2.0), comparison(None), "no reference"),
        (comparison(None), comparison(None), "no reference"),
    ],
)
def test_the_standing(now: Comparison, then: Comparison, expected: str) -> None:
    assert status(now, then) == expected


def test_a_comparison_that_did_not_run_is_missing() -> None:
    rows = compare(
        Bench(comparisons=(comparison(2.0),)), [Bench(comparisons=(comparison(2.0), comparison(3.0, name="cache")))]
    )
    assert [(row.name, row.status) for row in rows] == [("prefetch", "within"), ("cache", "missing")]


def test_a_comparison_that_the_reference_does_not_know_has_none() -> None:
    (row,) = compare(Bench(comparisons=(comparison(2.0),)), [Bench()])
    assert row.status == "no reference"


def test_results_that_always_vary_raise_no_alarm() -> None:
    """Ten per cent less is no news where earlier runs of this machine differed by as much."""
    varied = [comparison(each) for each in (1.7, 2.3, 1.8, 2.2, 2.0, 1.75, 2.1, 1.9)]
    steady = [comparison(each) for each in (2.0, 2.01, 1.99, 2.0, 2.0, 2.01, 2.0, 2.0)]
    assert status(comparison(1.8), comparison(2.0), *varied) == "unstable"
    assert status(comparison(1.8), comparison(2.0), *steady) == "slower"


def beside(share: float, ratio: float, width: float = 0.02) -> Comparison:
    return msgspec.structs.replace(comparison(ratio, width), other_work=share)


def test_a_busier_machine_than_then_raises_no_alarm() -> None:
    assert status(beside(0.6, 1.8), beside(0.05, 2.0)) == "unstable"
    assert status(beside(0.05, 1.8), beside(0.05, 2.0)) == "slower"


def test_an_interval_measured_beside_much_other_work_counts_as_wider() -> None:
    assert status(beside(0.0, 1.84, 0.03), beside(0.0, 2.0, 0.03)) == "slower"
    assert status(beside(0.9, 1.84, 0.03), beside(0.9, 2.0, 0.03)) == "unstable"


def test_within_is_said_where_a_slowdown_is_ruled_out_and_nowhere_else() -> None:
    (row,) = compare(Bench(comparisons=(comparison(1.92, 0.05),)), [Bench(comparisons=(comparison(2.0, 0.05),))])
    assert row.interval is not None
    assert row.interval[0] < 0.9 < 1 < row.interval[1]
    assert row.status == "unstable"
    assert "a slowdown by 10% is not ruled out" in row.reason
    assert status(comparison(1.92), comparison(2.0)) == "within"


def test_other_work_is_told_where_there_was_some() -> None:
    (row,) = compare(Bench(comparisons=(beside(0.6, 1.8),)), [Bench(comparisons=(beside(0.05, 2.0),))])
    assert row.reason.endswith("; other processes used 60% of the CPU time, and 5% in the reference")
    (row,) = compare(Bench(comparisons=(beside(0.05, 1.8),)), [Bench(comparisons=(comparison(2.0),))])
    assert "other processes" not in row.reason


def test_among_many_comparisons_a_change_has_to_be_larger() -> None:
    """Of 35 comparisons without a change, one is 6 % slower by chance in many runs; 10 % is not chance."""

    def statuses(changed: float, count: int) -> list[str]:
        then = [comparison(2.0, 0.01, f"number {number}") for number in range(count)]
        now = [comparison(2.0 * changed, 0.01, "number 0"), *then[1:]]
        rows = compare(Bench(comparisons=tuple(now)), [Bench(comparisons=tuple(then))])
        return [row.status for row in rows]

    assert statuses(0.9365, 1) == ["slower"]
    assert statuses(0.9365, 35) == ["unstable", *["within"] * 34]
    assert statuses(0.90, 35) == ["slower", *["within"] * 34]
    assert statuses(1.12, 35) == ["faster", *["within"] * 34]


def whole_run(seed: int, spread: float, changed: float = 1.0, count: int = 0) -> Bench:
    """A run of 35 comparisons whose ratios vary by `spread`; the first `count` also changed."""
    draw = random.Random(seed)
    ratios = [2.0 * (1 + draw.gauss(0, spread)) * (changed if place < count else 1.0) for place in range(35)]
    return Bench(comparisons=tuple(comparison(each, 0.01, f"number {place}") for place, each in enumerate(ratios)))


def slower(now: Bench, references: list[Bench], again: Bench | None = None) -> int:
    return [row.status for row in compare(now, references, (), again)].count("slower")


def test_a_machine_that_varies_more_than_usual_raises_no_alarm() -> None:
    """With 3 % from run to run, 9 of 10 runs would have a false alarm; what became faster by chance prevents it."""
    assert sum(slower(whole_run(seed, 0.03), [whole_run(100 + seed, 0.03)]) > 0 for seed in range(20)) <= 3


@pytest.mark.parametrize("count", [1, 17, 35])
def test_however_many_became_slower_they_are_found(count: int) -> None:
    """Also if half of a run, or all of it, changed with a new driver: that is no spread of the machine."""
    then, again = [whole_run(1, 0.01), whole_run(2, 0.01)], whole_run(4, 0.01, 0.88, count)
    assert slower(whole_run(3, 0.01, 0.88, count), then, again) == count


def test_what_looks_changed_is_measured_again_and_judged_by_both() -> None:
    then, now = Bench(comparisons=(comparison(2.0),)), Bench(comparisons=(comparison(1.87),))
    assert suspects(now, [then]) == ["pipeline::prefetch"]
    assert suspects(then, [then]) == []
    (alone,) = compare(now, [then])
    (confirmed,) = compare(now, [then], (), now)
    (denied,) = compare(now, [then], (), then)
    assert (alone.status, confirmed.status, denied.status) == ("unstable", "slower", "within")
    assert (alone.measured_again, confirmed.measured_again) == (False, True)
    assert denied.change == pytest.approx((1.87 / 2.0) ** 0.5)


def test_several_runs_under_one_name_are_one_reference() -> None:
    then = [Bench(comparisons=(comparison(each),)) for each in (1.98, 2.0, 2.02)]
    (row,) = compare(Bench(comparisons=(comparison(1.86),)), then)
    assert row.reference == pytest.approx(2.0, rel=1e-3)
    assert row.status == "slower"  # against one run of them: unstable
    assert status(comparison(1.86), comparison(1.98)) == "unstable"


def test_what_only_one_reference_measured_has_one() -> None:
    then = [Bench(comparisons=(comparison(None),)), Bench(comparisons=(comparison(2.0),))]
    (row,) = compare(Bench(comparisons=(comparison(2.0),)), then)
    assert (row.status, row.reference) == ("within", 2.0)


@pytest.mark.parametrize("freedom", [4.0, 14.0, 40.0])
@pytest.mark.parametrize("t", [0.5, 2.0, 3.5, 6.0])
def test_students_t_as_a_normal_deviation(freedom: float, t: float) -> None:
    stats = pytest.importorskip("scipy.stats", reason="the benchmarks' own packages are not installed")
    assert normal_of(t, freedom) == pytest.approx(stats.norm.isf(stats.t.sf(t, freedom)), rel=0.01)
