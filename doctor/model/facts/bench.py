"""Facts of the perf suites: duels and figures, as they were measured."""

from __future__ import annotations

from typing import Literal

from tfgpu_doctor.model.facts.attempt import Fact
from tfgpu_doctor.model.facts.load import Readings

Verdict = Literal["faster", "not shown", "slower", "too noisy", "not run"]


class Side(Fact, frozen=True):
    """One side of a duel, and its times (seconds a call), one a round."""

    name: str
    device: str = ""  # where its work was seen to run: "GPU:0", "CPU:0"
    first_call_s: float = 0.0  # tracing, compilation, filling of caches: outside the clock
    calls_a_round: int = 1
    seconds: tuple[float, ...] = ()

    @property
    def median_s(self) -> float:
        """The median of its times; 0 where there are none."""
        ordered = sorted(self.seconds)
        half = len(ordered) // 2
        if not ordered:
            return 0.0
        return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


class Duel(Fact, frozen=True):
    """Two ways to do one thing, measured against each other. `ratio`: how many times as fast the challenger is."""

    suite: str
    name: str
    verdict: Verdict
    reason: str = ""  # why it is not `faster`
    ratio: float | None = None
    interval: tuple[float, float] | None = None  # of the ratio, 95 %
    at_least: float = 1.0  # what the ratio must be above
    rounds: int = 0
    device: str = ""  # of the challenger
    on_gpu: bool = False  # whether it needs a GPU
    challenger: Side | None = None
    baseline: Side | None = None
    started: float = 0.0  # seconds since 1970
    took_s: float = 0.0
    other_work: float | None = None  # the share of all processors' time that others took meanwhile, 0 to 1
    readings: dict[str, Readings] = {}  # clocks, heat and power meanwhile, by NVML's number of each GPU

    @property
    def key(self) -> str:
        """What it is known by from run to run."""
        return f"{self.suite}::{self.name}"


class Figure(Fact, frozen=True):
    """Something measured that is no duel: a bandwidth, a crossover size, a latency."""

    suite: str
    name: str
    value: float
    unit: str
    device: str = ""
    limit: float | None = None  # what the hardware could do at most, in the same unit
    limit_source: str = ""
    measured_limit: float | None = None  # the most that this machine was seen to do, in the same unit
    bounded_by: str = ""  # the figure of the same run that shows it
    about: str = ""


class Bench(Fact, frozen=True):
    """One run of the perf suites."""

    suite_version: str = ""
    budget_s: float | None = None  # None: without a limit
    seconds: float = 0.0
    duels: tuple[Duel, ...] = ()
    figures: tuple[Figure, ...] = ()
    skipped: dict[str, str] = {}  # tests that measured nothing, with the reason
    failed: dict[str, str] = {}  # tests that found something wrong which no duel tells
    interrupted: bool = False  # what is here was measured until then
    gpu_lost: str = ""  # why no GPU answered any more, though all was well before the run
    problems: tuple[str, ...] = ()  # what kept suites from running: a crash, a hang, a missing package
