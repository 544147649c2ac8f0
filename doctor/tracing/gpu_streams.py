"""The streams of the GPUs in a profile: kernels, NCCL's kernels among them, and copies."""

from __future__ import annotations

from tfgpu_doctor.tracing.intervals import Interval, union
from tfgpu_doctor.tracing.recorded import Profile, Stream


def streams(profile: Profile) -> list[tuple[str, Stream]]:
    """The streams of all GPUs, without the lines that TensorFlow derives from them (Steps, XLA Ops and others)."""
    return [
        (gpu, stream) for gpu, lines in profile.gpus.items() for stream in lines if stream.name.startswith("Stream")
    ]


def is_copy(name: str) -> bool:
    """Whether an event of a stream moves data."""
    return name.startswith(("Memcpy", "Memset"))


def is_collective(name: str) -> bool:
    """Whether a kernel is NCCL's."""
    return name.startswith("nccl")


def busiest_gpu(profile: Profile) -> str:
    """The GPU with the most kernels' time; empty if none computes."""
    times: dict[str, float] = {}
    for gpu, stream in streams(profile):
        times[gpu] = times.get(gpu, 0.0) + sum(each.duration for each in stream.events if not is_copy(each.name))
    return max(times, key=lambda each: times[each], default="") if any(times.values()) else ""


def work_of_gpus(profile: Profile, one: str) -> tuple[list[Interval], list[Interval], list[Interval]]:
    """Kernels, NCCL's kernels, and copies: of all GPUs, or of one if it is named."""
    compute: list[Interval] = []
    collectives: list[Interval] = []
    copies: list[Interval] = []
    for gpu, stream in streams(profile):
        for event in stream.events if one in ("", gpu) else ():
            kind = copies if is_copy(event.name) else collectives if is_collective(event.name) else compute
            kind.append(event.interval)
    return union(compute), union(collectives), union(copies)
