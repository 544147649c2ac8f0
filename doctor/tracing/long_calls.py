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
    if max(map(len, runs), default=0) <= _FEW or held >= _MOST * len(begins):
        return None
    within = [(events[0].begin, events[-1].begin) for events in runs]
    thread = found.thread if found.calls else None  # without calls it may be one that runs Python for the pipeline
    return replace(
        found, found_by="graph", name="", thread=thread, intervals=list(itertools.pairwise(begins)), within=within
    )


def _asked(profile: Profile) -> list[list[Event]]:
    """Each time that the run of a graph asks for a batch, by run; of runs at the same time (replicas) that which asks most."""
    runs: dict[object, list[Event]] = defaultdict(list)
    for thread in profile.threads:
        for event in thread.events.get("input wait", ()) if not thread.prepares_batches else ():
            if "Op::DoCompute" in event.name:
                runs[thread.name if event.name == ASKS else thread.stats(event).get("id")].append(event)
    kept: list[list[Event]] = []
    for events in sorted(runs.values(), key=len, reverse=True):
        events.sort(key=lambda each: each.begin)
        if all(events[-1].begin < each[0].begin or events[0].begin > each[-1].begin for each in kept):
            kept.append(events)
    return sorted(kept, key=lambda each: each[0].begin)
