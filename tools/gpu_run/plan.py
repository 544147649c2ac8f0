"""The plan: which parts there are, what each answers, and how many of the given seconds each gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ENDING_S = 20.0  # for the report and the packing


@dataclass(frozen=True)
class Part:
    """One part of the recording. Worth is its place in PARTS, best first."""

    name: str
    question: str
    least_s: float  # with less it answers nothing
    wished_s: float  # with more it answers no more
    loads: bool = True  # whether it loads the GPU


PARTS = (
    Part("diagnose", "is the diagnosis right, without a false alarm, and how long does each probe take?", 60, 150, False),
    Part("breaks", "is each fault that is made on purpose named?", 120, 240),
    Part("figures", "are a bf16 product and copies as fast as with cuBLAS and the CUDA runtime alone?", 40, 90),
    Part("bench", "is every comparison on the GPU measured, or its reason true?", 150, 1500),
    Part("deep", "does the GPU compute right, and near its peak, under load?", 80, 160),
    Part("traces", "does trace name the bottleneck of 13 trainings?", 140, 440),
    Part("devices", "do logical devices, strategies, NCCL, the profiler, XLA and mixed precision work?", 90, 200),
    Part("watch", "does watch name the bottleneck while they run, and what does it cost?", 230, 580),
    Part("advice", "does what trace advises help here, and by how much?", 50, 90),
    Part("accept", "does a profile learnt here accept this machine?", 180, 600),
    Part("calibration", "does each interval hold the ratio that other runs find?", 180, 600),
    Part("soak", "does the GPU stay right and fast for minutes?", 150, 420),
)  # fmt: skip
BY_NAME = {part.name: part for part in PARTS}


def allot(parts: Sequence[Part], seconds: float) -> dict[str, float]:
    """Return the seconds of each part that is reached; their sum is never above `seconds`.

    In the order of worth each part that still fits gets its least time; what is left then fills them up to their wishes.
    """
    left, given = max(0.0, seconds - ENDING_S), {}
    for part in parts:
        if part.least_s <= left:
            given[part.name] = part.least_s
            left -= part.least_s
    for part in parts:
        if part.name in given:
            more = min(left, part.wished_s - part.least_s)
            given[part.name] += more
            left -= more
    return given


def listed(parts: Sequence[Part], seconds: float) -> list[tuple[str, str, str, str, str]]:
    """Return the rows of `--list`: name, least, wished and given seconds, question."""
    given = allot(parts, seconds)
    return [
        (
            part.name,
            f"{part.least_s:.0f}",
            f"{part.wished_s:.0f}",
            f"{given[part.name]:.0f}" if part.name in given else "not reached",
            part.question,
        )
        for part in parts
    ]
