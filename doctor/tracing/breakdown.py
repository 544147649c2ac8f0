"""Where the time of the steps goes: each moment belongs to one of the parts."""

from __future__ import annotations

import bisect
from collections import defaultdict
from dataclasses import dataclass

from tfgpu_doctor.tracing.intervals import Interval, clip, length, overlap, union, without
from tfgpu_doctor.tracing.pipeline import Pipeline
from tfgpu_doctor.tracing.python_samples import python_elsewhere, python_of_program
from tfgpu_doctor.tracing.recorded import Event, Profile, Stream, Thread
from tfgpu_doctor.tracing.steps import Steps, outermost, waits_of

PARTS = ("compute", "collectives", "copies", "compile", "input", "launch", "host", "idle")
_DERIVED = (
    "TensorFlow",
    "Steps",
    "XLA",
    "Framework",
    "Source",
    "Launch",
    "Scope",
)  # lines that repeat the streams' time


_ENOUGH = 6  # steps, to tell what most of them do
_RARE = 0.5  # of the steps
_SATURATED = 0.5  # of the steps' time in the pipeline's Python


@dataclass(slots=True)
class Breakdown:
    """The parts of the steps' time, as unions in ms; they do not overlap, and together are the steps' window."""

    window: Interval
    parts: dict[str, list[Interval]]
    waits: list[Interval]  # all waiting for input, also while something else is computed
    python: list[Interval]  # the pipeline is in Python, as its operations or looks at other threads show
    lock_ms: float = 0.0  # of the input's time: the step's own Python waits for the pipeline's to let go of the GIL

    def share(self, part: str) -> float:
        """The share of a part in the steps' time, of 1."""
        return length(self.parts[part]) / max(length([self.window]), 1e-9)


def break_down(profile: Profile, steps: Steps, pipeline: Pipeline | None) -> Breakdown:
    """Assign the time of the steps: to the device's work first, then to what the program's thread waits for or does.

    Waiting for input while no stage of the pipeline works is `idle`: the program, or the pipeline, waits for a core.
    """
    window = steps.window
    waits = waits_of(profile, steps)
    compute, collectives, copies = _on_gpus(profile, steps.gpu) if profile.gpus else _on_processor(profile, steps)
    compile_ = _compiling(profile, steps)
    inside = union(each.interval for each in steps.calls) if steps.thread else []
    if steps.thread:
        inside = union([*inside, *(each.interval for each in steps.thread.events.get("eager", ()))])
    python = union([*(pipeline.python if pipeline else ()), *python_elsewhere(profile.samples)])
    worked = union([*_by_producers(pipeline), *python]) if pipeline else waits
    interrupted = interruptions(steps)
    candidates = {
        "host": interrupted,
        "compile": compile_, "compute": compute, "collectives": collectives, "copies": copies,
        "input": overlap(waits, worked), "idle": waits, "launch": _eager_span(steps, inside),
    }  # fmt: skip
    parts: dict[str, list[Interval]] = {}
    taken: list[Interval] = []
    for part, times in candidates.items():
        parts[part] = without(clip(times, *window), taken)
        taken = union([*taken, *parts[part]])
    parts["host" if steps.thread else "idle"] += without([window], taken)
    broken_down = Breakdown(window, {part: union(parts[part]) for part in PARTS}, waits, clip(python, *window))
    _move_waits_for_lock(profile, broken_down)
    return broken_down


def _move_waits_for_lock(profile: Profile, times: Breakdown) -> None:
    """While the pipeline is in Python nearly always, the step's own Python waits for the same lock: that time is input.

    Not where the program's own code was seen to run; without looks at it, only what is inside of TensorFlow's calls.
    """
    if length(times.python) < _SATURATED * length([times.window]):
        return
    busy = union(times.parts["input"] + without(times.python, python_of_program(profile.samples)))
    for part in ("launch", "host") if profile.samples else ("launch",):
        moved = overlap(times.parts[part], busy)
        times.parts[part] = without(times.parts[part], moved)
        times.parts["input"] = union([*times.parts["input"], *moved])
        times.lock_ms += length(moved)


def interruptions(steps: Steps) -> list[Interval]:
    """The calls of functions that most steps do not make, and the writing of checkpoints: what comes between steps."""
    if steps.thread is None or len(steps.intervals) < _ENOUGH:
        return []
    begins = [low for low, _ in steps.intervals]
    steps_with: dict[str, set[int]] = defaultdict(set)
    for call in steps.calls:
        steps_with[call.name].add(bisect.bisect_right(begins, call.begin))
    rare = {name for name, found in steps_with.items() if len(found) < _RARE * len(begins) and name != steps.name}
    if steps.found_by != "calls":
        rare -= {max(steps_with, key=lambda each: len(steps_with[each]), default="")}
    built = union(each.interval for each in steps.thread.events.get("tracing", ()))
    found = [call.interval for call in steps.calls if call.name in rare and not clip(built, *call.interval)]
    return union([*found, *(each.interval for each in steps.thread.events.get("checkpoint", ()))])


def _by_producers(pipeline: Pipeline) -> list[Interval]:
    """The time in which a stage works that does not itself only wait for threads of its own."""
    found: list[Interval] = []
    for stage in pipeline.stages.values():
        if stage is pipeline.root or stage.kind == "Prefetch" or (stage.is_async and stage.children):
            continue
        found += stage.busy
    workers = [
        stage
        for stage in pipeline.stages.values()
        if stage.is_async and stage.kind not in ("Prefetch", "MemoryCacheImpl", "Model")
    ]
    for stage in workers:
        found += stage.busy
    return union(found)


def _eager_span(steps: Steps, inside: list[Interval]) -> list[Interval]:
    """The time inside calls; in an eager program all of the step is the launching of operations."""
    return [steps.window] if steps.found_by in ("batches", "operations") or _is_eager(steps) else inside


def _is_eager(steps: Steps) -> bool:
    return bool(steps.thread) and eager_per_step(steps) >= many_operations(steps)


def many_operations(steps: Steps) -> int:
    """From how many operations on, started by Python in each step, the step is called eager: fewer if no function runs."""
    low, high = steps.window
    return 40 if any(low <= call.begin < high for call in steps.calls) else 8


def eager_per_step(steps: Steps) -> float:
    """How many operations Python starts one by one in a step."""
    if steps.thread is None or not steps.intervals:
        return 0.0
    low, high = steps.window
    count = sum(low <= each.begin < high for each in steps.thread.events.get("eager", ()))
    return count / max(1, steps.count)


def _compiling(profile: Profile, steps: Steps) -> list[Interval]:
    """Tracing of functions, and XLA: a call that compiles, less what it executes."""
    if steps.thread is None:
        return []
    events = steps.thread.events
    found = [each.interval for each in events.get("tracing", ())]
    compiled = union(each.interval for each in events.get("xla compile", ()))
    ran = union(each.interval for each in events.get("xla run", ()))
    for call in outermost(list(events.get("call", ()))):
        inner = clip(compiled, *call.interval)
        if inner:
            found += without([call.interval], ran)
    # The first run of a graph that was just traced prepares it: shape inference, placement, grappler.
    for traced in traced_calls(steps):
        found += without([traced.interval], _model_runs(profile, steps))
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


def _model_runs(profile: Profile, steps: Steps) -> list[Interval]:
    return _on_processor(profile, steps)[0]


def _on_processor(profile: Profile, steps: Steps) -> tuple[list[Interval], list[Interval], list[Interval]]:
    """The work of the model's graphs on the processor: the runs that the program's thread began, not the pipeline's."""
    runs = _runs_of_model(profile)
    found: list[Interval] = []
    collectives: list[Interval] = []
    for thread in profile.threads:
        collectives += [each.interval for each in thread.events.get("collective", ())]
        if thread.of_pipeline:
            continue
        for event in thread.events.get("executor", ()):
            if thread.stats(event).get("id") in runs:
                found += [event.interval]
        if thread is steps.thread:
            found += [each.interval for each in thread.events.get("eager", ())]
            found += [each.interval for each in thread.events.get("xla run", ())]
    own = union(found)
    waits = waits_of(profile, steps)
    together = union(collectives)
    return without(without(own, together), _inner_waits(profile, waits)), together, []


def _inner_waits(profile: Profile, waits: list[Interval]) -> list[Interval]:
    """Waiting inside of an operation that is no work: the operation that asks the iterator."""
    asking = union(
        each.interval
        for thread in profile.threads
        if not thread.of_pipeline
        for each in thread.events.get("input wait", ())
    )
    return overlap(asking, waits)


def _runs_of_model(profile: Profile) -> set[object]:
    """The ids of runs of graphs that no stage of the pipeline began."""
    pipeline: set[object] = set()
    model: set[object] = set()
    for thread in profile.threads:
        if thread.of_pipeline and "get_next" not in thread.name:
            continue
        for kind in ("run", "input wait"):
            for event in thread.events.get(kind, ()):
                model.add(thread.stats(event).get("id"))
        for event in thread.events.get("user function", ()):
            pipeline.add(thread.stats(event).get("id"))
    return model - pipeline - {None}


def streams(profile: Profile) -> list[tuple[str, Stream]]:
    """The streams of all GPUs, without the lines that TensorFlow derives from them."""
    return [
        (gpu, stream)
        for gpu, lines in profile.gpus.items()
        for stream in lines
        if stream.name.startswith("Stream") and not stream.name.startswith(_DERIVED)
    ]


def is_copy(name: str) -> bool:
    """Whether an event of a stream moves data."""
    return name.startswith(("Memcpy", "MemcpyH2D", "Memset"))


def is_collective(name: str) -> bool:
    """Whether a kernel is NCCL's."""
    return name.startswith("nccl")


def _on_gpus(profile: Profile, one: str) -> tuple[list[Interval], list[Interval], list[Interval]]:
    """Kernels, NCCL's kernels, and copies, of all GPUs, or of the one that tells the steps."""
    compute: list[Interval] = []
    collectives: list[Interval] = []
    copies: list[Interval] = []
    for gpu, stream in streams(profile):
        for event in stream.events if one in ("", gpu) else ():
            (copies if is_copy(event.name) else collectives if is_collective(event.name) else compute).append(
                event.interval
            )
    return union(compute), union(collectives), union(copies)


def busiest_gpu(profile: Profile) -> str:
    """The GPU with the most kernels' time; empty if none computes."""
    times: dict[str, float] = {}
    for gpu, stream in streams(profile):
        times[gpu] = times.get(gpu, 0.0) + sum(each.duration for each in stream.events if not is_copy(each.name))
    return max(times, key=lambda each: times[each], default="") if any(times.values()) else ""


def thread_time(thread: Thread, kind: str) -> float:
    """The time of a thread's events of a kind, in ms."""
    return length(union(each.interval for each in thread.events.get(kind, ())))
