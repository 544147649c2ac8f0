"""What holds a GPU up from the host's side: reading results in each step, operations on the CPU, memory.

None of these rules has met a recording of a GPU: their confidence is medium at most.
"""

from __future__ import annotations

import bisect
from collections import Counter, defaultdict

from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.tracing.case import MODERATE, Case, Found
from tfgpu_doctor.tracing.gpu_streams import COPY, events_of
from tfgpu_doctor.tracing.host_side import CpuOperation, cpu_operations, driver_memory, driver_waits, named_by_kernels
from tfgpu_doctor.tracing.intervals import Interval, clip, length, overlap, union, without
from tfgpu_doctor.tracing.memory import memory_of
from tfgpu_doctor.tracing.python_samples import python_of_program
from tfgpu_doctor.tracing.recorded import Event

_EACH = 0.8  # of the steps
_NAMED = 4  # GPUs
_FULL, _IN_PIECES = 0.9, 0.3  # of an allocator's limit; of its free memory


def beside_gpu(case: Case) -> list[Found]:
    """Return what the host's threads show, in a program whose GPU computes."""
    operations = cpu_operations(case.profile, case.times.window)
    found = [_reading_each_step(case), _memory(case, operations), _on_cpu(case, operations)]
    return [each for each in found if each]


def all_on_cpu(case: Case) -> Found | None:
    """The machine has a GPU, and the model's computation runs on the processor."""
    if not case.profile.gpus or case.times.gpu:
        return None
    gpus = list(case.profile.gpus)
    more = f" and {len(gpus) - _NAMED} more" if len(gpus) > _NAMED else ""
    return Found("cpu_fallback", "medium", case.share("compute"), [
        f"{', '.join(gpus[:_NAMED])}{more}: no kernel ran there",
        f"the model's operations take {case.ms('compute'):.1f} of {case.steps.mean_ms:.1f} ms on the processor",
    ])  # fmt: skip


def _reading_each_step(case: Case) -> Found | None:
    """The host waits for the GPU in each step, and what it does then before the next step is what the GPU waits for."""
    overhead = case.share("launch", "host")
    if case.steps.thread is None or overhead < MODERATE:
        return None
    syncs, copies = driver_waits(case.profile), _read_back(case)
    named = max((syncs, copies), key=lambda each: _steps_with(case, each))
    count, steps = _steps_with(case, named), len(case.steps.intervals)
    if count < _EACH * steps:
        return None
    share = min(overhead, length(_waiting(case, syncs)) / max(length([case.times.window]), 1e-9))
    if share < MODERATE:
        return None
    name = Counter(each.name for each in named).most_common(1)[0][0]
    return Found("sync_each_step", "medium", share, [
        f"in {count} of {amount(steps, 'step')} the host waits for the GPU ({name})",
        f"only then it starts the next step: {overhead * case.steps.mean_ms:.1f} of {case.steps.mean_ms:.1f} ms, "
        "in which the GPU does nothing",
    ])  # fmt: skip


def _read_back(case: Case) -> list[Event]:
    """Copies from the GPU to the host."""
    return [
        event for _, event in events_of(case.profile, case.times.gpu, COPY) if event.name.startswith("MemcpyD2H")
    ]  # fmt: skip


def _steps_with(case: Case, events: list[Event]) -> int:
    begins = [low for low, _ in case.steps.intervals]
    low, high = case.steps.window
    return len({bisect.bisect_right(begins, each.end) for each in events if low <= each.end < high})


def _waiting(case: Case, syncs: list[Event]) -> list[Interval]:
    """The time in which the GPU computes and the program's thread starts nothing, and no Python of the user runs."""
    thread = case.steps.thread
    assert thread is not None
    starting = union(each.interval for each in (*case.steps.calls, *thread.events.get("eager", ())))
    outside = without(without([case.times.window], starting), python_of_program(case.profile.samples))
    return overlap(union([*outside, *(each.interval for each in syncs)]), case.times.parts["compute"])


def _unused(case: Case, intervals: list[Interval]) -> float:
    """How much of some time the GPU does nothing in, as a share of the steps' time."""
    parts = case.times.parts
    busy = union(each for part in ("compute", "collectives", "copies") for each in parts[part])
    left = without(clip(union(intervals), *case.times.window), busy)
    return length(left) / max(length([case.times.window]), 1e-9)


def _on_cpu(case: Case, operations: list[CpuOperation]) -> Found | None:
    """Operations of the model on the CPU, while the GPU does nothing."""
    here = [each for each in operations if not each.for_memory]
    if _unused(case, [each.interval for each in here]) < MODERATE:
        return None
    of_gpu = named_by_kernels(case.profile, case.times.window)
    here = [each for each in here if each.name not in of_gpu]
    share = _unused(case, [each.interval for each in here])
    if share < MODERATE:
        return None
    times: dict[str, float] = defaultdict(float)
    for each in here:
        times[each.kind] += length([each.interval])
    first = sorted(times, key=lambda each: -times[each])[:3]
    steps = case.steps.count
    told = ", ".join(f"{each} ({times[each] / steps:.1f} ms a step)" for each in first)
    return Found("cpu_fallback", "medium", share, [
        f"operations on the CPU: {told}",
        f"the GPU does nothing for {share * case.steps.mean_ms:.1f} of {case.steps.mean_ms:.1f} ms meanwhile",
    ], words={"what": ", ".join(first)})  # fmt: skip


def _memory(case: Case, operations: list[CpuOperation]) -> Found | None:
    """The GPU's memory is nearly full, and the steps wait for some."""
    low, high = case.times.window
    calls = [each for each in driver_memory(case.profile) if low <= each.begin < high]
    waits = [each.interval for each in calls] + [each.interval for each in operations if each.for_memory]
    share = _unused(case, waits)
    if share < MODERATE:
        return None
    full = [
        row
        for row in memory_of(case.profile)
        if row.allocator.startswith("GPU") and row.limit_bytes and row.peak_bytes > _FULL * row.limit_bytes
    ]
    if not full:
        return None
    row = full[0]
    pieces = row.fragmentation or 0.0
    evidence = [
        f"{row.allocator} was {row.peak_bytes / row.limit_bytes:.0%} full"
        + (f", and {pieces:.0%} of what is free lies in pieces" if pieces > _IN_PIECES else ""),
        f"the GPU does nothing for {share * case.steps.mean_ms:.1f} of {case.steps.mean_ms:.1f} ms, while operations wait "
        "for memory",
    ]
    if calls:
        name = max(calls, key=lambda each: each.duration).name
        evidence.append(f"the driver is asked {len(calls) / case.steps.count:.1f} times a step ({name})")
    return Found("memory", "low", share, evidence)
