"""The memory of TensorFlow's allocators in a profile: its course, the peak, the fragmentation, and who holds it."""

from __future__ import annotations

import math
from collections import defaultdict

import msgspec

from tfgpu_doctor.tracing.events import Value
from tfgpu_doctor.tracing.recorded import Profile

_MOST_EVENTS = 60_000  # their statistics are read one by one
_POINTS = 120
_FULL, _IN_PIECES = 0.9, 0.3

Reading = tuple[float, dict[str, Value], bool]


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """An operation and the bytes that it allocated within the profile and still held when most was in use."""

    operation: str
    shape: str
    held_bytes: int


class MemoryRow(msgspec.Struct, frozen=True, kw_only=True):
    """An allocator, such as GPU_0_bfc: bytes in use at most, its limit, and the share of its free memory in pieces.

    `fragmentation` is TensorFlow's: 1 - largest free piece / free memory; None where nothing was free.
    `course` has (ms since the begin, bytes).
    """

    allocator: str
    peak_bytes: int
    limit_bytes: int
    fragmentation: float | None
    holders: tuple[Holder, ...]
    course: tuple[tuple[float, int], ...]

    @property
    def warning(self) -> str:
        """What is wrong with it; empty if nothing is."""
        pieces = self.fragmentation or 0.0
        if self.limit_bytes and self.peak_bytes > _FULL * self.limit_bytes and pieces > _IN_PIECES:
            return (
                f"{self.allocator} was {self.peak_bytes / self.limit_bytes:.0%} full, and {pieces:.0%} of what is "
                "free lies in pieces: a large tensor may find no place (TF_GPU_ALLOCATOR=cuda_malloc_async avoids that)"
            )
        return ""


def memory_of(profile: Profile) -> tuple[MemoryRow, ...]:
    """Return the allocators of the profile, those of GPUs first; empty if it records no memory, or too much of it."""
    if memory_left_out(profile):
        return ()
    events = [(event, thread) for thread in profile.threads for event in thread.events.get("memory", ())]
    readings: dict[str, list[Reading]] = defaultdict(list)
    for event, thread in sorted(events, key=lambda each: each[0].begin):
        stats = thread.stats(event)
        readings[str(stats.get("allocator_name", ""))].append((event.begin, stats, "Deallocation" not in event.name))
    rows = [_row(name, found) for name, found in readings.items() if name]
    return tuple(sorted(rows, key=lambda each: (not each.allocator.startswith("GPU"), each.allocator)))


def memory_left_out(profile: Profile) -> str:
    """Why the profile's memory is not told, though it is recorded; empty if it is told."""
    count = sum(len(thread.events.get("memory", ())) for thread in profile.threads)
    if count <= _MOST_EVENTS:
        return ""
    return (
        f"the memory is left out: {count:,} allocations and releases were recorded, and {_MOST_EVENTS:,} are read at most; "
        "a shorter recording tells it"
    )


def _row(name: str, readings: list[Reading]) -> MemoryRow:
    used = [int(stats.get("bytes_allocated", 0)) for _, stats, _ in readings]
    highest = max(range(len(used)), key=lambda each: used[each])
    at_peak = readings[highest][1]
    pieces = float(at_peak.get("fragmentation", math.nan))
    every = max(1, len(readings) // _POINTS)
    course = [(round(at, 3), used[place]) for place, (at, _, _) in enumerate(readings)]
    return MemoryRow(
        allocator=name,
        peak_bytes=max(*used, int(at_peak.get("peak_bytes_in_use", 0))),
        limit_bytes=used[highest] + int(at_peak.get("bytes_available", 0)),
        fragmentation=None if math.isnan(pieces) else round(pieces, 4),
        holders=_holders(readings[: highest + 1]),
        course=tuple(sorted({*course[::every], course[highest], course[-1]})),
    )


def _holders(readings: list[Reading]) -> tuple[Holder, ...]:
    """Follow allocations and releases by their address, to the peak."""
    held: dict[Value, tuple[str, str, int]] = {}
    for _, stats, allocated in readings:
        address = stats.get("addr", 0)
        if allocated:
            size = int(stats.get("allocation_bytes", 0))
            held[address] = (str(stats.get("tf_op", "")), str(stats.get("shape", stats.get("tensor_shapes", ""))), size)
        else:
            held.pop(address, None)
    sums: dict[tuple[str, str], int] = defaultdict(int)
    for operation, shape, size in held.values():
        sums[operation, shape] += size
    first = sorted(((key, size) for key, size in sums.items() if size), key=lambda each: -each[1])[:5]
    return tuple(
        Holder(operation=operation or "an unnamed operation", shape=shape, held_bytes=size)
        for (operation, shape), size in first
    )
