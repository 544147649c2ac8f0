"""The steps of a training: where each begins and ends, on the thread that runs the program's Python."""

from __future__ import annotations

import bisect
import itertools
import statistics
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace

from tfgpu_doctor.tracing.intervals import Interval, clip, length, overlap, union
from tfgpu_doctor.tracing.recorded import Event, Profile, Thread

_OF_TEST = ("test", "eval", "predict", "valid")
_KERAS = {"multi_step_on_iterator", "one_step_on_iterator", "one_step_on_data", "train_function"}
_FEW = 3
_LONG_STEPS, _LONG_SHARE = 5, 0.2  # a gap of so many steps, and of so much of the recording
_MOST_OPERATIONS = 20_000
_ALIKE = 0.9  # of the operations are the same one period later


@dataclass(slots=True)
class Steps:
    """The steps in a profile; times in ms since it began.

    `intervals` go from the begin of a step to the begin of the next. `calls` are the calls of tf.functions on the
    thread, `name` is the step's own, `per_call` the number of steps in one call. `found_by`: markers, calls, batches,
    operations, gpu, or empty if there are none.
    """

    thread: Thread | None = None
    found_by: str = ""
    name: str = ""
    intervals: list[Interval] = field(default_factory=list)
    calls: list[Event] = field(default_factory=list)
    per_call: float = 1.0
    keras: bool = False
    gpu: str = ""  # whose line it is, if found by one
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


def find_steps(profile: Profile) -> Steps:
    """Find the steps: by markers (Keras 2, `tf.profiler.experimental.Trace`), calls, batches, or a GPU's own line."""
    thread = program_thread(profile)
    if thread is None:
        return _of_gpu(profile)
    calls, markers = _other_events(thread)
    steps = _by_markers(thread, markers) or _by_calls(thread, calls) or _by_batches(thread) or _by_operations(thread)
    if steps is None:
        steps = _of_gpu(profile)
    steps.thread, steps.calls = thread, calls
    steps.per_call = _batches_per_call(profile, steps)
    return steps


def program_thread(profile: Profile) -> Thread | None:
    """The thread that runs the training's Python: it calls functions and operations longest."""

    def busy(thread: Thread) -> float:
        return length(
            union(each.interval for kind in ("call", "eager", "tracing") for each in thread.events.get(kind, ()))
        )

    known = [thread for thread in profile.threads if not thread.of_pipeline and busy(thread) > 0]
    return max(known, key=busy, default=None)


def _other_events(thread: Thread) -> tuple[list[Event], list[Event]]:
    """The calls of tf.functions from Python, and the markers of steps; both are known by their statistics."""
    roles: dict[str, str] = {}
    calls, markers = [], []
    for event in thread.events.get("other", ()):
        role = roles.get(event.name)
        if role is None:
            stats = thread.stats(event)
            role = roles[event.name] = "call" if "tf_function_call" in stats else "step" if "step_num" in stats else ""
        if role == "call":
            calls.append(event)
        elif role == "step":
            markers.append(event)
    return outermost(calls) or outermost(list(thread.events.get("call", ()))), markers


def outermost(events: list[Event]) -> list[Event]:
    """The events of a thread that lie in no other of them."""
    kept: list[Event] = []
    for event in sorted(events, key=lambda each: (each.begin, -each.end)):
        if not kept or event.begin >= kept[-1].end:
            kept.append(event)
    return kept


def _by_markers(thread: Thread, markers: list[Event]) -> Steps | None:
    names = defaultdict(list)
    for event in markers:
        names[event.name].append(event)
    trained = {name: events for name, events in names.items() if not name.lower().startswith(_OF_TEST)} or names
    if not trained:
        return None
    name = max(trained, key=lambda each: sum(event.duration for event in trained[each]))
    return _made(thread, "markers", name, trained[name], keras=name == "train")


def _by_calls(thread: Thread, calls: list[Event]) -> Steps | None:
    """The function that takes longest in all, and does not test; in an eager program functions are rare."""
    names = defaultdict(list)
    for event in calls:
        names[_without_number(event.name)].append(event)
    eager = sum(event.duration for event in thread.events.get("eager", ()))
    trained = {name: events for name, events in names.items() if not _tests(name)} or names
    if not trained:
        return None
    name = max(trained, key=lambda each: (len(trained[each]) > 1, sum(event.duration for event in trained[each])))
    if sum(event.duration for event in trained[name]) < eager and len(thread.events["eager"]) > 50 * len(trained[name]):
        return None
    return _made(thread, "calls", name, trained[name], keras=name in _KERAS)


def _by_batches(thread: Thread) -> Steps | None:
    """A step begins where the program asks for a batch."""
    waits = outermost(list(thread.events.get("input wait", ())))
    if len(waits) < _FEW:
        return None
    keras = any("step" in event.name for event in thread.events.get("other", ()))
    return _made(thread, "batches", "", waits, keras=keras)


def _by_operations(thread: Thread) -> Steps | None:
    """An eager program without a dataset: the operations that it starts repeat from step to step."""
    events = sorted(thread.events.get("eager", ()), key=lambda each: each.begin)[-_MOST_OPERATIONS:]
    names = [event.name for event in events]
    period = _period(names)
    return _made(thread, "operations", "", events[::period], keras=False) if period else None


def _period(names: list[str]) -> int:
    """After how many operations the same ones follow; 0 if they do not repeat.

    The rarest operation that comes again and again tells which periods to try.
    """
    counts = Counter(names)
    often = [name for name, count in counts.items() if count >= _FEW + 1]
    if not often:
        return 0
    rarest = min(often, key=lambda each: counts[each])
    places = [place for place, name in enumerate(names) if name == rarest]
    for step in range(1, min(9, len(places) - 1)):
        period = places[-1] - places[-1 - step]
        pairs = len(names) - period
        same = sum(one == other for one, other in zip(names, names[period:], strict=False))
        if pairs >= _FEW * period and same >= _ALIKE * pairs:
            return period
    return 0


def _of_gpu(profile: Profile) -> Steps:
    """The line Steps of a GPU's plane, which TensorFlow derives."""
    found = [
        Steps(found_by="gpu", intervals=[event.interval for event in stream.events], gpu=gpu)
        for gpu, streams in profile.gpus.items()
        for stream in streams
        if stream.name == "Steps" and stream.events
    ]
    return max(found, key=lambda each: each.mean_ms, default=Steps())  # the others wait for the slowest


def _made(thread: Thread, found_by: str, name: str, events: list[Event], *, keras: bool) -> Steps:
    begins = sorted(event.begin for event in events)
    intervals = list(itertools.pairwise(begins))
    if len(begins) == 1:
        intervals = [events[0].interval]
    return Steps(thread, found_by, name, intervals, keras=keras)


def _tests(name: str) -> bool:
    return any(word in name.lower() for word in _OF_TEST)


def _without_number(name: str) -> str:
    """EagerLocalExecute: __inference_train_step_106 is train_step."""
    bare = name.rpartition(": __inference_")[2]
    head, _, number = bare.rpartition("_")
    return head if number.isdecimal() and head else bare


def _batches_per_call(profile: Profile, steps: Steps) -> float:
    """With steps_per_execution a call trains several batches: it asks for each of them.

    So do the replicas of tf.distribute, each its own iterator: those are one step.
    """
    if steps.found_by not in ("markers", "calls") or len(steps.intervals) < _FEW:
        return 1.0
    begins = [low for low, _ in steps.intervals]
    waits, iterators = 0, [set[object]() for _ in begins]
    for thread in profile.threads:
        for event in thread.events.get("input wait", ()):
            waits += "Op::DoCompute" in event.name and begins[0] <= event.begin < steps.window[1]
        for event in thread.events.get("iterator", ()) if not _in_pipeline(thread) else ():
            place = bisect.bisect_right(begins, event.begin) - 1
            if event.name.count("::") == 1 and place >= 0:
                iterators[place].add(thread.stats(event).get("id"))
    replicas = max(1.0, statistics.median(len(each) for each in iterators))
    ratio = waits / len(begins) / replicas
    return float(round(ratio)) if ratio >= 1.5 and abs(ratio - round(ratio)) < 0.2 else 1.0


def waits_of(profile: Profile, steps: Steps) -> list[Interval]:
    """The time in which the program waits for its next batch: as its thread or its graph asks the iterator."""
    found = [
        event.interval
        for thread in profile.threads
        for event in thread.events.get("input wait", ())
        if not _in_pipeline(thread)
    ]
    return clip(union([*found, *steps.unfinished]), *steps.window)


def with_unfinished(profile: Profile, steps: Steps) -> Steps:
    """Add the time before the first step and after the last, if it is long: a step was under way that has no event.

    The profiler notes a call when it ends; one that lasts longer than the recording is not in it.
    """
    low, high = steps.window
    begin = min(
        (thread.line.starts_ns[0] + thread.line.begin_ns for thread in profile.threads if len(thread.line)), default=0
    )
    first, last = (begin - profile.origin_ns) / 1e6, profile.end
    long = max(_LONG_STEPS * steps.median_ms * steps.per_call, _LONG_SHARE * (last - first))
    gaps = [gap for gap in ((first, low), (high, last)) if gap[1] - gap[0] > long]
    intervals = sorted([*steps.intervals, *gaps])
    return replace(steps, intervals=intervals, unfinished=gaps) if gaps else steps


def _in_pipeline(thread: Thread) -> bool:
    """Workers of a pipeline also ask iterators; the thread on which a graph waits has a name of its own."""
    return thread.of_pipeline and "get_next" not in thread.name


def shared(some: list[Interval], others: list[Interval]) -> float:
    """Return how much of some time lies in other time, of 1."""
    whole = length(some)
    return length(overlap(some, others)) / whole if whole else 0.0
