"""The time of a run, and what each comparison gets of it."""

from __future__ import annotations

import pytest

from tfgpu_doctor.perf_tests.budget import LEAST_S, MOST_S, USUAL_S, Budget, parse_budget
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
    assert len(shares) >= 15
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
