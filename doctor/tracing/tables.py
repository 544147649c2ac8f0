"""The tables of the document: the stages of the pipeline, and the operations that take the most time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import msgspec

from tfgpu_doctor.tracing.case import Case
from tfgpu_doctor.tracing.gpu_streams import NO_WORK, computing_gpus, kind_of, streams
from tfgpu_doctor.tracing.intervals import length
from tfgpu_doctor.tracing.pipeline import Stage
from tfgpu_doctor.tracing.recorded import Event, Profile

_MOST_STAGES, _MOST_OPERATIONS = 40, 10


class StageRow(msgspec.Struct, frozen=True, kw_only=True):
    """A stage of the input pipeline, from the program's end to the source."""

    path: str
    name: str
    calls: int
    busy_share: float  # of the steps' time
    parallelism: int
    is_slowest: bool


class OperationRow(msgspec.Struct, frozen=True, kw_only=True):
    """An operation or a kernel: its time summed over threads or streams, in ms, and how often it ran."""

    name: str
    total_ms: float
    count: int


def stage_rows(case: Case, slowest: Stage | None) -> tuple[StageRow, ...]:
    """The stages of the pipeline by their paths; empty if the profile has none."""
    if case.pipeline is None:
        return ()
    whole = max(1e-9, length([case.times.window]))
    stages = sorted(case.pipeline.stages.values(), key=lambda each: each.path)
    return tuple(
        StageRow(
            path=stage.path.removeprefix("Iterator::"), name=str(stage.settings.get("name", "")), calls=stage.calls,
            busy_share=round(length(stage.busy) / whole, 4), parallelism=stage.parallelism, is_slowest=stage is slowest,
        )
        for stage in stages[:_MOST_STAGES]
    )  # fmt: skip


def operation_rows(case: Case) -> tuple[OperationRow, ...]:
    """What took the most time within the steps: of the GPUs' streams if they compute, else of the threads."""
    low, high = case.times.window
    total_ms: dict[str, float] = defaultdict(float)
    counts: dict[str, int] = defaultdict(int)
    for event in _operations(case.profile):
        if low <= event.begin < high:
            total_ms[event.name] += event.duration
            counts[event.name] += 1
    first = sorted(total_ms, key=lambda each: -total_ms[each])[:_MOST_OPERATIONS]
    return tuple(OperationRow(name=name, total_ms=round(total_ms[name], 3), count=counts[name]) for name in first)


def _operations(profile: Profile) -> Iterator[Event]:
    if computing_gpus(profile):
        for _, stream in streams(profile):
            yield from (event for event in stream.events if kind_of(event.name) != NO_WORK)
        return
    for thread in profile.threads:
        for kind in ("operation", "python", "xla call"):
            yield from thread.events.get(kind, ())
