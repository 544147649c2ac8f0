"""The first fill of a shuffle's buffer: each iterator does it once, and behind an endless repetition never again."""

from __future__ import annotations

from dataclasses import replace

from tfgpu_doctor.tracing.pipeline import SEVERAL, Pipeline, Stage
from tfgpu_doctor.tracing.steps import Steps

REFILLS = 1.8  # elements that a shuffle takes in for each that it gives
_ENDLESS = "ForeverRepeat"
_MOST = 0.4  # of the source's elements: with so many more than are given, the fill has 44 % of them


def after_first_fill(steps: Steps, pipeline: Pipeline | None) -> tuple[Steps, str]:
    """Return the steps that begin after the buffer was full for the first time, and what was left out; else all of them."""
    full = max(map(_first_full, pipeline.stages.values()), default=0.0) if pipeline else 0.0
    kept = [each for each in steps.intervals if each[0] >= full]
    if len(kept) == len(steps.intervals):
        return steps, ""
    count = len(steps.intervals) - len(kept)
    first = "the first step waits" if count == 1 else f"the first {count} steps wait"
    told = f"{first} until a shuffle has filled its buffer, which an iterator does once"
    return replace(steps, intervals=kept, unfinished=[each for each in steps.unfinished if each in kept]), told


def _first_full(stage: Stage) -> float:
    """When the first call of a shuffle had filled its buffer; 0 if it did not, or may do it again."""
    if (
        not stage.kind.startswith("Shuffle")
        or not stage.children
        or stage.long_calls > 1
        or not _repeats_endlessly(stage)
    ):
        return 0.0
    # A fill that began before the recording has no event of its own; the elements that it takes have theirs.
    source = stage.children[0]
    takes_most = source.calls >= REFILLS * stage.calls and source.early_calls >= _MOST * source.calls
    lasts = stage.long_calls and source.early_calls >= SEVERAL
    return stage.first_end if takes_most or lasts else 0.0


def _repeats_endlessly(stage: Stage) -> bool:
    return any(each.kind == _ENDLESS or _repeats_endlessly(each) for each in stage.children)
