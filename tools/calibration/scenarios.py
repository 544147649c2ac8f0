"""Fifteen kinds of noise, as the times that rounds of two sides would measure.

Both sides are equal in distribution, unless a scenario says otherwise, so the true ratio is 1 for every statistic that
scales with the times. One call takes 5 ms, so one round of both sides takes 10 ms. What happens to a machine at a time
happens to both sides: it is generated for the slots of single calls, whose order is the engine's.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.signal import lfilter

from tfgpu_doctor.bench.measurement import CANDIDATE, orders

Array: TypeAlias = npt.NDArray[np.float64]
Random: TypeAlias = np.random.Generator

CALL_S = 0.005  # one call of either side without noise
ROUND_S = 2 * CALL_S
SEED = 1  # of the order of the sides
FLOOR = 0.01  # independent noise of every call, beside the noise that a scenario is about


@dataclass(frozen=True)
class Shape:
    """What to simulate: `trials` experiments, each with `processes` that measure `rounds`, seconds apart.

    `fresh`: each is a new process. Otherwise one process returns to the comparison that many times.
    """

    trials: int
    processes: int
    rounds: int
    fresh: bool = True

    @property
    def sides(self) -> tuple[int, int, int, int]:
        """Trials, processes, the two sides (baseline, candidate), rounds."""
        return (self.trials, self.processes, 2, self.rounds)


Noise: TypeAlias = Callable[[Random, Shape], Array]  # the logarithm of each call's time, relative to CALL_S


@dataclass(frozen=True)
class Scenario:
    """A kind of noise. `quiet`: a planted 10 % has to be found. `independent`: rounds have nothing in common."""

    name: str
    parameters: str
    noise: Noise
    quiet: bool = False
    independent: bool = False

    def times(self, random: Random, shape: Shape) -> Array:
        """Return the seconds of each call, in the shape `shape.sides`."""
        return CALL_S * np.exp(self.noise(random, shape))


def normal(spread: float) -> Noise:
    """Independent noise with that standard deviation."""
    return lambda random, shape: spread * random.standard_normal(shape.sides)


def skewed(random: Random, shape: Shape) -> Array:
    """Independent waiting times (exponential, 10 % on average) on top of each call."""
    waits: Array = np.log1p(random.exponential(0.1, shape.sides))
    return waits + normal(FLOOR)(random, shape)


def tails(random: Random, shape: Shape) -> Array:
    """Student's t with 2 degrees of freedom: an infinite variance; at most a factor of 3."""
    clipped: Array = np.clip(0.03 * random.standard_t(2, shape.sides), -np.log(3), np.log(3))
    return clipped


def two_modes(random: Random, shape: Shape) -> Array:
    """Each call takes 25 % longer with a probability of 0.4."""
    slow: Array = (random.random(shape.sides) < 0.4).astype(float)
    return float(np.log(1.25)) * slow + normal(FLOOR)(random, shape)


def autoregressive(random: Random, shape: tuple[int, ...], step: float, spread: float) -> Array:
    """Return a stationary process along the last axis: x[i] = step x[i-1] + e[i], with standard deviation `spread`."""
    shocks = random.standard_normal(shape)
    shocks[..., 1:] *= np.sqrt(1 - step**2)
    filtered: Array = lfilter([1.0], [1.0, -step], shocks, axis=-1)
    return spread * filtered


def bursts(random: Random, shape: tuple[int, ...], gap: float, length: float) -> Array:
    """Return 1 during a burst and 0 otherwise: a Markov chain with those mean lengths in steps, in its stationary state."""
    state = random.random(shape[:-1]) < length / (gap + length)
    found = np.empty(shape)
    for step in range(shape[-1]):
        found[..., step] = state
        state = random.random(shape[:-1]) < np.where(state, 1 - 1 / length, 1 / gap)
    return found


def from_slots(slots: Array) -> Array:
    """Return what each side gets of a machine's noise, given per call, in the engine's order."""
    pairs = slots.reshape((*slots.shape[:-1], -1, 2))
    order = np.array([first for first, _ in itertools.islice(orders(SEED), pairs.shape[-2])])
    candidate_first = order == CANDIDATE
    first, second = pairs[..., 0], pairs[..., 1]
    return np.stack([np.where(candidate_first, second, first), np.where(candidate_first, first, second)], axis=-2)


def _slots(shape: Shape) -> tuple[int, int, int]:
    return (shape.trials, shape.processes, 2 * shape.rounds)


def common_wander(random: Random, shape: Shape) -> Array:
    """Both sides become slower and faster together: 10 %, with a correlation of 0.995 from call to call."""
    wander = autoregressive(random, _slots(shape), 0.995, 0.1)
    return from_slots(wander) + normal(FLOOR)(random, shape)


def common_bursts(random: Random, shape: Shape) -> Array:
    """Other work slows both sides by 50 %, for 0.1 s on average, in a tenth of the time."""
    slow = bursts(random, _slots(shape), 180, 20)
    return float(np.log(1.5)) * from_slots(slow) + normal(FLOOR)(random, shape)


def drift(random: Random, shape: Shape) -> Array:
    """Both sides become slower by 2 % a second, from the start of each process."""
    seconds = np.arange(2 * shape.rounds) * CALL_S
    slots = np.broadcast_to(0.02 * seconds, _slots(shape)).copy()
    return from_slots(slots) + normal(FLOOR)(random, shape)


def own_wander(step: float, spread: float) -> Noise:
    """Each side wanders on its own, with that correlation from round to round."""
    return lambda random, shape: autoregressive(random, shape.sides, step, spread) + normal(FLOOR)(random, shape)


def own_bursts(random: Random, shape: Shape) -> Array:
    """Bursts as above, each of one side alone: 20 rounds on average, in a tenth of the time."""
    slow = bursts(random, shape.sides, 180, 20)
    return float(np.log(1.5)) * slow + normal(FLOOR)(random, shape)


def process_offsets(spread: float) -> Noise:
    """The ratio is off by `spread` (standard deviation) in each process: memory and compiled code lie elsewhere."""

    def noise(random: Random, shape: Shape) -> Array:
        times = normal(FLOOR)(random, shape)
        processes = shape.processes if shape.fresh else 1
        times[:, :, 1] += spread * random.standard_normal((shape.trials, processes, 1))
        return times

    return noise


def slow_wander(random: Random, shape: Shape) -> Array:
    """The candidate wanders by 2 % with a correlation time of 60 s, and its processes are 12 s apart."""
    times = normal(FLOOR)(random, shape)
    times[:, :, 1] += autoregressive(random, (shape.trials, shape.processes), np.exp(-12 / 60), 0.02)[..., None]
    return times


def boost_end(sides: slice) -> Noise:
    """The clock of a cold device is 5 % higher for 0.5 to 1.5 s from the start of the first process, then never again."""

    def noise(random: Random, shape: Shape) -> Array:
        times = normal(FLOOR)(random, shape)
        ends = random.uniform(0.5, 1.5, (shape.trials, 1, 1)) / ROUND_S
        times[:, 0, sides] -= 0.05 * (np.arange(shape.rounds) < ends)
        return times

    return noise


SCENARIOS = (
    Scenario("independent 1 %", "normal, 1 %", normal(0.01), quiet=True, independent=True),
    Scenario("independent 5 %", "normal, 5 %", normal(0.05), quiet=True, independent=True),
    Scenario("independent 15 %", "normal, 15 %", normal(0.15), independent=True),
    Scenario("skewed", "exponential waits, 10 % on average", skewed, quiet=True, independent=True),
    Scenario("tails", "Student's t with 2 degrees of freedom, times 3 %", tails, quiet=True, independent=True),
    Scenario("two modes", "40 % of the calls take 25 % longer", two_modes, independent=True),
    Scenario("common wander", "10 %, AR 0.995 from call to call (1 s)", common_wander, quiet=True),
    Scenario("common bursts", "50 % slower, 0.1 s long, a tenth of the time", common_bursts, quiet=True),
    Scenario("drift", "2 % a second, both sides", drift, quiet=True),
    Scenario("own wander 0.9", "5 %, AR 0.9 from round to round, each side", own_wander(0.9, 0.05)),
    Scenario("own wander 0.98", "5 %, AR 0.98 from round to round, each side", own_wander(0.98, 0.05)),
    Scenario("one-sided bursts", "50 % slower, 20 rounds long, a tenth of each side's rounds", own_bursts),
    Scenario("process offsets", "1.5 % from process to process", process_offsets(0.015), quiet=True),
    Scenario("boost end", "both sides 5 % faster until 0.5 to 1.5 s", boost_end(slice(None)), quiet=True),
    Scenario("boost end, one side", "the candidate 5 % faster until 0.5 to 1.5 s", boost_end(slice(1, None))),
)  # fmt: skip
# What no promise covers: told, so that nobody believes more than the intervals hold.
BEYOND = (
    Scenario("process offsets of 5 %", "from process to process", process_offsets(0.05)),
    Scenario("slow wander", "2 % of the candidate alone, correlated over 60 s; processes 12 s apart", slow_wander),
)
