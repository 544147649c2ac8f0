"""What the host does for a GPU: the driver's calls, and operations that run on the CPU between those of the GPU."""

from __future__ import annotations

import bisect
import re
from collections import defaultdict
from dataclasses import dataclass

from tfgpu_doctor.tracing.gpu_streams import streams
from tfgpu_doctor.tracing.intervals import Interval
from tfgpu_doctor.tracing.recorded import Event, Profile, Thread

_DRIVER = re.compile(r"cu[A-Z]\w*( \(CudaGraph:\d+\))?$|Mem(cpy|set|oryAlloc$|oryFree$)")
_WAITS = re.compile(r"cu(Stream|Ctx|Event)Synchronize|.*BlockHostUntilDone")
_MEMORY = re.compile(r"cuMem(Alloc|Free)|Memory(Alloc|Free)$")
# Operations that only call, wait for or hand on what others do.
_NO_OWN_WORK = re.compile(
    r"(Stateless|Stateful)?(PartitionedCall|While|If|Case)|RemoteCall|.*Iterator|_?Xla|Collective|Nccl|_(Send|Recv)"
)
_LEAST_MS = 0.05  # of an operation: less is bookkeeping, as for Shape and Reshape
_LOOKS = 20_000  # at what kernels say
_LATE = 0.5  # of an operation: what it takes from the allocator only then, it waited for


@dataclass(frozen=True, slots=True)
class CpuOperation:
    """An operation of the model's graph that started nothing on a GPU; `for_memory`: it waited for an allocator."""

    name: str
    kind: str
    interval: Interval
    for_memory: bool


def _of_driver(thread: Thread, kernels: set[str]) -> list[float]:
    """When the calls of CUDA's driver begin on a thread; that which starts a kernel has the kernel's name."""
    return [
        event.begin
        for kind, events in thread.events.items()
        if kind != "operation"
        for event in events
        if event.name in kernels or _DRIVER.match(event.name)
    ]


def named_by_kernels(profile: Profile, window: Interval) -> set[str]:
    """The operations that kernels and copies say they belong to; not each call that starts one is recorded."""
    low, high = window
    events = [(stream, event) for _, stream in streams(profile) for event in stream.events if low <= event.begin < high]
    found = set()
    for stream, event in events[:: max(1, len(events) // _LOOKS)]:
        stats = stream.stats(event)
        found |= {str(stats.get(name, "")).partition("#")[0] for name in ("tf_op", "level 0", "annotation")}
    return found


def driver_waits(profile: Profile) -> list[Event]:
    """The calls in which the host waits for a GPU."""
    return _matching(profile, _WAITS)


def driver_memory(profile: Profile) -> list[Event]:
    """The calls that take memory from the driver, or give it back; a release waits for the GPU."""
    return _matching(profile, _MEMORY)


def _matching(profile: Profile, pattern: re.Pattern[str]) -> list[Event]:
    return [
        event
        for thread in profile.threads
        if not thread.of_pipeline
        for event in thread.events.get("other", ())
        if pattern.match(event.name)
    ]


def cpu_operations(profile: Profile, window: Interval) -> list[CpuOperation]:
    """The operations on the CPU; none if the profile does not have the driver's calls, which tell them apart."""
    kernels = {event.name for _, stream in streams(profile) for event in stream.events}
    driver: dict[int, list[float]] = defaultdict(list)
    for thread in profile.threads:
        driver[_number(thread)] += _of_driver(thread, kernels)
    if not any(driver.values()):
        return []
    return [
        found
        for thread in profile.threads
        if not thread.of_pipeline
        for found in _on_cpu(thread, sorted(driver[_number(thread)]), window)
    ]


def _number(thread: Thread) -> int:
    """The thread's own number: the driver's calls have it, too, where they lie in a plane of their own (/host:CUPTI)."""
    return thread.line.number or id(thread)


def _on_cpu(thread: Thread, driver: list[float], window: Interval) -> list[CpuOperation]:
    low, high = window
    allocated = sorted(each.begin for each in thread.events.get("memory", ()) if "Dealloc" not in each.name)
    found = []
    for event in [each for kind in ("operation", "python") for each in thread.events.get(kind, ())]:
        kind = event.name.rpartition(":")[2]
        if event.duration < _LEAST_MS or not low <= event.begin < high or _NO_OWN_WORK.match(kind):
            continue
        if not _any_within(driver, *event.interval):
            late = event.begin + _LATE * event.duration
            found.append(CpuOperation(event.name, kind, event.interval, _any_within(allocated, late, event.end)))
    return found


def _any_within(times: list[float], low: float, high: float) -> bool:
    place = bisect.bisect_left(times, low)
    return place < len(times) and times[place] < high
