"""The input pipeline in a profile: its stages, and the one that the training waits for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tfgpu_doctor.tracing.events import Value
from tfgpu_doctor.tracing.intervals import Interval, clip, dilated, length, overlap, union
from tfgpu_doctor.tracing.recorded import Event, Profile, Thread

_ASYNC = re.compile(r"(Prefetch|Parallel|MapAndBatch|MemoryCacheImpl|Model|MultiDevice)")
_BUSY = 0.5  # of the waiting: a stage that works for less is not what is waited for
_WRAPPER = 0.1  # of its time in Python
_MOST_OF_STAGE = 0.5  # of a stage's time in its input: then the input is what is slow


@dataclass(slots=True)
class Stage:
    """A stage of a pipeline; times in ms within the steps.

    `path` names it and all after it: Root::Prefetch::BatchV2. `busy` is the time in which it was asked and did not
    answer yet, `total` the same summed over threads, `calls` how often it was asked, `settings` what tf.data says of it.
    """

    path: str
    busy: list[Interval] = field(default_factory=list)
    total: float = 0.0
    calls: int = 0
    settings: dict[str, Value] = field(default_factory=dict)
    children: list[Stage] = field(default_factory=list)
    long_calls: int = 0  # that last many times as long as most: a buffer that is filled

    @property
    def kind(self) -> str:
        """Its own name: BatchV2."""
        return self.path.rpartition("::")[2]

    @property
    def is_async(self) -> bool:
        """Whether threads of its own ask its input."""
        return bool(_ASYNC.match(self.kind))

    @property
    def parallelism(self) -> int:
        """How many calls of its function may run at once; 0 if it does not say."""
        return _count(self.settings.get("parallelism"))

    @property
    def each_ms(self) -> float:
        """The mean time of a call."""
        return self.total / self.calls if self.calls else 0.0


@dataclass(slots=True)
class Pipeline:
    """The pipeline that the steps read: its stages from the program's end to the source."""

    root: Stage
    stages: dict[str, Stage]
    python: list[Interval]
    functions: float  # ms of the user's functions, summed over threads

    @property
    def cores(self) -> int:
        """The number of CPUs that tf.data plans with; 0 if it does not say."""
        return _count(self.root.settings.get("cpu_budget"))

    def parent(self, stage: Stage) -> Stage | None:
        """The stage that asks this one."""
        return self.stages.get(stage.path.rpartition("::")[0])


def _count(value: Value | None) -> int:
    """A setting as a number; tf.data writes "unavailable" before a stage has decided."""
    return int(value) if value is not None and str(value).isdecimal() else 0


def find_pipeline(profile: Profile, window: Interval, unfinished: Sequence[Interval] = ()) -> Pipeline | None:
    """Collect the stages from the iterators' events; None if the profile has none.

    In the time of an unfinished step, a call that lasts has no event: a stage is then busy while one below it is.
    """
    spans: dict[str, list[Interval]] = {}
    samples: dict[str, tuple[Thread, Event]] = {}
    for thread in profile.threads:
        for event in thread.events.get("iterator", ()):
            spans.setdefault(event.name, []).append(event.interval)
            samples[event.name] = (thread, event)
    stages: dict[str, Stage] = {}
    for name, intervals in spans.items():
        within = [
            (max(low, window[0]), min(high, window[1]))
            for low, high in intervals
            if high > window[0] and low < window[1]
        ]
        if within:
            thread, event = samples[name]
            stages[name] = Stage(name, union(within), length(within), len(within), thread.stats(event))
            stages[name].long_calls = _long_calls(within) + sum(not clip(stages[name].busy, *gap) for gap in unfinished)
    python = _python(profile, window)
    _leave_out_wrappers(stages, python)
    _link(stages)
    for stage in sorted(stages.values(), key=lambda each: -len(each.path)):
        below = dilated(
            interval for child in stage.children for gap in unfinished for interval in clip(child.busy, *gap)
        )
        stage.busy = union([*stage.busy, *below]) if below else stage.busy
    roots = [stage for path, stage in stages.items() if path.rpartition("::")[0] not in stages]
    if not roots:
        return None
    root = max(roots, key=lambda each: (each.path.startswith("Iterator::Root"), length(each.busy)))
    return Pipeline(root, stages, python, _functions(profile, window))


def _long_calls(calls: list[Interval]) -> int:
    """How many calls take a hundred times as long as most, and a twentieth of all the time."""
    times = sorted(high - low for low, high in calls)
    least = max(100 * times[len(times) // 2], 0.05 * sum(times))
    return sum(each >= least for each in times)


def _leave_out_wrappers(stages: dict[str, Stage], python: list[Interval]) -> None:
    """Leave out the generator with which tf.distribute hands each replica its batches: it runs no Python.

    The pipeline itself is then beside it: under the same path, or another root.
    """
    for path in [path for path, stage in stages.items() if stage.kind == "Generator"]:
        others = [each for each in stages if not path.startswith(each) and not each.startswith(path)]
        if others and length(overlap(stages[path].busy, python)) < _WRAPPER * length(stages[path].busy):
            del stages[path]


def _link(stages: dict[str, Stage]) -> None:
    for path, stage in stages.items():
        parent = stages.get(path.rpartition("::")[0])
        if parent:
            parent.children.append(stage)


def _python(profile: Profile, window: Interval) -> list[Interval]:
    """The time in which a function of the pipeline is in Python."""
    found = [event.interval for thread in profile.threads for event in thread.events.get("python", ())]
    return clip(union(found), *window)


def _functions(profile: Profile, window: Interval) -> float:
    return sum(
        event.duration
        for thread in profile.threads
        for event in thread.events.get("user function", ())
        if window[0] <= event.begin < window[1]
    )


def slowest(pipeline: Pipeline, waits: list[Interval]) -> Stage | None:
    """Follow the waiting from the program towards the source, to the stage whose own work takes the time.

    None if no stage works while the program waits: then it waits for a core, not for the pipeline.
    """
    stage = pipeline.root
    while stage.children:
        child = max(stage.children, key=lambda each: length(overlap(each.busy, waits)))
        if stage.is_async:
            busy = length(overlap(child.busy, waits)) / max(length(waits), 1e-9)
            if busy < _BUSY:
                return None if stage.kind == "Prefetch" else stage
        elif length([(0.0, sum(each.total for each in stage.children))]) < _MOST_OF_STAGE * stage.total:
            return stage
        stage = child
    return None if stage is pipeline.root or stage.kind == "Prefetch" else stage
