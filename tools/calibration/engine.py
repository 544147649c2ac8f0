"""The engine's own rounds and interval, on a simulated clock."""

from __future__ import annotations

from dataclasses import dataclass, field

from calibration.scenarios import CALL_S, SEED, Array
from tfgpu_doctor.bench.measurement import Measured, Plan, measure
from tfgpu_doctor.bench.ratio import Ratio, ratio_of_processes
from tfgpu_doctor.perf_tests.budget import Passes


@dataclass
class Replay:
    """A clock that only calls of the sides move; the times of their rounds are given."""

    baseline: Array
    candidate: Array
    now: float = 0.0
    _calls: list[int] = field(default_factory=lambda: [0, 0])

    def clock(self) -> float:
        """Return the simulated seconds."""
        return self.now

    def call(self, which: int) -> None:
        """Let one call pass. The first two calls of a side warm it up, before the rounds."""
        number = self._calls[which] - 2
        self._calls[which] += 1
        self.now += CALL_S if number < 0 else float((self.baseline, self.candidate)[which][number])


def replay(baseline: Array, candidate: Array, plan: Plan) -> Measured:
    """Return what the engine measures if its rounds take those times, of which there must be enough."""
    machine = Replay(baseline, candidate)
    return measure(lambda: machine.call(1), lambda: machine.call(0), plan=plan, clock=machine.clock, seed=SEED)


def judged(times: Array, passes: Passes) -> tuple[Ratio, float]:
    """Return the engine's ratio and its simulated seconds, from times of the shape processes, sides, rounds."""
    if passes.processes == 1:
        alone = replay(times[0, 0], times[0, 1], Plan(passes.seconds))
        return alone.ratio, alone.seconds
    parts = [replay(each[0], each[1], Plan.part(passes.seconds)) for each in times]
    return ratio_of_processes([each.log_ratio for each in parts]), sum(each.seconds for each in parts)
