"""A training loop inside of a graph: `for batch in dataset` within a tf.function.

AutoGraph makes of it a dataset that scans the pipeline with the body of the loop, and reduces that: the model then is a stage
of a pipeline and runs on its threads. Here what is asked below that stage becomes the input pipeline, and the body the model.
https://github.com/tensorflow/tensorflow/blob/v2.21.0/tensorflow/python/data/ops/dataset_autograph.py
"""

from __future__ import annotations

import functools
import re

from tfgpu_doctor.tracing.intervals import clip, union
from tfgpu_doctor.tracing.recorded import Event, Profile, Thread

ASKS = "ReduceDatasetOp::DoCompute"  # the name given to the loop's requests
_SCAN = re.compile(r"ReduceIterator::(?:(?!Scan::)[^:]+::)*Scan::")
_POOL = "tf_data_private_threadpool"


def mark_loops(profile: Profile) -> None:
    """Give the events of such loops the kinds that they would have outside of a dataset."""
    loops = [thread for thread in profile.threads if thread.events.get("loop")]
    if not loops:
        return
    for thread in profile.threads:
        thread.of_loop = thread in loops or thread.name.startswith(_POOL)
        inputs = thread.events.pop("loop input", [])
        thread.events["iterator"] += [
            Event(f"Iterator::Root::{_below(each.name)}", each.line, each.place) for each in inputs
        ]
        if thread in loops:
            _mark(thread, [each for each in inputs if "::" not in _below(each.name)])


@functools.lru_cache(maxsize=256)
def _below(name: str) -> str:
    """The stages below that of the loop: FiniteTake::BatchV2."""
    return _SCAN.sub("", name, count=1)


def _mark(thread: Thread, asked: list[Event]) -> None:
    """What the loop asks, and what it runs."""
    thread.events["iterator"] += [Event("Iterator::Root", each.line, each.place) for each in asked]
    thread.events["input wait"] += [Event(ASKS, each.line, each.place) for each in asked]
    waits = union(each.interval for each in asked)
    functions = thread.events.pop("user function", [])
    inside = [bool(clip(waits, *each.interval)) for each in functions]
    thread.events["run"] += [each for each, within in zip(functions, inside, strict=True) if not within]
    thread.events["user function"] = [each for each, within in zip(functions, inside, strict=True) if within]
