"""What the page draws: some steps as lanes of coloured time, in a size that does not grow with the profile."""

from __future__ import annotations

import msgspec

from tfgpu_doctor.tracing.breakdown import PARTS
from tfgpu_doctor.tracing.examine import Verdict
from tfgpu_doctor.tracing.gpu_streams import streams
from tfgpu_doctor.tracing.intervals import Interval, clip, length, union
from tfgpu_doctor.tracing.recorded import Profile

_SLOTS = 400  # pieces of time in a lane
_STEPS = 12


class Lane(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the timeline: [begin, width, how full] of each piece, in per cent of the drawn time and of 1."""

    name: str
    part: str
    pieces: tuple[tuple[float, float, float], ...]


class Drawing(msgspec.Struct, frozen=True, kw_only=True):
    """The timeline of some steps: from and to in ms, where steps begin (per cent), and the lanes."""

    begin_ms: float = 0.0
    end_ms: float = 0.0
    steps: tuple[float, ...] = ()
    lanes: tuple[Lane, ...] = ()


def draw(profile: Profile, verdict: Verdict) -> Drawing:
    """Draw a dozen steps around the middle of the recording."""
    case = verdict.case
    if case is None or not case.steps.intervals:
        return Drawing()
    steps = case.steps.intervals
    first = max(0, len(steps) // 2 - _STEPS // 2)
    shown = steps[first : first + _STEPS]
    low, high = shown[0][0], shown[-1][1]
    lanes = [Lane(name=part, part=part, pieces=_pieces(case.times.parts[part], low, high)) for part in PARTS]
    if case.pipeline:
        lanes += [
            Lane(name=stage.path.removeprefix("Iterator::"), part="stage", pieces=_pieces(stage.busy, low, high))
            for stage in sorted(case.pipeline.stages.values(), key=lambda each: each.path)[:12]
        ]
    for gpu, stream in streams(profile)[:12]:
        busy = union(event.interval for event in stream.events if event.begin < high and event.end > low)
        lanes.append(Lane(name=f"{gpu} {stream.name}", part="stream", pieces=_pieces(busy, low, high)))
    width = max(high - low, 1e-9)
    return Drawing(
        begin_ms=round(low, 3), end_ms=round(high, 3),
        steps=tuple(round(100 * (begin - low) / width, 2) for begin, _ in shown),
        lanes=tuple(lane for lane in lanes if lane.pieces),
    )  # fmt: skip


def _pieces(times: list[Interval], low: float, high: float) -> tuple[tuple[float, float, float], ...]:
    """Intervals as they are where they are few, else how full each slot is."""
    inside = clip(times, low, high)
    width = max(high - low, 1e-9)
    if len(inside) <= _SLOTS:
        return tuple(
            (round(100 * (a - low) / width, 3), round(max(0.05, 100 * (b - a) / width), 3), 1.0) for a, b in inside
        )
    slot = width / _SLOTS
    found = []
    for place in range(_SLOTS):
        full = length(clip(inside, low + place * slot, low + (place + 1) * slot)) / slot
        if full > 0.01:
            found.append((round(100 * place / _SLOTS, 3), round(100 / _SLOTS, 3), round(full, 2)))
    return tuple(found)
