"""The rounds of a comparison, under a clock that the test turns on."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from tfgpu_doctor.bench.measurement import Plan, measure, orders
from tfgpu_doctor.bench.verdict import judge


class Machine:
    """A clock, and work that takes as long as it says."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls: list[str] = []

    def work(self, name: str, seconds: Callable[[], float]) -> Callable[[], None]:
        def call() -> None:
            self.calls.append(name)
            self.now += seconds()

        return call


def test_a_slower_candidate_is_called_slower() -> None:
    machine = Machine()
    slow, fast = machine.work("slow", lambda: 0.0110), machine.work("fast", lambda: 0.0100)
    measured = measure(slow, fast, clock=lambda: machine.now)
    assert measured.ratio.value == pytest.approx(1 / 1.1)
    assert judge(measured.ratio)[0] == "slower"


def test_the_order_of_the_sides_is_random_and_each_is_first_equally_often() -> None:
    first = [order[0] for order in itertools.islice(orders(1), 400)]
    assert all(sum(pair) == 1 for pair in zip(first[::2], first[1::2], strict=True))
    changes = sum(one == other for one, other in zip(first[::2], first[2::2], strict=False))
    assert 70 < changes < 130  # of 199; binomial, beyond 4 standard deviations
    assert [order[0] for order in itertools.islice(orders(2), 400)] != first


def test_the_order_is_what_is_measured() -> None:
    machine = Machine()
    measured = measure(
        machine.work("a", lambda: 0.01), machine.work("b", lambda: 0.01), clock=lambda: machine.now,
        plan=Plan(0.2, rounds=12), seed=7,
    )  # fmt: skip
    timed = machine.calls[4:]  # two of each to find out how many calls fill a round
    assert len(measured.candidate_s) == 12
    assert timed == ["ab"[side] for order in itertools.islice(orders(7), 12) for side in order]


def test_a_machine_that_slows_down_half_way_favours_no_side() -> None:
    machine = Machine()

    def seconds() -> float:
        return 0.02 if machine.now > 1.0 else 0.01

    measured = measure(
        machine.work("a", seconds), machine.work("b", seconds), clock=lambda: machine.now, plan=Plan(2.0)
    )
    assert judge(measured.ratio)[0] != "slower"
    assert judge(measured.ratio)[0] != "faster"


def test_short_calls_are_repeated_within_a_round() -> None:
    machine = Machine()
    measured = measure(
        machine.work("a", lambda: 0.0001), machine.work("b", lambda: 0.01), clock=lambda: machine.now,
        plan=Plan(least_round_s=0.002),
    )  # fmt: skip
    assert measured.calls_a_round == (20, 1)
    assert measured.candidate_s[0] == pytest.approx(0.0001)


@pytest.mark.parametrize(
    ("call_s", "rounds"),
    [
        (0.01, 50),  # 20 ms a round: the seconds
        (0.05, 15),  # the seconds suffice for 10 rounds, and for the usual number with patience
        (0.2, 5),  # with patience for 5
        (3.0, 5),  # for none: as few as an interval needs
    ],
)
def test_it_takes_its_seconds_and_no_more_than_a_few_slow_rounds_need(call_s: float, rounds: int) -> None:
    machine = Machine()
    sides = (machine.work("a", lambda: call_s), machine.work("b", lambda: call_s))
    measured = measure(*sides, clock=lambda: machine.now, plan=Plan(1.0, rounds=15, least_rounds=5, patience=2.0))
    assert abs(len(measured.candidate_s) - rounds) <= 1


def test_what_is_measured_does_not_decide_when_it_ends() -> None:
    def rounds(spread: float) -> int:
        machine = Machine()
        turns = itertools.cycle((1 - spread, 1 + spread, 1 + spread, 1 - spread))
        work = machine.work("a", lambda: 0.01 * next(turns))
        return len(
            measure(work, machine.work("b", lambda: 0.01), clock=lambda: machine.now, plan=Plan(1.0)).candidate_s
        )

    assert abs(rounds(0.0) - rounds(0.5)) <= 1


def test_every_reading_of_the_clock_waits_for_the_devices() -> None:
    machine = Machine()
    pending = [0.0]

    def launch() -> None:
        pending[0] += 0.01

    def synchronise() -> None:
        machine.now += pending[0]
        pending[0] = 0.0

    measured = measure(launch, machine.work("b", lambda: 0.02), synchronise=synchronise, clock=lambda: machine.now)
    assert measured.ratio.value == pytest.approx(2.0)
