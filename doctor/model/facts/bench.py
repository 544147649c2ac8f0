"""Facts of the perf suites: comparisons and metrics, as measured."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from tfgpu_doctor.model.facts.attempt import Fact
from tfgpu_doctor.model.facts.schema_1 import bench_renamed
from tfgpu_doctor.model.facts.stress import Readings
from tfgpu_doctor.model.redaction import Count, Number, Text, Version

Verdict = Literal["faster", "not shown", "slower", "too noisy", "not run"]


class Side(Fact, frozen=True):
    """One side of a comparison, and its times (seconds per call), one per round."""

    name: Text
    device: Text = ""  # the device that ran its work: "GPU:0", "CPU:0"
    also: tuple[Text, ...] = ()  # further GPUs that ran a part of it
    first_call_s: Number = 0.0  # tracing, compilation, filling of caches: not part of the measured times
    calls_a_round: Count = 1
    seconds: tuple[Number, ...] = ()

    @property
    def median_s(self) -> float:
        """The median of its times; 0 if there are none."""
        ordered = sorted(self.seconds)
        half = len(ordered) // 2
        if not ordered:
            return 0.0
        return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


class Comparison(Fact, frozen=True):
    """Two variants of one task, measured against each other. `ratio`: how many times as fast the candidate is."""

    suite: Text
    name: Text
    verdict: Verdict
    reason: Text = ""  # why it is not `faster`, and whether the clock of a GPU fell meanwhile
    harmless: bool = False  # of `not run`: nothing is wrong, it only lacked something, such as memory
    ratio: Number | None = None
    interval: tuple[Number, Number] | None = None  # of the ratio, 95 %
    at_least: Number = 1.0  # the ratio must be above this
    rounds: Count = 0
    device: Text = ""  # of the candidate
    on_gpu: bool = False  # whether one of its sides needs a GPU
    candidate: Side | None = None
    baseline: Side | None = None
    process_ratios: tuple[Number, ...] = ()  # the ratio in each process that measured it
    started: Number = 0.0  # seconds since 1970
    took_s: Number = 0.0  # in all processes together
    spans: tuple[tuple[Number, Number], ...] = ()  # start and duration of the measurement in each process
    other_work: Number | None = None  # the share of all CPU time that other processes used during the run, 0 to 1
    readings: dict[Text, Readings] = {}  # clocks, temperature and power meanwhile, by NVML's index of each GPU it used

    @property
    def key(self) -> str:
        """Its identifier from run to run."""
        return f"{self.suite}::{self.name}"


class Metric(Fact, frozen=True):
    """A measurement that is not a comparison: a bandwidth, a crossover size, a latency."""

    suite: Text
    name: Text
    value: Number
    unit: Text
    device: Text = ""
    limit: Number | None = None  # the most that the hardware can do, in the same unit
    limit_source: Text = ""
    usual: Number | None = None  # what many healthy GPUs of this model reach, in the same unit
    usual_source: Text = ""
    measured_limit: Number | None = None  # the most that was measured on this machine, in the same unit
    bounded_by: Text = ""  # the metric of the same run that measured this limit
    about: Text = ""


class Bench(Fact, frozen=True):
    """One run of the perf suites."""

    suite_version: Version = ""
    suites: tuple[Text, ...] = ()  # that were ordered; empty: all, or an earlier doctor did not record them
    gpus_listed: Count = 0  # by TensorFlow; 0: none, or an earlier doctor did not record it
    budget_s: Number | None = None  # None: without a limit
    seconds: Number = 0.0
    conditions: dict[Text, Text] = {}  # what results depend on besides the hardware: versions, settings
    comparisons: tuple[Comparison, ...] = ()
    metrics: tuple[Metric, ...] = ()
    skipped: dict[Text, Text] = {}  # tests that measured nothing, with the reason
    failed: dict[Text, Text] = {}  # tests that found a problem outside of the comparisons
    interrupted: bool = False  # only the measurements until then are included
    busy: dict[Text, Text] = {}  # why a GPU ("GPU:0") was not measured: others use it
    gpu_lost: Text = ""  # why no GPU responded any longer, although all was well before the run
    problems: tuple[Text, ...] = ()  # what kept suites from running: a crash, a hang, a missing package


def decode_bench(document: bytes) -> Bench:
    """A run that was saved as JSON, also by an earlier doctor. Raises msgspec.DecodeError."""
    try:
        found = msgspec.json.decode(document, type=dict[str, Any])
        return msgspec.convert(bench_renamed(found), Bench)
    except (RecursionError, UnicodeDecodeError, TypeError, AttributeError) as error:
        raise msgspec.DecodeError(f"it is no run of the suites ({type(error).__name__})") from None
