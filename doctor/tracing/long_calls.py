"""The steps inside of a call that is longer than the recording: Keras' steps_per_execution, a loop in a graph.

The profiler notes a call, and the run of its graph, when it ends. Of one that is under way a recording holds what its graph
does: each time that it asks for a batch, a step begins.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import replace

from tfgpu_doctor.tracing.dataset_loops import ASKS
from tfgpu_doctor.tracing.recorded import Event, Profile
from tfgpu_doctor.tracing.steps import Steps

_FEW = 3
_MOST = 0.5  # of the batches that graphs asked for: the steps that calls show hold as many, or the graphs tell


def inside_of_call(profile: Profile, found: Steps) -> Steps | None:
    """The steps by the batches that graphs asked for; None if `found` has some that hold most of these."""
    runs = _asked(profile)
    begins = [event.begin for events in runs for event in events]
    low, high = found.window
    told = len(found.intervals) >= _FEW and found.found_by != "operations"  # these may be of Python in the pipeline
    held = sum(low <= begin < high for begin in begins) if told else 0
    if not runs or held >= _MOST * len(begins):
        return None
    within = [(events[0].begin, events[-1].begin) for events in runs]
    thread = found.thread if found.calls else None  # without calls it may be one that runs Python for the pipeline
    return replace(
        found, found_by="graph", name="", thread=thread, intervals=list(itertools.pairwise(begins)), within=within
    )


def _asked(profile: Profile) -> list[list[Event]]:
    """Each time that the run of a graph asks for a batch, by run, in order; few times are none.

    Of runs at the same time (replicas) the one that asks most.
    """
    runs: dict[object, list[Event]] = defaultdict(list)
    for thread in profile.threads:
        waits = thread.events.get("input wait", ()) if not thread.prepares_batches else ()
        if any(event.name.startswith("Eager") for event in waits):
            continue  # Python asks, and not a graph
        for event in waits:
            if "Op::DoCompute" in event.name:
                runs[thread.name if event.name == ASKS else thread.stats(event).get("id")].append(event)
    kept: list[list[Event]] = []
    for events in sorted(
        (sorted(each, key=_begin) for each in runs.values() if len(each) > _FEW), key=lambda each: each[0].begin
    ):
        if not kept or events[0].begin > kept[-1][-1].begin:
            kept.append(events)
        elif len(events) > len(kept[-1]):
            kept[-1] = events
    return kept


def _begin(event: Event) -> float:
    return event.begin
