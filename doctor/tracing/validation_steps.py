"""Keras 3 calls its steps of training and of validation by the same name: which graphs only test."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from tfgpu_doctor.tracing.intervals import Interval, clip, union
from tfgpu_doctor.tracing.python_samples import evaluates
from tfgpu_doctor.tracing.recorded import Event, Profile, Thread
from tfgpu_doctor.tracing.steps import Steps

SHARED = ("multi_step_on_iterator", "one_step_on_iterator", "one_step_on_data")
IN_TEST = " of validation"
_LOOKS = 3  # runs of a graph that are looked at
_SLOPES = "gradient_tape/"  # in the names of operations that only training has


def tests_told_apart(profile: Profile, thread: Thread, calls: list[Event]) -> list[Event]:
    """Return the calls, those that only test with a name of their own.

    A graph tests if its runs compute no gradient while those of another graph of the same function do.
    """
    graphs: dict[str, list[Interval]] = defaultdict(list)
    for event in thread.events.get("call", ()):
        if event.name.rpartition("_")[0].endswith(SHARED):
            graphs[event.name].append(event.interval)
    if len(graphs) < 2:
        return calls
    trains = {name: _computes_gradients(profile, thread, times) for name, times in graphs.items()}
    if not any(trains.values()):
        return calls
    tested = union(each for name, times in graphs.items() if trains[name] is False for each in times)
    return [
        replace(call, name=call.name + IN_TEST) if call.name in SHARED and clip(tested, *call.interval) else call
        for call in calls
    ]


def only_evaluates(profile: Profile, steps: Steps) -> str:
    """Whether what looks like steps is an evaluation by Keras: "fit" if fit validates, "evaluate" if the program asks for it."""
    calls = [call.interval for call in steps.calls if call.name == steps.name]
    return evaluates(profile.samples, union(calls)) if steps.found_by == "calls" else ""


def _computes_gradients(profile: Profile, thread: Thread, times: list[Interval]) -> bool | None:
    """Whether the graph that was called then trains; None if no operation of it was seen."""
    ids = _runs(thread, times[-_LOOKS:])
    names = [
        event.name
        for other in profile.threads
        if not other.of_pipeline
        for event in _operations(other, ids, (times[-_LOOKS:][0][0], times[-1][1]))
    ]
    return any(_SLOPES in name for name in names) if names else None


def _runs(thread: Thread, times: list[Interval]) -> set[object]:
    """The ids of the runs that began within some calls."""
    return {
        thread.stats(event).get("id")
        for event in thread.events.get("run", ())
        if any(low <= event.begin < high for low, high in times)
    }


def _operations(thread: Thread, ids: set[object], within: Interval) -> list[Event]:
    """The operations that a thread executed for some runs."""
    low, high = within
    executed = union(
        event.interval
        for event in thread.events.get("executor", ())
        if low <= event.begin < high and thread.stats(event).get("id") in ids
    )
    return [
        event
        for event in thread.events.get("operation", ())
        if low <= event.begin < high and clip(executed, *event.interval)
    ]
