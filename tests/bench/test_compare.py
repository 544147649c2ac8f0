"""A run against earlier ones."""

from __future__ import annotations

import msgspec
import pytest

from tfgpu_doctor.bench.compare import compare
from tfgpu_doctor.model.facts.bench import Bench, Duel


def duel(ratio: float | None, width: float = 0.02, name: str = "prefetch") -> Duel:
    if ratio is None:
        return Duel(suite="pipeline", name=name, verdict="not run", reason="out of memory")
    interval = (ratio * (1 - width), ratio * (1 + width))
    return Duel(suite="pipeline", name=name, verdict="faster", ratio=ratio, interval=interval, rounds=20)


def standing(now: Duel, then: Duel, *earlier: Duel) -> str:
    (row,) = compare(Bench(duels=(now,)), Bench(duels=(then,)), [Bench(duels=(each,)) for each in earlier])
    return row.standing


@pytest.mark.parametrize(
    ("now", "then", "expected"),
    [
        (duel(2.0), duel(2.0), "within"),
        (duel(1.8), duel(2.0), "slower"),
        (duel(2.2), duel(2.0), "faster"),
        (duel(1.96), duel(2.0), "within"),
        (duel(1.5, width=0.3), duel(2.0), "unstable"),
        (duel(2.6, width=0.2), duel(2.0), "within"),
        (duel(None), duel(2.0), "missing"),
        (duel(2.0), duel(None), "no reference"),
        (duel(None), duel(None), "no reference"),
    ],
)
def test_the_standing(now: Duel, then: Duel, expected: str) -> None:
    assert standing(now, then) == expected


def test_a_duel_that_did_not_run_is_missing() -> None:
    rows = compare(Bench(duels=(duel(2.0),)), Bench(duels=(duel(2.0), duel(3.0, name="cache"))))
    assert [(row.name, row.standing) for row in rows] == [("prefetch", "within"), ("cache", "missing")]


def test_a_duel_that_the_reference_does_not_know_has_none() -> None:
    (row,) = compare(Bench(duels=(duel(2.0),)), Bench())
    assert row.standing == "no reference"


def test_results_that_always_vary_raise_no_alarm() -> None:
    """Ten per cent less is no news where earlier runs of this machine differed by as much."""
    varied = [duel(each) for each in (1.7, 2.3, 1.8, 2.2, 2.0, 1.75)]
    steady = [duel(each) for each in (2.0, 2.01, 1.99, 2.0, 2.0, 2.01)]
    assert standing(duel(1.8), duel(2.0), *varied) == "unstable"
    assert standing(duel(1.8), duel(2.0), *steady) == "slower"


def beside(share: float, ratio: float, width: float = 0.02) -> Duel:
    return msgspec.structs.replace(duel(ratio, width), other_work=share)


def test_a_busier_machine_than_then_raises_no_alarm() -> None:
    assert standing(beside(0.6, 1.8), beside(0.05, 2.0)) == "unstable"
    assert standing(beside(0.05, 1.8), beside(0.05, 2.0)) == "slower"


def test_an_interval_measured_beside_much_other_work_counts_as_wider() -> None:
    assert standing(beside(0.0, 1.84, 0.03), beside(0.0, 2.0, 0.03)) == "slower"
    assert standing(beside(0.9, 1.84, 0.03), beside(0.9, 2.0, 0.03)) == "unstable"


def test_within_is_said_where_a_slowdown_is_ruled_out_and_nowhere_else() -> None:
    (row,) = compare(Bench(duels=(duel(1.92, 0.05),)), Bench(duels=(duel(2.0, 0.05),)))
    assert row.interval is not None
    assert row.interval[0] < 0.9 < 1 < row.interval[1]
    assert row.standing == "unstable"
    assert "a slowdown by 10% is not ruled out" in row.reason
    assert standing(duel(1.92), duel(2.0)) == "within"


def test_other_work_is_told_where_there_was_some() -> None:
    (row,) = compare(Bench(duels=(beside(0.6, 1.8),)), Bench(duels=(beside(0.05, 2.0),)))
    assert row.reason.endswith("others took 60% of the processors' time, then 5%")
    (row,) = compare(Bench(duels=(beside(0.05, 1.8),)), Bench(duels=(duel(2.0),)))
    assert "others" not in row.reason
