"""What the GPUs did in a profile: kernels, copies, and how much of the computation was in 16 bit."""

from __future__ import annotations

import itertools
import re
import statistics
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from tfgpu_doctor.tracing.gpu_streams import KERNEL, GpuTimes, busiest_gpu, computing_gpus, events_of, times_of_gpu
from tfgpu_doctor.tracing.intervals import Interval, clip, length
from tfgpu_doctor.tracing.kernel_names import SIXTEEN, precision
from tfgpu_doctor.tracing.recorded import Event, Profile, Stream
from tfgpu_doctor.tracing.steps import Steps

_SHAPES = re.compile(r"(half|bfloat16|float|double)\[")
_SIXTEEN = ("half", "bfloat16")
_SHAPED = 0.5  # of the kernels' time, from which on the shapes decide
_LOOKS = 500
_TENSOR_CORES = 7.0  # compute capability
_LEAST_WITH_TENSOR_CORES = 30  # multiprocessors at 7.5
_KNOWN = 0.2  # of the kernels' time: with less known, nothing is said


class GpuWork(msgspec.Struct, frozen=True, kw_only=True):
    """The busiest GPU, within the steps. Times in ms for a step, shares of 1.

    `in_16_bit` is the share of the kernels' time whose operation has a tensor in half or bfloat16, as XProf counts it.
    Kernels of XLA have no tensors: then it is the share of those whose name says 16 bit, of those whose name says a
    precision; null if too few do.
    """

    device: str
    gpus: int
    compute_ms: float
    collectives_ms: float
    copies_ms: float
    kernels: float
    median_kernel_us: float
    in_16_bit: float | None
    compute_capability: str


def gpu_work(profile: Profile, steps: Steps, known: dict[str, GpuTimes]) -> GpuWork | None:
    """Measure the busiest GPU; None if no GPU computed. `known`: what is known of some of them."""
    gpu = busiest_gpu(profile)
    if not gpu:
        return None
    window, count, times = steps.window, max(1, steps.count), known.get(gpu) or times_of_gpu(profile, gpu)
    durations = array("d", (event.duration for _, event in kernels_within(profile, gpu, window)))
    return GpuWork(
        device=gpu,
        gpus=len(computing_gpus(profile)),
        compute_ms=round(length(clip(times.compute, *window)) / count, 3),
        collectives_ms=round(length(clip(times.collectives, *window)) / count, 3),
        copies_ms=round(length(clip(times.copies, *window)) / count, 3),
        kernels=round(len(durations) / count, 1),
        median_kernel_us=round(1000 * statistics.median(durations or (0.0,)), 2),
        in_16_bit=_in_16_bit(lambda: kernels_within(profile, gpu, window), durations),
        compute_capability=capability(profile, gpu),
    )


def kernels_within(profile: Profile, gpu: str, window: Interval) -> Iterator[tuple[Stream, Event]]:
    """The kernels of a GPU that begin within some time."""
    low, high = window
    return ((stream, event) for stream, event in events_of(profile, gpu, KERNEL) if low <= event.begin < high)


def count_kernels(profile: Profile, gpu: str, window: Interval) -> int:
    """How many kernels of a GPU begin within some time; none of no GPU."""
    return sum(1 for _ in kernels_within(profile, gpu, window)) if gpu else 0


def median_ms(events: list[Event]) -> float:
    """The median duration."""
    return statistics.median([each.duration for each in events] or [0.0])


def _in_16_bit(kernels: Callable[[], Iterable[tuple[Stream, Event]]], durations: Sequence[float]) -> float | None:
    shaped = shaped_16 = named = named_16 = 0.0
    every = max(1, len(durations) // _LOOKS)  # reading the statistics of all takes long, and XLA's have none
    looks = itertools.islice(kernels(), 0, None, every)
    any_shapes = any(_SHAPES.search(str(stream.stats(event))) for stream, event in looks)
    for stream, event in kernels():
        shapes = _SHAPES.findall(str(stream.stats(event))) if any_shapes else []
        shaped += event.duration if shapes else 0.0
        shaped_16 += event.duration if any(each in _SIXTEEN for each in shapes) else 0.0
        told = precision(event.name)
        named += event.duration if told else 0.0
        named_16 += event.duration if told == SIXTEEN else 0.0
    whole = sum(durations)
    if shaped > _SHAPED * whole:
        return round(shaped_16 / whole, 4)
    return round(named_16 / named, 4) if named > _KNOWN * whole else None


def has_tensor_cores(profile: Profile, gpu: str) -> bool:
    """Whether the profile says so: from compute capability 7.0 on, but for the small chips of 7.5 (GTX 16, T600, MX450).

    Those have at most 24 multiprocessors, the others 30 or more: checks/data/gpus.json, with its sources.
    """
    able = capability(profile, gpu)
    if not re.fullmatch(r"\d{1,3}\.\d{1,3}", able, re.ASCII) or float(able) < _TENSOR_CORES:
        return False
    count = profile.devices.get(gpu, {}).get("core_count")
    return able != "7.5" or not isinstance(count, int) or count >= _LEAST_WITH_TENSOR_CORES


def capability(profile: Profile, gpu: str) -> str:
    """The compute capability of a GPU: 8.0; empty if the profile does not say."""
    stats = profile.devices.get(gpu, {})
    major, minor = stats.get("compute_cap_major"), stats.get("compute_cap_minor")
    return f"{major}.{minor}" if major is not None and minor is not None else ""
