"""Two recordings of one program: what became faster or slower."""

from __future__ import annotations

from tfgpu_doctor.tracing.breakdown import PARTS
from tfgpu_doctor.tracing.case import FEW_STEPS
from tfgpu_doctor.tracing.result import Change, Comparison, TraceReport

_SAME = 0.05  # less is not told apart from the variation between two recordings


def compare(now: TraceReport, before: TraceReport) -> Comparison:
    """Compare the mean steps and their parts, the largest change first."""
    changes = [
        Change(
            part=part,
            before_ms=round(getattr(before.shares, part) * before.steps.mean_ms, 3),
            now_ms=round(getattr(now.shares, part) * now.steps.mean_ms, 3),
        )
        for part in PARTS
    ]
    changes = [each for each in changes if each.before_ms or each.now_ms]
    both = min(before.steps.count, now.steps.count) >= FEW_STEPS and before.steps.mean_ms and now.steps.mean_ms
    return Comparison(
        file=before.file, verdict=before.verdict, step_ms=before.steps.mean_ms,
        ratio=round(before.steps.mean_ms / now.steps.mean_ms, 3) if both else None,
        changes=tuple(sorted(changes, key=lambda each: -abs(each.now_ms - each.before_ms))),
    )  # fmt: skip


def in_words(now: TraceReport, other: Comparison) -> str:
    """One sentence for the comparison."""
    if other.ratio is None:
        return f"The two cannot be compared: one of them has fewer than {FEW_STEPS} steps."
    if abs(other.ratio - 1) < _SAME:
        return f"A step takes {now.steps.mean_ms:.1f} ms, as in the other recording ({other.step_ms:.1f} ms)."
    faster = other.ratio > 1
    times = other.ratio if faster else 1 / other.ratio
    return (
        f"A step takes {now.steps.mean_ms:.1f} ms and took {other.step_ms:.1f} ms: {times:.2f} times as "
        f"{'fast' if faster else 'long'}."
    )
