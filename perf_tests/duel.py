"""Two ways to do one thing, measured against each other: interleaved in one process, order alternating."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Duel:
    """Seconds of each round of both sides, in the order measured."""

    challenger_s: tuple[float, ...]
    baseline_s: tuple[float, ...]

    @property
    def speedup(self) -> float:
        """How many times faster the challenger is: the ratio of the medians."""
        return statistics.median(self.baseline_s) / statistics.median(self.challenger_s)


def run_duel(
    challenger: Callable[[], object], baseline: Callable[[], object], *, rounds: int, warm_up: int = 2
) -> Duel:
    """Measure both sides `rounds` times. Each must wait for its device to be done before it returns."""
    for _ in range(warm_up):
        challenger()
        baseline()
    times: dict[str, list[float]] = {"challenger": [], "baseline": []}
    sides = [("challenger", challenger), ("baseline", baseline)]
    for place in range(rounds):
        for name, side in sides if place % 2 == 0 else reversed(sides):
            started = time.perf_counter()
            side()
            times[name].append(time.perf_counter() - started)
    return Duel(tuple(times["challenger"]), tuple(times["baseline"]))
