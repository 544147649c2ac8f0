"""Measure two sides, interleaved in one process in a random order."""

from __future__ import annotations

import functools
import gc
import math
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tfgpu_doctor.bench.ratio import BATCHES, Ratio, log_ratio, ratio_of_rounds

Call = Callable[[], object]
Clock = Callable[[], float]
CANDIDATE, BASELINE = 0, 1


@dataclass(frozen=True)
class Plan:
    """How long to measure. What was measured never decides when to stop: that would bias the interval."""

    seconds: float = 5.0
    rounds: int = 15  # at least, if `patience` times the seconds suffice for them
    least_rounds: int = BATCHES  # however long they take
    patience: float = 2.0
    most_rounds: int = 2000
    least_round_s: float = 0.002  # a call shorter than this is repeated within one timed round

    @classmethod
    def part(cls, seconds: float) -> Plan:
        """Return the plan of one of several processes: few rounds are enough for its one value."""
        return cls(seconds, least_rounds=3)

    def is_over(self, rounds: int, seconds: float) -> bool:
        """Whether this many rounds in this time are enough."""
        if rounds >= self.most_rounds:
            return True
        due = self.seconds if rounds >= self.rounds else self.patience * self.seconds
        return rounds >= self.least_rounds and seconds >= due


@dataclass(frozen=True)
class Measured:
    """The seconds per call in each round; both sides have the same order of rounds."""

    candidate_s: tuple[float, ...]
    baseline_s: tuple[float, ...]
    calls_a_round: tuple[int, int]  # candidate, baseline
    seconds: float

    @property
    def log_ratio(self) -> float:
        """The logarithm of the ratio in this process, to be combined with those of other processes."""
        return log_ratio(self.baseline_s, self.candidate_s)

    @functools.cached_property
    def ratio(self) -> Ratio:
        """The ratio and its interval, as far as one process can tell."""
        return ratio_of_rounds(self.baseline_s, self.candidate_s)


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


def orders(seed: int) -> Iterator[tuple[int, int]]:
    """Yield which side each round measures first: at random, and in each pair of rounds each side once.

    Random, because what the machine does at regular intervals would otherwise always meet the same side.
    """
    draw = random.Random(seed)  # noqa: S311 - no secret
    while True:
        first = draw.randrange(2)
        yield first, 1 - first
        yield 1 - first, first


def measure(
    candidate: Call,
    baseline: Call,
    *,
    plan: Plan | None = None,
    synchronise: Call = lambda: None,
    clock: Clock = time.perf_counter,
    on_round: Callable[[int], None] = lambda _: None,
    seed: int | None = None,
) -> Measured:
    """Measure both sides. Each must have been called before, so that tracing and compilation are not measured.

    `synchronise` waits until every device has finished its work. `on_round` gets the number of finished rounds. `seed`
    is of the order of the sides; None: another one each time.
    """
    plan = plan or Plan()
    sides = (_Side(candidate, synchronise, clock), _Side(baseline, synchronise, clock))
    for side in sides:
        side.calls = _calls_a_round(side, plan)
    times: tuple[list[float], list[float]] = ([], [])
    collecting = gc.isenabled()
    gc.disable()
    started = clock()
    try:
        for number, order in enumerate(orders(time.time_ns() if seed is None else seed)):
            if plan.is_over(number, clock() - started):
                break
            for which in order:
                times[which].append(sides[which].seconds())
            on_round(number + 1)
    finally:
        if collecting:
            gc.enable()
    calls = (sides[0].calls, sides[1].calls)
    return Measured(tuple(times[CANDIDATE]), tuple(times[BASELINE]), calls, clock() - started)


def _calls_a_round(side: _Side, plan: Plan) -> int:
    """Return how many calls fill a round, from the faster of two calls, which also warm up the side."""
    return max(1, math.ceil(plan.least_round_s / max(min(side.seconds(), side.seconds()), 1e-7)))
