"""Measure two sides, interleaved in one process with alternating order, until the ratio is known precisely enough."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from tfgpu_doctor.bench.ratio import Ratio, ratio_of_medians

Call = Callable[[], object]
Clock = Callable[[], float]


@dataclass(frozen=True)
class Plan:
    """When to stop measuring: when the interval is narrow enough, or when the time is used up."""

    budget_s: float = 5.0
    least_rounds: int = 12
    most_rounds: int = 600
    half_width: float = 0.02
    patient_half_width: float = 0.01  # if the budget is more than `patient_from_s`
    patient_from_s: float = 5.0
    least_round_s: float = 0.002  # a call shorter than this is repeated within one timed round

    @property
    def enough(self) -> float:
        """Half the width of the interval, relative to the ratio, at which measuring stops: 0.02 is plus or minus 2 %."""
        return self.patient_half_width if self.budget_s > self.patient_from_s else self.half_width


@dataclass(frozen=True)
class Measured:
    """The seconds per call in each round; both sides have the same order of rounds."""

    candidate_s: tuple[float, ...]
    baseline_s: tuple[float, ...]
    calls_a_round: tuple[int, int]  # candidate, baseline
    ratio: Ratio
    seconds: float


@dataclass
class _Side:
    """One side: the function to call, and the number of calls in one timed round."""

    call: Call
    synchronise: Call
    clock: Clock
    calls: int = 1

    def seconds(self) -> float:
        """Return the seconds per call, including the time until the device has finished."""
        started = self.clock()
        for _ in range(self.calls):
            self.call()
        self.synchronise()
        return (self.clock() - started) / self.calls


def measure(
    candidate: Call,
    baseline: Call,
    *,
    plan: Plan | None = None,
    synchronise: Call = lambda: None,
    clock: Clock = time.perf_counter,
    on_round: Callable[[int], None] = lambda _: None,
) -> Measured:
    """Measure both sides. Each must have been called before, so that tracing and compilation are not measured.

    `synchronise` waits until every device has finished its work. `on_round` gets the number of finished rounds.
    """
    plan = plan or Plan()
    started = clock()
    sides = (_Side(candidate, synchronise, clock), _Side(baseline, synchronise, clock))
    for side in sides:
        side.calls = _calls_a_round(side, plan)
    times: tuple[list[float], list[float]] = ([], [])
    collecting = gc.isenabled()
    gc.disable()
    try:
        ratio = _rounds(sides, times, plan, started, on_round)
    finally:
        if collecting:
            gc.enable()
    calls = (sides[0].calls, sides[1].calls)
    return Measured(tuple(times[0]), tuple(times[1]), calls, ratio, clock() - started)


def _calls_a_round(side: _Side, plan: Plan) -> int:
    """Return how many calls fill a round, from the faster of two calls, which also warm up the side."""
    return max(1, math.ceil(plan.least_round_s / max(min(side.seconds(), side.seconds()), 1e-7)))


def _rounds(
    sides: tuple[_Side, _Side],
    times: tuple[list[float], list[float]],
    plan: Plan,
    started: float,
    on_round: Callable[[int], None],
) -> Ratio:
    """Fill `times`. Only the width of the interval decides when to stop; its position would bias the verdict."""
    look_at = plan.least_rounds
    while True:
        number = len(times[0])
        for which in (0, 1) if number % 2 == 0 else (1, 0):
            times[which].append(sides[which].seconds())
        number += 1
        on_round(number)
        late = number >= plan.least_rounds and sides[0].clock() - started > plan.budget_s
        if late or number >= look_at or number >= plan.most_rounds:
            ratio = ratio_of_medians(times[1], times[0])
            if late or number >= plan.most_rounds or ratio.half_width <= plan.enough:
                return ratio
            look_at = math.ceil(number * 1.3)
