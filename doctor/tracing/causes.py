"""The one bottleneck of a training, from where its steps' time goes."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

from tfgpu_doctor.model import Confidence
from tfgpu_doctor.tracing.breakdown import Breakdown, eager_per_step, many_operations, traced_calls
from tfgpu_doctor.tracing.intervals import clip, length
from tfgpu_doctor.tracing.pipeline import Pipeline, Stage, slowest
from tfgpu_doctor.tracing.python_samples import HostWork, host_work, pipeline_places
from tfgpu_doctor.tracing.recorded import Profile
from tfgpu_doctor.tracing.steps import Steps, shared

HIGH, MODERATE = 0.2, 0.1  # XProf calls 5 % of waiting moderate and 20 % high; below 10 % is not worth a change
_PYTHON = 0.4  # of the waiting
_HOST_MS = 1.5  # of the program's own Python in a step; Keras itself needs less
_EVEN_SHARE = 0.25  # of the steps that hold most of what comes between them
_REFILLS = 1.8  # elements that a shuffle takes in for each that it gives
_SMALL_MS = 0.3  # an element whose own work is less than what tf.data spends around it
_ELEMENTS = 32
_OWN_WORK = 0.5
_SAMPLES = 15
_FIRST_CALLS = 2
# Stages at the begin of a pipeline that read; and those that do work of their own on what they are given.
SOURCES = (
    "TFRecord",
    "TextLine",
    "FixedLength",
    "CSV",
    "Sql",
    "Snapshot",
    "Load",
    "Files",
    "MatchingFiles",
    "Directed",
)
_WITH_WORK = (
    "Map", "Filter", "FlatMap", "Interleave", "Batch", "Padded", "Unbatch", "Scan", "Reduce", "Group", "Window", "Bucket",
    "Rebatch", "Shuffle", "Flat", "Zip", "Concatenate", "Dense", "Sparse",
)  # fmt: skip


@dataclass
class Found:
    """A bottleneck: the label, how sure, the share of the steps' time that it takes, and what in the trace says so."""

    label: str
    confidence: Confidence
    share: float
    evidence: list[str]
    stage: Stage | None = None
    words: dict[str, str] = field(default_factory=dict)  # for the text of the fix


@dataclass
class Case:
    """All that the rules look at."""

    profile: Profile
    steps: Steps
    pipeline: Pipeline | None
    times: Breakdown

    def share(self, *parts: str) -> float:
        """The share of some parts of the steps' time."""
        return sum(self.times.share(part) for part in parts)

    def ms(self, part: str) -> float:
        """The time of a part in a step, in ms."""
        return length(self.times.parts[part]) / max(1, self.steps.count)

    def host(self) -> HostWork:
        """What the samples show of the host's time."""
        return host_work(self.profile.samples, self.times.parts["host"])


def bottlenecks(case: Case) -> list[Found]:
    """Return the bottlenecks that take a tenth of the time or more, the greatest first."""
    uneven, compiles, waits = _between_steps(case), _compiles(case), _input(case)
    overhead = None if compiles else _overhead(case, uneven)
    found = (compiles, waits, uneven, overhead, _collectives(case), _copies(case))
    return sorted((each for each in found if each and each.share >= MODERATE), key=lambda each: -each.share)


def _compiles(case: Case) -> Found | None:
    share = case.share("compile")
    traced = traced_calls(case.steps)
    low, high = case.steps.window
    traced = [each for each in traced if low <= each.begin < high]
    repeated = max(case.profile.programs.items(), key=lambda each: each[1], default=("", 0))
    if len(traced) > _FIRST_CALLS and share >= MODERATE and _mostly_traced(case, len(traced)):
        name = traced[0].name
        return Found("retracing", "high", share, [
            f"{name} was traced {len(traced)} times in {case.steps.count} steps",
            f"building graphs takes {case.ms('compile'):.0f} ms of each step",
        ], words={"function": name})  # fmt: skip
    many = repeated[1] >= max(3, 0.3 * case.steps.count)
    if many and share < MODERATE:  # releases before 2.16 do not record XLA's compilation itself
        share = case.share("launch") if not case.share("compute") > HIGH else 0.0
    if many and share >= MODERATE:
        name = repeated[0].partition("__XlaMustCompile")[0].removeprefix("a_inference_")
        return Found("compile", "high", share, [
            f"XLA compiled {name} {repeated[1]} times",
            f"compiling takes {share * case.steps.mean_ms:.0f} of {case.steps.mean_ms:.0f} ms of each step",
        ], words={"function": name})  # fmt: skip
    return None


def _mostly_traced(case: Case, traced: int) -> bool:
    return traced >= 0.1 * case.steps.count


def _between_steps(case: Case) -> Found | None:
    """Work of the host that a few steps hold: checkpoints, validation."""
    steps = case.steps.intervals
    host = case.times.parts["host"]
    if len(steps) < 5 or case.share("host") < MODERATE:
        return None
    times = sorted((length(clip(host, *step)) for step in steps), reverse=True)
    few = times[: max(1, round(_EVEN_SHARE * len(times)))]
    usual = statistics.median(times)
    excess = sum(max(0.0, each - usual) for each in few) / max(length([case.steps.window]), 1e-9)
    if sum(few) < 0.75 * sum(times) or excess < MODERATE or statistics.mean(few) < 20 * usual:
        return None
    names = {call.name for call in case.steps.calls if call.name != case.steps.name and clip(host, *call.interval)}
    places = [name for name, _ in case.host().places]
    what = ", ".join([*sorted(names)[:2], *places[:2]]) or "Python between the steps"
    return Found("uneven_steps", "high", excess, [
        f"{sum(each > 5 * max(usual, 0.01) for each in few)} of {len(steps)} steps wait {statistics.mean(few):.0f} ms "
        f"for other work, the others {usual:.1f} ms",
        f"in that time: {what}",
    ], words={"what": what})  # fmt: skip


def _overhead(case: Case, uneven: Found | None) -> Found | None:
    """Starting the step's work, and Python between the steps, less what a few steps alone have."""
    share = case.share("launch", "host") - (uneven.share if uneven else 0.0)
    if share < MODERATE or case.steps.thread is None:
        return None
    if (operations := eager_per_step(case.steps)) >= many_operations(case.steps):
        return Found("eager", "high", share, [
            f"Python starts {operations:.0f} operations one by one in each step",
            f"their computation takes {case.ms('compute'):.1f} of {case.steps.mean_ms:.1f} ms",
        ])  # fmt: skip
    work, host_ms = case.host(), case.ms("host")
    sampled = work.samples >= _SAMPLES
    by_user = work.user >= 0.5 if sampled else host_ms >= _HOST_MS
    if by_user and case.share("host") > case.share("launch") and not uneven:
        callback = work.callback > 0.5 * work.user if sampled else case.steps.keras
        label = "host_callback" if callback else "host_python"
        evidence = [
            f"between the calls of {case.steps.name or 'its functions'} the program's Python takes "
            f"{host_ms:.1f} of {case.steps.mean_ms:.1f} ms"
        ]
        evidence += [f"{part:.0%} of the looks at it found {name}" for name, part in work.places[:2]]
        return Found(
            label, "high" if sampled else "medium", case.share("host"), evidence, words={"place": _first(work)}
        )
    if share <= case.share("compute"):  # a busy processor makes starting slow, too: not what such a step is called for
        return None
    return Found("launch_bound", "medium", share, [
        f"a step takes {case.steps.mean_ms:.2f} ms, its computation {case.ms('compute'):.2f} ms",
        f"the rest starts it: {case.ms('launch'):.2f} ms inside {case.steps.name or 'calls'}, "
        f"{host_ms:.2f} ms of Python around it",
    ])  # fmt: skip


def _first(work: HostWork) -> str:
    return work.places[0][0] if work.places else ""


def _collectives(case: Case) -> Found | None:
    share = case.share("collectives")
    return Found(
        "collectives",
        "medium",
        share,
        [
            f"reductions between the replicas take {case.ms('collectives'):.1f} of {case.steps.mean_ms:.1f} ms, "
            "while nothing is computed"
        ],
    )


def _copies(case: Case) -> Found | None:
    share = case.share("copies")
    return Found(
        "copies",
        "medium",
        share,
        [
            f"copies between host and GPU take {case.ms('copies'):.1f} of {case.steps.mean_ms:.1f} ms, while nothing is computed"
        ],
    )


def _input(case: Case) -> Found | None:
    share, pipeline = case.share("input"), case.pipeline
    if share < MODERATE or pipeline is None:
        return None
    waits = case.times.waits
    stage = slowest(pipeline, waits)
    evidence = [f"the steps wait {case.ms('input'):.1f} of {case.steps.mean_ms:.1f} ms for input"]
    if stage is None and shared(case.times.parts["input"], case.times.python) < _PYTHON:
        return None
    label, words = _reason(case, pipeline, stage)
    evidence += words
    if case.times.lock_ms > 0.1 * length([case.times.window]):
        evidence.append(
            f"{case.times.lock_ms / case.steps.count:.1f} ms of that the step's own Python waits for Python's lock (the GIL)"
        )
    found = Found(label, "high" if label != "input_cpu_bound" else "medium", share, evidence, stage)
    if label == "input_python":
        for name, part in pipeline_places(case.profile.samples, waits)[:2]:
            found.evidence.append(f"{part:.0%} of the looks found {name}")
            found.words.setdefault("place", name)
    return found


def _reason(case: Case, pipeline: Pipeline, stage: Stage | None) -> tuple[str, list[str]]:
    """Why the stage is slow: the label, and what in the trace says so."""
    python = shared(case.times.parts["input"], case.times.python)
    if stage is None or python >= _PYTHON or stage.kind == "Generator":
        below = f", below {in_words(stage)}" if stage else ""
        return "input_python", [f"during {python:.0%} of that time the pipeline is in Python{below}"]
    named = in_words(stage)
    if refill := _refill(pipeline, stage):
        return "input_shuffle", [refill]
    if not any(each.is_async for each in _upwards(pipeline, stage)) and case.share("input") < 0.75:
        return "input_no_prefetch", [
            f"no stage works ahead: {named} runs only when a step asks, for {_root_ms(pipeline):.1f} ms"
        ]
    if (
        not stage.is_async
        and not stage.kind.startswith(_WITH_WORK)
        and (stage.children or stage.kind.startswith(SOURCES))
    ):
        return "input_slow_source", [
            f"{named} reads for {stage.each_ms:.2f} ms each, {stage.calls} times, and all other stages wait for it"
        ]
    small = _per_element(case, pipeline, stage)
    if small:
        return "input_per_element", [small]
    if not stage.is_async:
        return "input_serial_map", [
            f"{named} works for {stage.each_ms:.2f} ms each, {stage.calls} times, one after the other"
        ]
    autotuned = str(stage.settings.get("autotune", "")).lower() == "true"
    if stage.parallelism and not autotuned and pipeline.cores and stage.parallelism < pipeline.cores:
        return "input_serial_map", [f"{named} runs {stage.parallelism} at once, on {pipeline.cores} CPUs"]
    return "input_cpu_bound", [
        f"{named} runs {stage.parallelism or 'several'} at once, on {pipeline.cores or 'all'} CPUs, and is still too slow"
    ]


def _refill(pipeline: Pipeline, stage: Stage) -> str:
    """Say so if a shuffle buffer is filled: more than once, or with elements that cost little themselves.

    One fill with costly elements is the begin of a training; what makes them costly is then the reason.
    """
    for above in _upwards(pipeline, stage):
        if not above.kind.startswith("Shuffle") or not above.children:
            continue
        source = above.children[0]
        if source.calls >= _REFILLS * max(1, above.calls) and (above.long_calls > 1 or source.each_ms < _SMALL_MS):
            return f"{in_words(above)} took in {source.calls} elements and gave {above.calls}: it fills its buffer"
    return ""


def _root_ms(pipeline: Pipeline) -> float:
    return pipeline.root.each_ms


def _upwards(pipeline: Pipeline, stage: Stage) -> list[Stage]:
    """The stage, and those after it up to the program."""
    found: list[Stage] = []
    at: Stage | None = stage
    while at is not None:
        found.append(at)
        at = pipeline.parent(at)
    return found


def _per_element(case: Case, pipeline: Pipeline, stage: Stage) -> str:
    """Say so if elements are many and small: then tf.data's own work around each is what takes the time."""
    elements = max([stage.calls, *(each.calls for each in stage.children)])
    batches = max(1, pipeline.root.calls)
    each = length(case.times.waits) / max(1, elements)
    if elements < _ELEMENTS * batches or each > _SMALL_MS:
        return ""
    low, high = case.steps.window
    operations = sum(
        event.duration
        for thread in case.profile.threads
        for event in thread.events.get("operation", ())
        if low <= event.begin < high and not (case.steps.thread and thread is case.steps.thread)
    ) - length(case.times.parts["compute"])
    if operations > _OWN_WORK * length(case.times.waits):
        return ""
    part = max(0.0, operations) / length(case.times.waits)
    return (
        f"{in_words(stage)} handles {elements // batches} single elements for each batch, {1000 * each:.0f} µs each; "
        f"their operations take {part:.0%} of that time"
    )


def in_words(stage: Stage) -> str:
    """Name a stage as tf.data does: `MapDataset:2 (Prefetch::MapAndBatch::Map)`."""
    path = stage.path.removeprefix("Iterator::").removeprefix("Root::")
    name = str(stage.settings.get("name", ""))
    return f"{name} ({path})" if name else path
