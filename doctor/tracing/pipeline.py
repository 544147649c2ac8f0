"""The input pipeline in a profile: its stages, and the one that the training waits for."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tfgpu_doctor.tracing.events import Value
from tfgpu_doctor.tracing.intervals import Interval, clip, dilated, length, shared_time, union, union_of_sorted
from tfgpu_doctor.tracing.recorded import Event, Profile, Thread

_ASYNC = re.compile(r"(Prefetch|Parallel|MapAndBatch|MemoryCacheImpl|Model|MultiDevice)")
_HANDS_ON = re.compile(r"(Finite|Forever)?(Take|Skip|Repeat)|Options|AssertCardinality|PrivateThreadPool|MaxIntraOp")
_BUSY = 0.5  # of the waiting: a stage that works for less is not what is waited for
_WRAPPER = 0.1  # of its time in Python
SEVERAL = 3  # elements: a call that takes so many, or more, fills a buffer
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
    first_end: float = 0.0  # when the first call ended that has an event
    early_calls: int = 0  # of a shuffle's input: those before the shuffle's first call ended
    long_calls: int = 0  # that last many times as long as most, and fill a buffer

    @property
    def kind(self) -> str:
        """Its own name: BatchV2."""
        return self.path.rpartition("::")[2]

    @property
    def is_async(self) -> bool:
        """Whether threads of its own ask its input."""
        return bool(_ASYNC.match(self.kind))

    @property
    def hands_on(self) -> bool:
        """Whether it does nothing with the elements: time of its own is that of calls below it which have no event yet."""
        return bool(_HANDS_ON.match(self.kind))

    @property
    def parallelism(self) -> int:
        """How many calls of its function may run at once; 0 if it does not say."""
        return _count(self.settings.get("parallelism"))

    @property
    def in_words(self) -> str:
        """What tf.data calls it, with its number, and where it is: `MapDataset:2 (Prefetch::MapAndBatch::Map)`."""
        path = self.path.removeprefix("Iterator::").removeprefix("Root::")
        name = str(self.settings.get("name", ""))
        return f"{name} ({path})" if name else path

    @property
    def number(self) -> str:
        """Its number, counted from the source, which is 0; empty if it has none, or is several stages in one."""
        found = re.fullmatch(r"\w+:(\d+)", str(self.settings.get("name", "")), re.ASCII)
        return found[1] if found else ""

    @property
    def each_ms(self) -> float:
        """The mean time of a call."""
        return self.total / self.calls if self.calls else 0.0


@dataclass(slots=True)
class Pipeline:
    """The pipeline that the steps read: its stages from the program's end to the source."""

    root: Stage
    stages: dict[str, Stage]
    python: list[Interval]  # the time in which its functions are in Python, as far as events show it

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
    stages = _stages(profile, window, unfinished)
    python = _python(profile, window)
    _leave_out_wrappers(stages, python)
    _link(stages)
    extend(stages, unfinished)
    roots = [stage for path, stage in stages.items() if path.rpartition("::")[0] not in stages]
    if not roots:
        return None
    root = max(roots, key=lambda each: (each.path.startswith("Iterator::Root"), length(each.busy)))
    return Pipeline(root, stages, python)


def _stages(profile: Profile, window: Interval, unfinished: Sequence[Interval]) -> dict[str, Stage]:
    """The stages by path, each with its calls within the steps, and with what tf.data says at its last call of all."""
    calls: dict[str, list[Event]] = {}
    threads: dict[str, Thread] = {}
    for thread in profile.threads:
        for event in thread.events.get("iterator", ()):
            calls.setdefault(event.name, []).append(event)
            threads[event.name] = thread
    low, high = window
    stages: dict[str, Stage] = {}
    for path, events in calls.items():
        last = events[-1]
        events.sort(key=lambda each: each.begin)
        times = array("d")
        busy = union_of_sorted(_within(events, low, high, times))
        if times:
            stage = Stage(path, busy, sum(times), len(times), threads[path].stats(last))
            stage.first_end = busy[0][0] + times[0]
            stage.long_calls = _long_calls(path, calls, times, window) + sum(
                not clip(stage.busy, *gap) for gap in unfinished
            )
            stages[path] = stage
    for path, stage in stages.items():
        above = stages.get(path.rpartition("::")[0])
        if above and above.kind.startswith("Shuffle"):
            stage.early_calls = sum(each.end > low and each.begin < above.first_end for each in calls[path])
    return stages


def _within(events: Sequence[Event], low: float, high: float, times: array[float]) -> Iterator[Interval]:
    """The calls within two times, one after the other, for there may be a million; `times` gets their lengths."""
    for begin, end in (each.interval for each in events):
        if end > low and begin < high:
            within = (max(begin, low), min(end, high))
            times.append(within[1] - within[0])
            yield within


def extend(stages: dict[str, Stage], unfinished: Sequence[Interval]) -> None:
    """In the time of an unfinished step, or of lost events, a stage is busy while one below it is; the source comes first."""
    for stage in sorted(stages.values(), key=lambda each: -len(each.path)):
        below = [interval for child in stage.children for gap in unfinished for interval in clip(child.busy, *gap)]
        if below:
            stage.busy = union([*stage.busy, *dilated(below)])


def _long_calls(path: str, calls: Mapping[str, Sequence[Event]], times: array[float], window: Interval) -> int:
    """How many calls take a hundred times as long as most, and a twentieth of all the time.

    Of several, only those count that take several elements of the stage below: the others waited for a CPU.
    """
    least = max(100 * sorted(times)[len(times) // 2], 0.05 * sum(times))
    count = sum(each >= least for each in times)
    if count < 2:
        return count
    begins = sorted(
        event.begin for below, events in calls.items() if below.rpartition("::")[0] == path for event in events
    )
    inside = (event for event in calls[path] if event.end > window[0] and event.begin < window[1])
    return sum(
        bisect_right(begins, event.end) - bisect_left(begins, event.begin) >= SEVERAL
        for event, each in zip(inside, times, strict=True)
        if each >= least
    )


def _leave_out_wrappers(stages: dict[str, Stage], python: list[Interval]) -> None:
    """Leave out the generator with which tf.distribute hands each replica its batches: it runs no Python.

    The pipeline itself is then beside it: under the same path, or another root.
    """
    for path in [path for path, stage in stages.items() if stage.kind == "Generator"]:
        others = [each for each in stages if not path.startswith(each) and not each.startswith(path)]
        if others and shared_time(stages[path].busy, python) < _WRAPPER * length(stages[path].busy):
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


def slowest(pipeline: Pipeline, waits: list[Interval]) -> Stage | None:
    """Follow the waiting from the program towards the source, to the stage whose own work takes the time.

    None if no stage works while the program waits: then it waits for a core, not for the pipeline.
    """
    stage = pipeline.root
    while stage.children:
        child = max(stage.children, key=lambda each: shared_time(each.busy, waits))
        if stage.is_async:
            busy = shared_time(child.busy, waits) / max(length(waits), 1e-9)
            if busy < _BUSY:
                return None if stage.kind == "Prefetch" else stage
        elif not stage.hands_on and sum(each.total for each in stage.children) < _MOST_OF_STAGE * stage.total:
            return stage
        stage = child
    return None if stage is pipeline.root or stage.kind == "Prefetch" else stage
