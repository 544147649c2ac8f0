"""Count how often intervals and verdicts are right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibration.engine import judged
from calibration.methods import Method
from calibration.scenarios import ROUND_S, Random, Scenario, Shape
from tfgpu_doctor.bench.ratio import Ratio
from tfgpu_doctor.bench.verdict import judge
from tfgpu_doctor.perf_tests.budget import Passes

PLANTED = 1.1  # times as fast, or as slow
LEAST_COVERED, LEAST_IF_INDEPENDENT, MOST_FALSE, LEAST_FOUND = 0.90, 0.95, 0.025, 0.95
_SPARE = 60  # rounds beyond the budget: noise may make them short


@dataclass(frozen=True)
class Outcome:
    """One trial: the engine's ratio, and the simulated seconds of its rounds."""

    ratio: Ratio
    seconds: float


@dataclass(frozen=True)
class Score:
    """Shares of the trials. `held`: the interval contains the truth, or the verdict is `too noisy`."""

    trials: int
    covered: float
    held: float
    faster: float
    slower: float
    noisy: float
    found_faster: float
    found_slower: float
    half_width: float  # median
    seconds: float  # median

    def misses(self, scenario: Scenario, errors: float = 3.0) -> list[str]:
        """Return which promises are missed, by more than so many standard errors of the simulation."""
        least = LEAST_IF_INDEPENDENT if scenario.independent else LEAST_COVERED
        short = {
            "covered": (least, self.held),
            "false": (1 - MOST_FALSE, 1 - max(self.faster, self.slower)),
            "found": (LEAST_FOUND if scenario.quiet else 0.0, min(self.found_faster, self.found_slower)),
        }
        return [
            name
            for name, (due, seen) in short.items()
            if seen < due - errors * math.sqrt(due * (1 - due) / self.trials)
        ]


def times(ratio: Ratio, factor: float) -> Ratio:
    """Return the ratio of a candidate that is that many times as fast: every part of a Ratio scales with the times."""
    return Ratio(ratio.value * factor, ratio.low * factor, ratio.high * factor)


def score(outcomes: Sequence[Outcome]) -> Score:
    """Return the shares; the true ratio is 1."""
    ratios = [each.ratio for each in outcomes]
    verdicts, faster, slower = (
        [judge(times(each, factor))[0] for each in ratios] for factor in (1.0, PLANTED, 1 / PLANTED)
    )
    covered = [each.low <= 1 <= each.high for each in ratios]
    held = [inside or verdict == "too noisy" for inside, verdict in zip(covered, verdicts, strict=True)]
    number = len(outcomes)
    return Score(
        trials=number, covered=sum(covered) / number, held=sum(held) / number,
        faster=verdicts.count("faster") / number, slower=verdicts.count("slower") / number,
        noisy=verdicts.count("too noisy") / number, found_faster=faster.count("faster") / number,
        found_slower=slower.count("slower") / number,
        half_width=float(np.median([each.half_width for each in ratios])),
        seconds=float(np.median([each.seconds for each in outcomes])),
    )  # fmt: skip


def of_engine(scenario: Scenario, random: Random, trials: int, passes: Passes) -> Score:
    """Let the engine measure that many trials."""
    rounds = math.ceil(2 * passes.seconds / ROUND_S) + _SPARE
    given = scenario.times(random, Shape(trials, passes.processes, rounds))
    return score([Outcome(*judged(each, passes)) for each in given])


def of_method(scenario: Scenario, random: Random, trials: int, method: Method) -> Score:
    """Let a candidate for the engine's interval judge that many trials, by the engine's verdict."""
    given = scenario.times(random, method.shape(trials))
    seconds = given.sum(axis=(1, 2, 3))
    rows = np.exp(method.answer(given))
    return score([Outcome(Ratio(*map(float, row)), float(took)) for row, took in zip(rows, seconds, strict=True)])
