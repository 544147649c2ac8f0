"""Where the time of the steps goes: each moment belongs to one of the parts."""

from __future__ import annotations

import bisect
from collections import defaultdict
from dataclasses import dataclass, field

from tfgpu_doctor.tracing.epoch_ends import standing_at_epoch_ends
from tfgpu_doctor.tracing.gpu_streams import GpuTimes, last_gpu, times_of_gpus
from tfgpu_doctor.tracing.graph_work import between_operations, compiling, operations_within, work_of_processor
from tfgpu_doctor.tracing.intervals import Interval, clip, length, overlap, union, without
from tfgpu_doctor.tracing.pipeline import Pipeline, Stage
from tfgpu_doctor.tracing.python_samples import python_elsewhere, python_of_program
from tfgpu_doctor.tracing.recorded import Profile
from tfgpu_doctor.tracing.steps import Steps, waits_of

PARTS = ("compute", "collectives", "copies", "compile", "input", "launch", "host", "idle")
_ENOUGH = 6  # steps, to tell what most of them do
_RARE = 0.5  # of the steps
_LOST = 10  # batches without a maker
_MOST_MS = 0.1  # between two operations: many small ones are not recorded
_UNSEEN_MS = 50.0  # five times as long as from one look at Python to the next
_SATURATED = 0.5  # of the steps' time in the pipeline's Python


@dataclass(slots=True)
class Breakdown:
    """The parts of the steps' time, as unions in ms; they do not overlap, and together are the steps' window."""

    window: Interval
    parts: dict[str, list[Interval]]
    waits: list[
        Interval
    ]  # all waiting for input, also while something else is computed, where the profile tells for what
    python: list[Interval]  # the pipeline is in Python, as its operations or looks at other threads show
    gpu: str = ""  # whose time it is, where a GPU computes; of several, the one that the others wait for
    gpus: dict[str, GpuTimes] = field(default_factory=dict)  # all that compute
    lost: list[Interval] = field(default_factory=list)  # batches came, and the profile holds nothing of who made them
    ended: list[Interval] = field(default_factory=list)  # of the idle time: an epoch's iterator is removed
    made: list[Interval] = field(default_factory=list)  # of the idle time: a call makes an iterator of its dataset
    between: list[Interval] = field(default_factory=list)  # of the launch: around the small operations of a graph
    lock_ms: float = 0.0  # of the input's time: the step's own Python waits for the pipeline's to let go of the GIL

    def share(self, part: str) -> float:
        """The share of a part in the steps' time, of 1."""
        return self.share_of(self.parts[part])

    def share_of(self, times: list[Interval]) -> float:
        """The share of some of the steps' time, of 1."""
        return length(times) / max(length([self.window]), 1e-9)


def break_down(profile: Profile, steps: Steps, pipeline: Pipeline | None) -> Breakdown:
    """Assign the time of the steps. What comes first takes a moment; what nothing claims is the host's.

    Waiting for input while no stage of the pipeline works is `idle`: the program, or the pipeline, waits for a core. Not so
    where the profile has lost what the stages did.
    """
    window = steps.window
    waits = waits_of(profile, steps)
    gpus = times_of_gpus(profile, window)
    gpu = steps.gpu if steps.gpu in gpus else last_gpu(gpus, window)
    python = union([*(pipeline.python if pipeline else ()), *python_elsewhere(profile.samples)])
    lost = _lost(pipeline, window) if pipeline else []
    worked = union([*_by_producers(pipeline), *python, *lost]) if pipeline else waits
    parts: dict[str, list[Interval]] = {part: [] for part in PARTS}
    left = [window]
    for part, times in (
        ("host", _interruptions(steps)), ("compile", compiling(profile, steps)), *_work(profile, steps, gpus, gpu),
        ("input", overlap(waits, worked)), ("idle", waits), ("idle", _of_others(gpus, gpu)), ("launch", _starting(steps)),
        ("launch", work_of_processor(profile, steps)[0] if gpu else []),
    ):  # fmt: skip
        parts[part] += overlap(times, left)
        left = without(left, times)
    own = _of_program(profile, steps, left)
    parts["host"] += own
    parts["idle"] += without(left, own)
    clipped = clip(python, *window)
    known = without(waits, lost)
    broken_down = Breakdown(
        window, {part: union(each) for part, each in parts.items()}, known, clipped, gpu, gpus, lost
    )
    _move_waits_for_lock(profile, broken_down)
    _move_ends_of_epochs(profile, steps, broken_down)
    _move_making(profile, steps, broken_down)
    _move_small_operations(profile, steps, broken_down)
    return broken_down


def _of_program(profile: Profile, steps: Steps, left: list[Interval]) -> list[Interval]:
    """Of the time that nothing claims what is the program's own; between long calls, that in which looks find its Python."""
    if steps.thread:
        return _seen(profile, left)
    if steps.within and profile.samples:
        return overlap(left, python_of_program(profile.samples))
    return left if steps.within else []


def _seen(profile: Profile, times: list[Interval]) -> list[Interval]:
    """Without long ones that hold no look at Python: the program had no CPU, and the thread that looks had none either."""
    looks = sorted(sample.at for sample in profile.samples)
    if not looks:
        return times
    return [
        (low, high) for low, high in times
        if high - low < _UNSEEN_MS or bisect.bisect_left(looks, low) < bisect.bisect_right(looks, high)
    ]  # fmt: skip


def _work(profile: Profile, steps: Steps, gpus: dict[str, GpuTimes], gpu: str) -> list[tuple[str, list[Interval]]]:
    """Computation, reductions and copies: of the GPU, or of the processor where no GPU computes."""
    computed, reduced = work_of_processor(profile, steps)
    if not gpu:
        return [("compute", computed), ("collectives", reduced)]
    times = gpus[gpu]
    collectives = union([*times.collectives, *reduced])
    return [("compute", times.compute), ("collectives", collectives), ("copies", times.copies)]


def _of_others(gpus: dict[str, GpuTimes], gpu: str) -> list[Interval]:
    """The time in which other GPUs compute."""
    return union(interval for name, times in gpus.items() if name != gpu for interval in times.compute)


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


def _move_ends_of_epochs(profile: Profile, steps: Steps, times: Breakdown) -> None:
    """While the program stands still because the iterator of an epoch is removed, nothing is started: that time is idle.

    It does not stand while a graph runs: the first run of one waits long for kernels that are loaded and compiled.
    """
    parts = times.parts
    runs = work_of_processor(profile, steps)[0] if times.gpu else []
    own = without(union([*parts["host"], *parts["launch"]]), runs)
    times.ended = standing_at_epoch_ends(profile, steps, own, times.python)
    for part in ("host", "launch"):
        parts[part] = without(parts[part], times.ended)
    parts["idle"] = union([*parts["idle"], *times.ended])


def _move_small_operations(profile: Profile, steps: Steps, times: Breakdown) -> None:
    """On a processor a run of a graph is computation where its operations run; between them it starts the next ones.

    Not so where XLA has compiled something and few operations are recorded: no release records the operation that starts
    its code inside of a graph (no asynchronous one is), and before 2.18 nothing of its run.
    """
    if profile.gpus:
        return
    parts = times.parts
    between = between_operations(profile, steps, parts["compute"])
    if profile.programs and length(between) > _MOST_MS * operations_within(profile, times.window):
        return
    times.between = between
    parts["compute"] = without(parts["compute"], between)
    parts["launch"] = union([*parts["launch"], *between])


def _move_making(profile: Profile, steps: Steps, times: Breakdown) -> None:
    """A loop over a dataset inside of a call makes an iterator each time: nothing is started meanwhile, that time is idle.

    203 ms in each call of a hundred steps were seen on an H200, most of them to instantiate the loop's body (ScanDataset).
    """
    if steps.found_by != "graph":
        return
    made = union(each.interval for thread in profile.threads for each in thread.events.get("making", ()))
    times.made = overlap(times.parts["launch"], made)
    times.parts["launch"] = without(times.parts["launch"], times.made)
    times.parts["idle"] = union([*times.parts["idle"], *times.made])


def _interruptions(steps: Steps) -> list[Interval]:
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
    """The time in which a stage does work of its own."""
    return union(
        interval for stage in pipeline.stages.values() if _produces(stage, pipeline.root) for interval in stage.busy
    )


def _lost(pipeline: Pipeline, window: Interval) -> list[Interval]:
    """The time in which many batches came, one after the other, and no stage made any.

    The profiler of older releases (2.15, 2.16) keeps nothing of threads that have ended, and each epoch of Keras' `fit`
    has an iterator with threads of its own.
    """
    made = _by_producers(pipeline)
    if not made or not any(stage.is_async for stage in pipeline.root.children):
        return []  # nothing tells who made them; or it works when it is asked, on the thread that asks
    asked = [begin for begin, _ in pipeline.root.busy]
    unseen = without([window], made)
    return [gap for gap in unseen if bisect.bisect_left(asked, gap[1]) - bisect.bisect_left(asked, gap[0]) >= _LOST]


def _produces(stage: Stage, root: Stage) -> bool:
    """Whether a stage does not only hand on what threads of its own, or the stages before it, have made."""
    if not stage.is_async:
        return stage is not root
    if stage.kind in ("MemoryCacheImpl", "Model"):
        return stage is not root and not stage.children
    return stage.kind != "Prefetch"


def _starting(steps: Steps) -> list[Interval]:
    """The time inside calls; in an eager program all of the step is the launching of operations."""
    if steps.found_by in ("batches", "operations") or eager_per_step(steps) >= many_operations(steps):
        return [steps.window]
    if steps.thread is None:
        return steps.within
    return union([*steps.within, *(each.interval for each in (*steps.calls, *steps.thread.events.get("eager", ())))])


def many_operations(steps: Steps) -> int:
    """From how many operations on, started by Python, a step is called eager: fewer if no function runs."""
    low, high = steps.window
    return 40 if any(low <= call.begin < high for call in steps.calls) else 8


def eager_per_step(steps: Steps) -> float:
    """How many operations Python starts one by one in a step."""
    if steps.thread is None or not steps.intervals:
        return 0.0
    low, high = steps.window
    count = sum(low <= each.begin < high for each in steps.thread.events.get("eager", ()))
    return count / max(1, steps.count)
