"""The rounds of a comparison, under a clock that the test turns on."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tfgpu_doctor.bench.measurement import Plan, measure
from tfgpu_doctor.bench.verdict import judge

pytest.importorskip("scipy", reason="the benchmarks' own packages are not installed")


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


def test_the_sides_alternate() -> None:
    machine = Machine()
    measured = measure(
        machine.work("a", lambda: 0.01), machine.work("b", lambda: 0.01), clock=lambda: machine.now,
        plan=Plan(least_rounds=12),
    )  # fmt: skip
    timed = machine.calls[4:]  # two of each to find out how many calls fill a round
    assert len(measured.candidate_s) == 12
    assert timed == ["a", "b", "b", "a"] * 6


def test_a_machine_that_slows_down_half_way_favours_no_side() -> None:
    machine = Machine()

    def seconds() -> float:
        return 0.02 if machine.now > 1.0 else 0.01

    measured = measure(
        machine.work("a", seconds), machine.work("b", seconds), clock=lambda: machine.now, plan=Plan(least_rounds=60)
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


def test_it_ends_with_its_budget_and_never_without_the_least_number_of_rounds() -> None:
    machine = Machine()
    noise = iter(range(10**6))
    noisy = machine.work("a", lambda: 0.1 * (1 + next(noise) % 5))
    measured = measure(noisy, machine.work("b", lambda: 0.1), clock=lambda: machine.now, plan=Plan(budget_s=0.5))
    assert len(measured.candidate_s) == Plan().least_rounds
    assert measured.seconds > 0.5


def test_it_ends_when_the_interval_is_narrow_enough_and_with_more_time_at_a_narrower_one() -> None:
    def rounds_within(budget_s: float) -> int:
        machine, noise = Machine(), random.Random(7)
        work = machine.work("a", lambda: 0.01 * (1 + noise.gauss(0, 0.05)))
        plan = Plan(budget_s=budget_s)
        measured = measure(work, machine.work("b", lambda: 0.01), clock=lambda: machine.now, plan=plan)
        assert measured.ratio.half_width <= plan.enough
        assert measured.seconds < budget_s
        return len(measured.candidate_s)

    assert rounds_within(20.0) > 2 * rounds_within(5.0) > 2 * Plan().least_rounds


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
