"""Find the steps in a profile: by markers, calls of a function, batches, operations, or a GPU's own line."""

from __future__ import annotations

import bisect
import itertools
import math
import re
import statistics
from collections import Counter, defaultdict
from dataclasses import replace

from tfgpu_doctor.tracing.beginnings import makes_variables
from tfgpu_doctor.tracing.gpu_streams import NO_WORK, kind_of, streams
from tfgpu_doctor.tracing.intervals import length, union
from tfgpu_doctor.tracing.long_calls import inside_of_call
from tfgpu_doctor.tracing.recorded import Event, Profile, Thread
from tfgpu_doctor.tracing.steps import Steps, outermost
from tfgpu_doctor.tracing.validation_steps import SHARED, tests_told_apart

_PREDICTS = ("one_step_on_data_distributed", "multi_step_on_data")  # functions of Keras 3 that its predict alone calls
OF_TEST = ("test", "eval", "predict", "valid", *_PREDICTS)
_KERAS = {*SHARED, "train_function"}
_FEW = 3
_OPERATIONS_PER_CALL = 50  # from so many on, a function that is called is not the step
_MOST_OPERATIONS = 20_000
_BUILDS = re.compile(r"(Dataset(V\d+)?|Iterator\w*)$")  # eager operations that make a pipeline, as each predict does
_MOST_TRIED = 8  # operations, the rarest first
_ALIKE = 0.9  # of the operations are the same one period later


def find_steps(profile: Profile) -> Steps:
    """Return the steps by the first of these ways that finds some; a GPU's own line is the last."""
    thread = _program_thread(profile)
    if thread is None:
        return inside_of_call(profile, Steps()) or _of_gpu(profile)
    calls, markers = _calls_and_markers(thread)
    calls = tests_told_apart(profile, thread, calls)
    steps = _by_markers(thread, markers) or _by_calls(thread, calls) or _by_batches(thread) or _by_operations(thread)
    steps = _with_work_of_gpus(profile, steps, [*calls, *markers]) if steps else _of_gpu(profile)
    steps = replace(steps, thread=thread, calls=calls)
    return inside_of_call(profile, steps) or replace(steps, per_call=_batches_per_call(profile, steps))


def _program_thread(profile: Profile) -> Thread | None:
    """The thread that runs the training's Python: it calls functions and operations longest."""

    def busy(thread: Thread) -> float:
        return length(
            union(each.interval for kind in ("call", "eager", "tracing") for each in thread.events.get(kind, ()))
        )

    known = [each for each in profile.threads if not (each.of_pipeline or each.of_loop) and busy(each) > 0]
    return max(known, key=busy, default=None)


def _calls_and_markers(thread: Thread) -> tuple[list[Event], list[Event]]:
    """The calls of tf.functions from Python, and the markers of steps; both are known by their statistics.

    Releases that do not mark the calls have events for what runs them: `EagerLocalExecute: __inference_train_step_106`.
    """
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
    runs = [replace(each, name=_function(each.name)) for each in thread.events.get("call", ())]
    return outermost(calls or runs), markers


def _by_markers(thread: Thread, markers: list[Event]) -> Steps | None:
    names = defaultdict(list)
    for event in markers:
        names[str(thread.stats(event).get("graph_type") or event.name)].append(
            event
        )  # 2.2 calls all of them TraceContext
    trained = {name: events for name, events in names.items() if not name.lower().startswith(OF_TEST)} or names
    if not trained:
        return None
    name = max(trained, key=lambda each: sum(event.duration for event in trained[each]))
    keras = "epoch_num" in thread.stats(trained[name][0])
    return _made("markers", trained[name], name, keras=keras)


def _by_calls(thread: Thread, calls: list[Event]) -> Steps | None:
    """The function that takes longest in all, and does not test; in an eager program functions are rare."""
    names = defaultdict(list)
    for event in calls:
        names[event.name].append(event)
    eager = [event for event in thread.events.get("eager", ()) if not _BUILDS.search(event.name)]
    trained = {name: events for name, events in names.items() if not any(word in name.lower() for word in OF_TEST)}
    trained = trained or names
    if not trained:
        return None
    name = max(trained, key=lambda each: (len(trained[each]) > 1, sum(event.duration for event in trained[each])))
    rare = len(eager) > _OPERATIONS_PER_CALL * len(trained[name])
    if rare and sum(event.duration for event in trained[name]) < sum(event.duration for event in eager):
        return None
    return _made("calls", trained[name], name, keras=name in _KERAS)


def _by_batches(thread: Thread) -> Steps | None:
    """A step begins where the program asks for a batch."""
    waits = outermost(list(thread.events.get("input wait", ())))
    if len(waits) < _FEW:
        return None
    return _made("batches", waits, keras=any(event.name in _KERAS for event in thread.events.get("other", ())))


def _by_operations(thread: Thread) -> Steps | None:
    """An eager program without a dataset: the operations that it starts repeat from step to step."""
    events = sorted(thread.events.get("eager", ()), key=lambda each: each.begin)[-_MOST_OPERATIONS:]
    names = [event.name for event in events]
    period = _period(names)
    return _made("operations", events[::period]) if period and not makes_variables(names, period) else None


def _period(names: list[str]) -> int:
    """After how many operations the same ones follow; 0 if they do not repeat.

    The rarest operation that comes again and again tells which periods to try; if none fits, the next rarest, as some rounds hold
    more operations than others.
    """
    counts = Counter(names)
    often = {count: name for name, count in counts.items() if count > _FEW}  # one of those that are equally rare
    for _, rarest in sorted(often.items())[:_MOST_TRIED]:
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


def _made(found_by: str, events: list[Event], name: str = "", *, keras: bool = False) -> Steps:
    """Steps that begin with these events; a single event is a step itself."""
    begins = sorted(event.begin for event in events)
    intervals = list(itertools.pairwise(begins)) if len(begins) > 1 else [event.interval for event in events]
    return Steps(found_by=found_by, name=name, intervals=intervals, keras=keras)


def _with_work_of_gpus(profile: Profile, steps: Steps, events: list[Event]) -> Steps:
    """Where a call or marker is the only step: it also lasts while GPUs do what it has started, until the next one begins."""
    if len(steps.intervals) > 1 or steps.found_by not in ("markers", "calls"):
        return steps
    low, high = steps.intervals[0]
    latest = min((event.begin for event in events if event.begin >= high), default=math.inf)
    works = (event for _, stream in streams(profile) for event in stream.events if low <= event.begin < latest)
    end = max((event.end for event in works if kind_of(event.name) != NO_WORK), default=high)
    return replace(steps, intervals=[(low, max(high, min(end, latest)))])


def _function(run: str) -> str:
    """The function of a run: train_step of `EagerLocalExecute: __inference_train_step_106`."""
    bare = run.rpartition(": __")[2].removeprefix("inference_")
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
        for event in thread.events.get("iterator", ()) if not thread.prepares_batches else ():
            place = bisect.bisect_right(begins, event.begin) - 1
            if event.name.count("::") == 1 and place >= 0:
                iterators[place].add(thread.stats(event).get("id"))
    replicas = max(1.0, statistics.median(len(each) for each in iterators))
    ratio = waits / len(begins) / replicas
    return float(round(ratio)) if ratio >= 1.5 and abs(ratio - round(ratio)) < 0.2 else 1.0
