"""The time of a run, and what each comparison gets of it."""

from __future__ import annotations

import pytest

from tfgpu_doctor.perf_tests.budget import LEAST_S, MOST_S, USUAL_S, Budget, parse_budget, passes_for
from tfgpu_doctor.perf_tests.replay import ReplayTimer


@pytest.mark.parametrize(
    ("text", "seconds"), [("60s", 60), ("5m", 300), ("2min", 120), ("90", 90), ("1.5h", 5400), ("full", None)]
)
def test_a_budget_as_people_write_it(text: str, seconds: float | None) -> None:
    assert parse_budget(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-5s", "0", "60 seconds ago"])
def test_what_is_no_budget_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="budget"):
        parse_budget(text)


def test_what_is_left_is_shared_and_never_overdrawn() -> None:
    now = [0.0]
    budget = Budget(30.0, waiting=20, clock=lambda: now[0])
    shares = []
    while (share := budget.share_s()) is not None:
        assert LEAST_S <= share <= USUAL_S
        shares.append(share)
        now[0] += share
        budget.one_is_done()
    assert len(shares) == 10
    assert now[0] <= 30.0


def test_without_an_end_each_takes_what_it_needs() -> None:
    assert Budget(None, waiting=100).share_s() == MOST_S


def test_the_timer_says_over_what_was_measured() -> None:
    timer = ReplayTimer()
    timer.replay([0.5, 0.25])
    first, second = timer(), timer()
    assert second - first == 0.5
    first, second = timer(), timer()
    assert second - first == 0.25
    assert timer() > 0  # the usual clock again


@pytest.mark.parametrize(
    ("budget_s", "processes", "seconds"),
    [(20.0, 3, 0.5), (120.0, 3, 0.5), (180.0, 5, 0.3), (900.0, 5, 1.0), (None, 7, 1.0)],
)
def test_more_time_is_more_processes(budget_s: float | None, processes: int, seconds: float) -> None:
    assert passes_for(budget_s) == (processes, seconds)


@pytest.mark.parametrize("start_s", [3.0, 20.0])
def test_the_first_of_several_processes_leaves_time_for_the_others(start_s: float) -> None:
    now = [0.0]
    budget = Budget(120.0, clock=lambda: now[0], processes=3)
    now[0] = start_s
    measured = 0
    while budget.share_s(fixed_s=0.5):
        measured += 1
        now[0] += 2.0  # with its preparation
    others_s = 2 * (min(start_s, 6.0) + 2.0 * measured)
    assert measured >= 8
    assert now[0] + others_s < 120.0


def test_in_several_processes_every_comparison_takes_as_long() -> None:
    now = [0.0]
    budget = Budget(30.0, waiting=2, clock=lambda: now[0])
    assert budget.share_s(fixed_s=0.5) == 0.5
    now[0] = 29.4
    assert budget.share_s(fixed_s=0.5) == 0.5
    assert budget.share_s(needs_s=8.0, fixed_s=0.5) is None
    now[0] = 29.6
    assert budget.share_s(fixed_s=0.5) is None
