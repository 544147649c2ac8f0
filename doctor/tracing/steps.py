"""The steps of a training: when each begins and ends, and when the program waits for its next batch."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field, replace

from tfgpu_doctor.tracing.intervals import Interval, clip, length, union
from tfgpu_doctor.tracing.recorded import Event, Profile, Thread

_LONG_STEPS, _LONG_SHARE = 5, 0.2  # a gap of so many steps, and of so much of the recording


@dataclass(slots=True)
class Steps:
    """The steps in a profile; times in ms since it began.

    `intervals` go from the begin of a step to the begin of the next. `calls` are the calls of tf.functions on the
    thread, `name` is the step's own, `per_call` the number of steps in one call. `found_by`: markers, calls, batches,
    operations, graph (batches that the graph of a long call asks for), gpu, or empty if there are none.
    """

    thread: Thread | None = None
    found_by: str = ""
    name: str = ""
    intervals: list[Interval] = field(default_factory=list)
    calls: list[Event] = field(default_factory=list)
    per_call: float = 1.0
    keras: bool = False
    gpu: str = ""  # whose line it is, if found by one
    within: list[Interval] = field(default_factory=list)  # of calls that run many steps: the parts in which these lie
    unfinished: list[Interval] = field(default_factory=list)  # before the first and after the last whole step

    @property
    def count(self) -> int:
        """The number of steps."""
        return round(len(self.intervals) * self.per_call)

    @property
    def window(self) -> Interval:
        """From the first step's begin to the last one's end."""
        return (self.intervals[0][0], self.intervals[-1][1]) if self.intervals else (0.0, 0.0)

    @property
    def median_ms(self) -> float:
        """The median duration of one step."""
        return statistics.median(high - low for low, high in self.intervals) / self.per_call if self.intervals else 0.0

    @property
    def mean_ms(self) -> float:
        """The mean duration of one step."""
        return length([self.window]) / max(1, len(self.intervals)) / self.per_call


def outermost(events: list[Event]) -> list[Event]:
    """The events of a thread that lie in no other of them."""
    kept: list[Event] = []
    for event in sorted(events, key=lambda each: (each.begin, -each.end)):
        if not kept or event.begin >= kept[-1].end:
            kept.append(event)
    return kept


def waits_of(profile: Profile, steps: Steps) -> list[Interval]:
    """The time in which the program waits for its next batch: as its thread or its graph asks the iterator."""
    found = [
        event.interval
        for thread in profile.threads
        for event in thread.events.get("input wait", ())
        if not thread.prepares_batches
    ]
    return clip(union([*found, *steps.unfinished]), *steps.window)


def with_unfinished(profile: Profile, steps: Steps) -> Steps:
    """Add the time before the first step and after the last, if it is long: a step was under way that has no event.

    The profiler notes a call when it ends; one that lasts longer than the recording is not in it.
    """
    low, high = steps.window
    begins = [min(thread.line.starts_ns) + thread.line.begin_ns for thread in profile.threads if len(thread.line)]
    first, last = (min(begins, default=profile.origin_ns) - profile.origin_ns) / 1e6, profile.end
    long = max(_LONG_STEPS * steps.median_ms * steps.per_call, _LONG_SHARE * (last - first))
    gaps = [gap for gap in ((first, low), (high, last)) if gap[1] - gap[0] > long]
    intervals = sorted([*steps.intervals, *gaps])
    return replace(steps, intervals=intervals, unfinished=gaps) if gaps else steps
