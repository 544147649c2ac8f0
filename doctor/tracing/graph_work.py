"""The model's graphs on the host: when they run on the processor, and when they are built or compiled."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator

from tfgpu_doctor.tracing.intervals import Interval, clip, overlap, union, without
from tfgpu_doctor.tracing.recorded import Event, Profile
from tfgpu_doctor.tracing.steps import Steps, outermost, waits_of

# Of an operation. TensorFlow calls one cheap below 8,000 cycles (kOpIsExpensiveThresholdCycles), and soon records it no more:
# https://github.com/tensorflow/tensorflow/blob/v2.21.0/tensorflow/core/common_runtime/executor.cc
WORK_US = 2


def work_of_processor(profile: Profile, steps: Steps) -> tuple[list[Interval], list[Interval]]:
    """The computation of the graphs that the program's thread began, not the pipeline's; and the reductions."""
    runs = _runs_of_model(profile)
    found: list[Interval] = []
    collectives: list[Interval] = []
    for thread in profile.threads:
        collectives += [each.interval for each in thread.events.get("collective", ())]
        if thread.of_pipeline:
            continue
        executed = thread.events.get("executor", ())
        found += [each.interval for each in executed if thread.stats(each).get("id") in runs]
        if thread is steps.thread:
            found += [each.interval for each in thread.events.get("eager", ())]
    found += _runs_of_xla(profile, steps)
    together = union(collectives)
    return without(without(union(found), together), _waits_inside(profile, steps)), together


def _runs_of_xla(profile: Profile, steps: Steps) -> list[Interval]:
    """The computation of what XLA has compiled: in a call from Python, from the first run that is recorded to the last.

    From 2.18 on parts of it may run on other threads; before, nothing is recorded of it, and it is all of the call.
    """
    if steps.thread is None:
        return []
    calls, ran = steps.thread.events.get("xla call", ()), xla_runs(profile)
    if not calls:
        return [each.interval for each in steps.thread.events.get("xla run", ())]
    inside = [part for call in calls if (part := clip(ran, *call.interval))]
    return [*((part[0][0], part[-1][1]) for part in inside), *xla_calls_alone(profile, steps)]


def xla_calls_alone(profile: Profile, steps: Steps) -> list[Interval]:
    """The calls of functions that XLA compiles of which no run is recorded, but for those that build a graph first."""
    ran, built = xla_runs(profile), union(each.interval for each in traced_calls(steps))
    calls = steps.thread.events.get("xla call", ()) if steps.thread else ()
    return [each.interval for each in calls if not clip(ran, *each.interval) and not clip(built, *each.interval)]


def xla_runs(profile: Profile) -> list[Interval]:
    """The time in which a thread runs what XLA has compiled; older releases (2.15, 2.16) do not record it."""
    return union(
        each.interval
        for thread in profile.threads
        if not thread.of_pipeline
        for each in thread.events.get("xla run", ())
    )


def between_operations(profile: Profile, steps: Steps, computed: list[Interval]) -> list[Interval]:
    """The part of the processor's computation in which no operation runs that is worth its start.

    TensorFlow's executor is at work there: it looks for the next operation, hands it its inputs, and notes what it gave.
    """
    left = computed
    for thread in profile.threads:
        if thread.prepares_batches:
            continue
        for kind in ("operation", "python", "xla run", *(("eager",) if thread is steps.thread else ())):
            left = without(left, union(_worth_their_start(thread.events.get(kind, ()))))
    return without(left, union(_runs_of_xla(profile, steps)))


def _worth_their_start(events: Iterable[Event]) -> Iterator[Interval]:
    return (each.interval for each in events if each.duration >= WORK_US / 1000)


def operations_within(profile: Profile, window: Interval, below_us: float = math.inf) -> int:
    """How many operations of the model are recorded, of those below a duration; most of the small ones are not."""
    low, high = window
    return sum(
        low <= each.begin < high and each.duration < below_us / 1000
        for thread in profile.threads
        if not thread.prepares_batches
        for each in thread.events.get("operation", ())
    )


def _waits_inside(profile: Profile, steps: Steps) -> list[Interval]:
    """Waiting inside of an operation that is no work: the operation that asks the iterator."""
    asking = union(
        each.interval
        for thread in profile.threads
        if not thread.of_pipeline
        for each in thread.events.get("input wait", ())
    )
    return overlap(asking, waits_of(profile, steps))


def _runs_of_model(profile: Profile) -> set[object]:
    """The ids of runs of graphs that no stage of the pipeline began."""
    pipeline: set[object] = set()
    model: set[object] = set()
    for thread in profile.threads:
        if thread.prepares_batches:
            continue
        for kind in ("run", "input wait"):
            model |= {thread.stats(event).get("id") for event in thread.events.get(kind, ())}
        pipeline |= {thread.stats(event).get("id") for event in thread.events.get("user function", ())}
    return model - pipeline - {None}


def compiling(profile: Profile, steps: Steps) -> list[Interval]:
    """Tracing of functions, and XLA: a call that compiles, less what it executes."""
    if steps.thread is None:
        return []
    events = steps.thread.events
    found = [each.interval for each in events.get("tracing", ())]
    compiled = union(each.interval for each in events.get("xla compile", ()))
    ran = xla_runs(profile)
    for call in outermost(list(events.get("call", ()))):
        if clip(compiled, *call.interval):
            found += without([call.interval], ran)
    # The first run of a graph that was just traced prepares it: shape inference, placement, grappler.
    if traced := traced_calls(steps):
        computed, _ = work_of_processor(profile, steps)
        found += without(union(call.interval for call in traced), computed)
    for thread in profile.threads:  # inside of a graph, a part that XLA compiles
        if thread is not steps.thread and not thread.of_pipeline:
            found += [each.interval for each in thread.events.get("xla compile", ())]
    return union(found)


def traced_calls(steps: Steps) -> list[Event]:
    """The calls of functions that built a graph first."""
    if steps.thread is None:
        return []
    built = union(each.interval for each in steps.thread.events.get("tracing", ()))
    return [call for call in steps.calls if clip(built, *call.interval)]


def most_traced(steps: Steps) -> tuple[str, int]:
    """The function of which graphs are built most often in the steps, and how often; no name and 0 if none is."""
    low, high = steps.window
    names = Counter(call.name for call in traced_calls(steps) if low <= call.begin < high)
    return max(names.items(), key=lambda each: each[1], default=("", 0))
