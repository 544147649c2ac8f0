"""What the GPUs did in a profile: kernels, copies, and how much of the computation was in 16 bit."""

from __future__ import annotations

import re
import statistics

import msgspec

from tfgpu_doctor.tracing.gpu_streams import busiest_gpu, is_collective, is_copy, streams
from tfgpu_doctor.tracing.intervals import clip, length, union
from tfgpu_doctor.tracing.recorded import Profile
from tfgpu_doctor.tracing.steps import Steps

_SHAPES = re.compile(r"(half|bfloat16|float|double)\[")
_SIXTEEN = ("half", "bfloat16")


class GpuWork(msgspec.Struct, frozen=True, kw_only=True):
    """The busiest GPU, within the steps. Times in ms for a step, shares of 1."""

    device: str
    gpus: int
    compute_ms: float
    collectives_ms: float
    copies_ms: float
    kernels: float
    median_kernel_us: float
    in_16_bit: float  # of the kernels' time: those whose operation has a tensor in half or bfloat16
    compute_capability: str


def gpu_work(profile: Profile, steps: Steps) -> GpuWork | None:
    """Measure the busiest GPU; None if no GPU computed."""
    gpu = busiest_gpu(profile)
    if not gpu:
        return None
    low, high = steps.window
    count = max(1, steps.count)
    kernels, collectives, copies = [], [], []
    sixteen = 0.0
    for name, stream in streams(profile):
        if name != gpu:
            continue
        for event in stream.events:
            if is_copy(event.name):
                copies.append(event.interval)
            elif is_collective(event.name):
                collectives.append(event.interval)
            elif low <= event.begin < high:
                kernels.append(event)
                shapes = _SHAPES.findall(str(stream.stats(event)))
                sixteen += event.duration if any(each in _SIXTEEN for each in shapes) else 0.0
    busy = clip(union(each.interval for each in kernels), low, high)
    stats = profile.devices.get(gpu, {})
    return GpuWork(
        device=gpu,
        gpus=len({name for name, stream in streams(profile) if any(not is_copy(each.name) for each in stream.events)}),
        compute_ms=round(length(busy) / count, 3),
        collectives_ms=round(length(clip(union(collectives), low, high)) / count, 3),
        copies_ms=round(length(clip(union(copies), low, high)) / count, 3),
        kernels=round(len(kernels) / count, 1),
        median_kernel_us=round(1000 * statistics.median([each.duration for each in kernels] or [0.0]), 2),
        in_16_bit=round(sixteen / max(1e-9, sum(each.duration for each in kernels)), 4),
        compute_capability=_capability(stats),
    )


def _capability(stats: dict[str, int | float | str]) -> str:
    major, minor = stats.get("compute_cap_major"), stats.get("compute_cap_minor")
    return f"{major}.{minor}" if major is not None and minor is not None else ""
