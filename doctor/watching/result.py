"""The document of `tfgpu-doctor watch`: what was seen of a training while it ran, and how it ended."""

from __future__ import annotations

import msgspec

from tfgpu_doctor.tracing import Gain, Shares, StepTimes, TraceCause, TraceReport

SCHEMA = 1


class TimelineEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A moment in the timeline: from `at_s` (since the start) on the verdict was this one."""

    at_s: float
    verdict: str
    title: str
    share: float | None = None  # of the steps' time that the first cause takes
    step_ms: float | None = None
    causes: tuple[str, ...] = ()  # labels of what outside of the program is behind it, first the one that matters


class MachineCause(msgspec.Struct, frozen=True, kw_only=True):
    """Something outside of the program's code that slowed it: `seconds` of the run, the evidence, the fix."""

    label: str
    title: str
    seconds: float
    evidence: tuple[str, ...]
    fix: str


class GpuSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU over the run; None where NVML does not say. `idle_share`: of the looks, those with under 5 % utilisation."""

    index: int
    name: str
    uuid: str
    utilization: float | None
    idle_share: float | None
    peak_used_bytes: int | None
    total_bytes: int | None
    power_w: float | None
    temperature_c: float | None
    sm_mhz: float | None
    max_sm_mhz: float | None
    reasons: dict[str, float]  # why clocks were low: the share of the looks
    tenants: tuple[str, ...]


class HostSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The program on its machine over the run: means, but for the peak of the memory."""

    cpu: float
    cpus: float | None
    queued: float | None
    others_cpu: float | None
    throttled: float | None
    io_stalled: float | None
    peak_memory_bytes: int


class Hang(msgspec.Struct, frozen=True, kw_only=True):
    """The program made no step for `seconds`. `kind`: exit, input, collective, read, driver, python, stopped, unknown."""

    kind: str
    title: str
    at_s: float
    seconds: float
    evidence: tuple[str, ...]
    fix: str
    holds_gpu_bytes: int | None = None
    holds_memory_bytes: int | None = None
    ended: str = ""  # what the doctor did: SIGTERM, SIGKILL; empty if it only told


class RuleResult(msgspec.Struct, frozen=True, kw_only=True):
    """A rule of --fail-if: whether its condition held for as long as it says. None: the value was never known."""

    rule: str
    broken: bool | None
    at_s: float | None = None
    longest_s: float = 0.0
    why: str = ""


class WatchReport(msgspec.Struct, frozen=True, kw_only=True):
    """The document; the first part is that of `trace`, for the verdict at the end. `healthy` is null if nobody knows."""

    schema: int = SCHEMA
    doctor: str
    command: str
    started: str  # ISO 8601, UTC
    seconds: float
    exit_code: int | None  # of the program; negative: the signal that ended it; None: it runs on, or --pid
    from_outside: bool  # --pid: the program was not started with the recorder
    verdict: str
    title: str
    why: str
    healthy: bool | None
    steps: StepTimes
    shares: Shares
    causes: tuple[TraceCause, ...]
    gain: Gain
    machine: tuple[MachineCause, ...]
    timeline: tuple[TimelineEntry, ...]
    gpus: tuple[GpuSummary, ...]
    host: HostSummary | None
    hang: Hang | None
    rules: tuple[RuleResult, ...]
    captures: int
    notes: tuple[str, ...]
    trace: TraceReport | None = None  # of the last recording that told something
