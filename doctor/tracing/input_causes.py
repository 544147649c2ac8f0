"""Why the steps wait for input: the stage of the pipeline that is slow, and what makes it slow."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from tfgpu_doctor.model import Confidence
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.tracing.case import MODERATE, Case, Found
from tfgpu_doctor.tracing.first_fill import REFILLS
from tfgpu_doctor.tracing.intervals import clip, length, overlap, shared
from tfgpu_doctor.tracing.pipeline import Pipeline, Stage, extend, slowest
from tfgpu_doctor.tracing.python_samples import pipeline_places
from tfgpu_doctor.tracing.repeated_work import told_of_cache

_PYTHON = 0.4  # of the waiting
_FOR_MEMORY = 0.5  # of the waiting
_LOCKED = 0.1  # of the steps' time
_ALL_WAITING = 0.75  # of the steps' time: then a pipeline that worked ahead would not be much faster
_SMALL_MS = 0.3  # an element whose own work is less than what tf.data spends around it
_ELEMENTS = 32
_OWN_WORK = 0.5
_LEAST_STEPS, _FEW, _MOST = 10, 0.25, 0.75  # a quarter of the steps, and three quarters of the waiting
_AS_LONG, _TINY_MS = 10, 0.1  # times as long as the other steps wait
# Stages at the begin of a pipeline that read; and those that do work of their own on what they are given.
SOURCES = (
    "TFRecord", "TextLine", "FixedLength", "CSV", "Sql", "Snapshot", "Load", "Files", "MatchingFiles", "Directed",
)  # fmt: skip
_WITH_WORK = (
    "Map", "Filter", "FlatMap", "Interleave", "Batch", "Padded", "Unbatch", "Scan", "Reduce", "Group", "Window", "Bucket",
    "Rebatch", "Shuffle", "Flat", "Zip", "Concatenate", "Dense", "Sparse",
)  # fmt: skip


def waiting_for_input(case: Case) -> Found | None:
    """Return the reason why the steps wait for input; None if they do not, or if no stage works while they wait."""
    if case.share("input") < MODERATE or case.pipeline is None:
        return None
    stage = slowest(case.pipeline, case.times.waits)
    if stage is None and case.times.lost:  # few waits are left to judge by: those while a stage was seen to work
        extend(case.pipeline.stages, [case.times.window])
        stage = slowest(case.pipeline, overlap(case.times.waits, case.times.parts["input"]))
    python = shared(case.times.parts["input"], case.times.python)
    if found := _short_of_memory(case, stage):
        pass  # whatever the stage does, its data have to come back first
    elif stage is None or python >= _PYTHON or stage.kind == "Generator":
        found = _in_python(case, stage, python) if stage or python >= _PYTHON else None
    else:
        found = _slow_stage(case, case.pipeline, stage)
        if found.label != "input_shuffle":
            told, words = told_of_cache(case, case.pipeline, stage)
            found.evidence += told
            found.words |= words
    if found is None:
        return None
    waits = f"the steps wait {case.ms('input'):.1f} of {case.steps.mean_ms:.1f} ms for input"
    reason, *more = found.evidence
    if case.times.lost:
        more.insert(
            0,
            "in a part of that the profile holds nothing of the pipeline's work: the profiler forgets threads that end",
        )
    if case.times.lock_ms > _LOCKED * length([case.times.window]):
        lock_ms = case.times.lock_ms / case.steps.count
        more.insert(0, f"{lock_ms:.1f} ms of that the step's own Python waits for Python's lock (the GIL)")
    if case.profile.sources.network and found.label != "input_slow_source":
        more += list(case.profile.sources.said())[:1]
    found.evidence = [waits, *_bursts(case, found), reason, *more]
    return found


def _short_of_memory(case: Case, stage: Stage | None) -> Found | None:
    """Half of the waiting, or more, is for memory. That of other programs counts for the kernel, too: it is less sure."""
    seconds, memory = case.profile.sources.seconds, case.profile.sources.memory
    if memory.waits(seconds) < max(MODERATE, _FOR_MEMORY * case.share("input")):
        return None
    named = [f"{stage.in_words} takes {stage.each_ms:.2f} ms each meanwhile"] if stage else []
    sure: Confidence = "high" if memory.from_swap(seconds) else "medium"
    return Found("input_memory", sure, case.share("input"), [*memory.said(seconds), *named], stage)


def _bursts(case: Case, found: Found) -> list[str]:
    """Say so if a few steps do nearly all of the waiting; `buffer` is known if a longer one would hide it."""
    steps = case.steps.intervals
    times = sorted((length(clip(case.times.parts["input"], *step)) for step in steps), reverse=True)
    few = times[: max(1, round(_FEW * len(times)))]
    usual = statistics.median(times)
    long = [each for each in few if each > _AS_LONG * max(usual, _TINY_MS)]
    if len(times) < _LEAST_STEPS or not long or sum(long) < _MOST * sum(times):
        return []
    stage = found.stage
    if len(long) > 1 and stage and shared([case.times.window], stage.busy) <= 1 - found.share:
        found.words["buffer"] = str(round(case.steps.count / len(long)))
    return [
        f"{len(long)} of {len(steps)} steps wait {statistics.mean(long):.0f} ms for input, the others {usual:.1f} ms"
    ]


def _in_python(case: Case, stage: Stage | None, python: float) -> Found:
    """The pipeline is in Python: below this stage, if one is known."""
    below = f", below {stage.in_words}" if stage else ""
    found = Found("input_python", "high", case.share("input"), [
        f"during {python:.0%} of that time the pipeline is in Python{below}",
    ], stage)  # fmt: skip
    for name, part in pipeline_places(case.profile.samples, case.times.waits)[:2]:
        found.evidence.append(f"{part:.0%} of the looks found {name}")
        found.words.setdefault("place", name)
    return found


def _slow_stage(case: Case, pipeline: Pipeline, stage: Stage) -> Found:
    """Why a stage is slow that is not in Python: the first rule that fits."""
    share, named = case.share("input"), stage.in_words
    if shuffle := _refilled(pipeline, stage):
        source = shuffle.children[0]
        return Found("input_shuffle", "high", share, [
            f"{shuffle.in_words} took in {amount(source.calls, 'element')} and gave {shuffle.calls}: it fills its buffer",
        ], stage, {"stage": shuffle.in_words})  # fmt: skip
    if share < _ALL_WAITING and not any(each.is_async for each in _upwards(pipeline, stage)):
        return Found("input_no_prefetch", "high", share, [
            f"no stage works ahead: {named} runs only when a step asks, for {pipeline.root.each_ms:.1f} ms",
        ], stage)  # fmt: skip
    if _reads(stage):
        return Found("input_slow_source", "high", share, [
            f"{named} reads for {stage.each_ms:.2f} ms each, {amount(stage.calls, 'time')}, and all other stages wait for it",
            *case.profile.sources.said(),
        ], stage, {"network": network} if (network := case.profile.sources.network) else {})  # fmt: skip
    if small := _per_element(case, pipeline, stage):
        words = {"stage": ""} if "Batch" in stage.kind else {}  # the text says: batch before this stage
        return Found("input_per_element", "high", share, [small], stage, words)
    if not stage.is_async:
        return Found("input_serial_map", "high", share, [
            f"{named} works for {stage.each_ms:.2f} ms each, {amount(stage.calls, 'time')}, one after the other",
        ], stage)  # fmt: skip
    return _parallel(share, pipeline, stage)


def _parallel(share: float, pipeline: Pipeline, stage: Stage) -> Found:
    """The stage runs in parallel: on fewer CPUs than there are, or on all."""
    autotuned = str(stage.settings.get("autotune", "")).lower() == "true"
    # In a loop inside of a graph tf.data does not say how many CPUs it plans with.
    fewer = stage.parallelism < pipeline.cores if pipeline.cores else stage.parallelism == 1
    if not autotuned and stage.parallelism and fewer:
        at_once = f"{stage.parallelism} at once"
        return Found("input_serial_map", "high", share, [
            f"{stage.in_words} runs {at_once}" + (f", on {pipeline.cores} CPUs" if pipeline.cores else ""),
        ], stage, {"what": at_once})  # fmt: skip
    cpus = amount(pipeline.cores, "CPU") if pipeline.cores else "all CPUs"
    return Found("input_cpu_bound", "medium", share, [
        f"{stage.in_words} runs {stage.parallelism or 'several'} at once, on {cpus}, "
        "and is still too slow",
    ], stage)  # fmt: skip


def _reads(stage: Stage) -> bool:
    """Whether a stage has no work but to read, or to hand on what it reads."""
    with_work = stage.is_async or stage.kind.startswith(_WITH_WORK)
    return not with_work and (bool(stage.children) or stage.kind.startswith(SOURCES))


def _refilled(pipeline: Pipeline, stage: Stage) -> Stage | None:
    """The shuffle whose buffer is filled: more than once, or with elements that cost little themselves.

    One fill with costly elements is the begin of a training; what makes them costly is then the reason.
    """
    for above in _upwards(pipeline, stage):
        if not above.kind.startswith("Shuffle") or not above.children:
            continue
        source = above.children[0]
        if source.calls >= REFILLS * max(1, above.calls) and (above.long_calls > 1 or source.each_ms < _SMALL_MS):
            return above
    return None


def _upwards(pipeline: Pipeline, stage: Stage) -> Iterator[Stage]:
    """The stage, and those after it up to the program."""
    at: Stage | None = stage
    while at is not None:
        yield at
        at = pipeline.parent(at)


def _per_element(case: Case, pipeline: Pipeline, stage: Stage) -> str:
    """Say so if elements are many and small: then tf.data's own work around each is what takes the time."""
    elements = max([stage.calls, *(each.calls for each in stage.children)])
    batches = max(1, pipeline.root.calls)
    waits_ms = length(case.times.waits)
    each_ms = waits_ms / max(1, elements)
    if elements < _ELEMENTS * batches or not 0 < each_ms <= _SMALL_MS:
        return ""
    low, high = case.steps.window
    operations_ms = sum(
        event.duration
        for thread in case.profile.threads
        if thread is not case.steps.thread
        for event in thread.events.get("operation", ())
        if low <= event.begin < high
    ) - length(case.times.parts["compute"])
    if operations_ms > _OWN_WORK * waits_ms:
        return ""
    return (
        f"{stage.in_words} handles {elements // batches} single elements for each batch, {1000 * each_ms:.0f} µs each; "
        f"their operations take {max(0.0, operations_ms) / waits_ms:.0%} of that time"
    )
