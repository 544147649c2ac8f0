"""When others take the CPUs of a program, and what its steps would be without them."""

from __future__ import annotations

import pytest

from tfgpu_doctor.model.cpu_contention import all_are_busy, factor, others_take, share_without


@pytest.mark.parametrize(("others", "taken"), [(1.9, False), (2.0, True)])
def test_a_quarter_of_the_cpus_is_taken(others: float, taken: bool) -> None:
    assert others_take(others, 8) is taken


@pytest.mark.parametrize(("used", "busy"), [(7.1, False), (7.2, True)])
def test_all_cpus_are_busy_from_nine_tenths_on(used: float, busy: bool) -> None:
    assert all_are_busy(used, 8) is busy


@pytest.mark.parametrize(
    ("own", "queued", "others", "expected"),
    [(1.0, 0.5, 4.0, 1.5), (1.0, 30.0, 0.5, 1.5), (1.0, 0.5, None, 1.5), (0.0, 1.0, 1.0, 11.0), (2.0, 0.0, 6.0, 1.0)],
    ids=["others are in the way", "its own threads are", "nobody counts others", "it gets none", "it waits for none"],
)
def test_the_cpu_time_that_others_cost(own: float, queued: float, others: float | None, expected: float) -> None:
    assert factor(own, queued, others) == pytest.approx(expected)


def test_what_is_left_of_a_bottleneck() -> None:
    assert share_without(0.5, 1.0) == pytest.approx(0.5)
    assert share_without(0.5, 4.0) == pytest.approx(0.2)
    assert share_without(1.0, 4.0) == pytest.approx(1.0)
