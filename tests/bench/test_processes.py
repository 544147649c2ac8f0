"""One comparison from the rows of several processes."""

from __future__ import annotations

import math

import pytest

from tfgpu_doctor.bench.processes import combined
from tfgpu_doctor.bench.ratio import ratio_of_processes
from tfgpu_doctor.model.facts.bench import Comparison, Side


def row(ratio: float, name: str = "one", **more: object) -> Comparison:
    told = {"verdict": "not run", "process_ratios": (ratio,), "rounds": 2, "started": 100.0, "took_s": 1.0, **more}
    sides = {"candidate": Side(name="new", seconds=(1.0, 1.0)), "baseline": Side(name="old", seconds=(ratio, ratio))}
    return Comparison(suite="made_up", name=name, ratio=ratio, **sides, **told)  # type: ignore[arg-type]


def test_the_ratio_is_that_of_all_processes() -> None:
    (found,) = combined([row(2.0), row(2.1), row(1.9)], 3)
    due = ratio_of_processes([math.log(each) for each in (2.0, 2.1, 1.9)])
    assert (found.verdict, found.ratio, found.interval) == ("faster", due.value, (due.low, due.high))
    assert found.process_ratios == (2.0, 2.1, 1.9)
    assert (found.rounds, found.took_s) == (6, 3.0)
    assert found.candidate and found.baseline
    assert found.candidate.seconds == (1.0,) * 6
    assert found.baseline.seconds == (2.0, 2.0, 2.1, 2.1, 1.9, 1.9)


def test_what_differs_from_process_to_process_is_too_noisy() -> None:
    (found,) = combined([row(2.0), row(1.0), row(1.4)], 3)
    assert found.verdict == "too noisy"


def test_each_comparison_has_its_own() -> None:
    rows = [row(2.0), row(0.5, "two"), row(2.0), row(0.5, "two"), row(2.0), row(0.5, "two")]
    assert [(each.name, each.verdict) for each in combined(rows, 3)] == [("one", "faster"), ("two", "slower")]


def test_two_processes_are_no_interval() -> None:
    (found,) = combined([row(2.0), row(2.1)], 5)
    assert (found.verdict, found.interval) == ("not run", None)
    assert found.ratio == pytest.approx(math.sqrt(4.2))
    assert found.reason == "2 of 5 processes measured it, and an interval needs 3"


def test_a_fault_in_one_process_is_the_result() -> None:
    fault = Comparison(suite="made_up", name="one", verdict="not run", reason="out of memory")
    (found,) = combined([row(2.0), row(2.0), row(2.0), fault], 5)
    assert found == fault


def test_a_fault_counts_before_memory_that_another_process_lacked() -> None:
    fault = Comparison(suite="made_up", name="one", verdict="not run", reason="the result is wrong")
    lacked = Comparison(suite="made_up", name="one", verdict="not run", reason="out of memory", harmless=True)
    assert combined([lacked, fault, row(2.0)], 3) == [fault]
    assert combined([row(2.0), lacked, row(2.0)], 3) == [lacked]


def test_a_process_that_judged_alone_keeps_its_verdict() -> None:
    alone = row(2.0, verdict="faster", interval=(1.9, 2.1))
    assert combined([alone], 1) == [alone]


def test_the_other_work_of_long_processes_counts_more() -> None:
    (found,) = combined([row(2.0, other_work=0.0, took_s=3.0), row(2.0, other_work=0.8), row(2.0)], 3)
    assert found.other_work == 0.2
