"""The streams of the GPUs in a profile: kernels, reductions between GPUs, copies, and what is no work at all.

The names: https://github.com/openxla/xla/blob/main/xla/backends/profiler/gpu/cupti_buffer_events.cc
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from tfgpu_doctor.tracing.intervals import Interval, clip, length, union
from tfgpu_doctor.tracing.recorded import Event, Profile, Stream

KERNEL, MOVES, COLLECTIVE, COPY, NO_WORK = "kernel", "moves", "collective", "copy", "no work"
_COPIES = ("MemcpyH2D", "MemcpyD2H")
_MOVES = ("Memcpy", "Memset")  # within the GPU
_COLLECTIVES = re.compile(r"(void )?(nccl|nvshmem)|MemcpyP2P|.*AllReduceKernel")
_PART = 0.02  # of the busiest GPU's computation: with less a GPU takes no part in the training
# How long memory is held ("Memory device"), what the profiler itself and the paging of unified memory take, waiting.
_NO_WORK = re.compile(
    r"Memory(Alloc|Free|Residency| )|Host(Unr|R)egister|Overhead|UM_|unknown synchronization|cu(Stream|Event|Ctx)\w*$"
)


@dataclass(slots=True)
class GpuTimes:
    """What a GPU does, as unions in ms."""

    compute: list[Interval] = field(default_factory=list)
    collectives: list[Interval] = field(default_factory=list)
    copies: list[Interval] = field(default_factory=list)


def streams(profile: Profile) -> list[tuple[str, Stream]]:
    """The streams of all GPUs that do any work, without the lines that TensorFlow derives from them (Steps, XLA Ops)."""
    return [
        (gpu, stream)
        for gpu, lines in profile.gpus.items()
        for stream in lines
        if stream.name.startswith("Stream") and any(kind_of(each.name) != NO_WORK for each in stream.events)
    ]


@lru_cache(maxsize=4096)
def kind_of(name: str) -> str:
    """What an event of a stream is: a kernel, data moved within the GPU, a reduction, a copy from or to the host."""
    if name.startswith(_COPIES):
        return COPY
    if _COLLECTIVES.match(name):
        return COLLECTIVE
    if name.startswith(_MOVES):
        return MOVES
    return NO_WORK if _NO_WORK.match(name) else KERNEL


def events_of(profile: Profile, gpu: str, kind: str) -> Iterator[tuple[Stream, Event]]:
    """The events of one kind on a GPU."""
    for name, stream in streams(profile):
        if name == gpu:
            yield from ((stream, event) for event in stream.events if kind_of(event.name) == kind)


def computing_gpus(profile: Profile) -> list[str]:
    """The GPUs that run a kernel; NCCL's do not count."""
    return [gpu for gpu in profile.gpus if any(True for _ in events_of(profile, gpu, KERNEL))]


def busiest_gpu(profile: Profile) -> str:
    """The GPU with the most kernels' time; empty if none computes."""
    found = computing_gpus(profile)
    if len(found) < 2:
        return "".join(found)
    return max(found, key=lambda gpu: sum(event.duration for _, event in events_of(profile, gpu, KERNEL)))


def times_of_gpu(profile: Profile, gpu: str) -> GpuTimes:
    """What a GPU does in the whole recording. Data moved within it is computation."""
    found: dict[str, list[Interval]] = {kind: [] for kind in (KERNEL, MOVES, COLLECTIVE, COPY, NO_WORK)}
    for name, stream in streams(profile):
        if name == gpu:
            for event in stream.events:
                found[kind_of(event.name)].append(event.interval)
    return GpuTimes(union(found[KERNEL] + found[MOVES]), union(found[COLLECTIVE]), union(found[COPY]))


def times_of_gpus(profile: Profile, window: Interval) -> dict[str, GpuTimes]:
    """The GPUs that take part in the steps, and what each does."""
    found = {gpu: times_of_gpu(profile, gpu) for gpu in computing_gpus(profile)}
    compute = {gpu: length(clip(times.compute, *window)) for gpu, times in found.items()}
    least = _PART * max(compute.values(), default=0.0)
    return {gpu: times for gpu, times in found.items() if compute[gpu] >= least}


def last_gpu(gpus: dict[str, GpuTimes], window: Interval) -> str:
    """The GPU that the others wait for: it spends least in reductions; of equal ones, that which computes most."""

    def waits(gpu: str) -> tuple[float, float]:
        times = gpus[gpu]
        return (round(length(clip(times.collectives, *window)), 3), -length(clip(times.compute, *window)))

    return min(gpus, key=waits, default="")
