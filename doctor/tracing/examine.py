"""A recording examined: the steps, where their time goes, and the verdict."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace

from tfgpu_doctor.tracing.beginnings import before_steps, builds_graphs, in_one_call
from tfgpu_doctor.tracing.breakdown import break_down
from tfgpu_doctor.tracing.case import FEW_STEPS, HIGH, Case, Found, too_few
from tfgpu_doctor.tracing.causes import bottlenecks
from tfgpu_doctor.tracing.device_events import no_device_events
from tfgpu_doctor.tracing.first_fill import after_first_fill
from tfgpu_doctor.tracing.gpu_streams import computing_gpus
from tfgpu_doctor.tracing.gpu_work import count_kernels
from tfgpu_doctor.tracing.graph_work import most_traced
from tfgpu_doctor.tracing.intervals import Interval, clip, dilated, length, union
from tfgpu_doctor.tracing.pipeline import find_pipeline
from tfgpu_doctor.tracing.recorded import Profile
from tfgpu_doctor.tracing.step_search import find_steps
from tfgpu_doctor.tracing.steps import Steps, with_unfinished
from tfgpu_doctor.tracing.validation_steps import only_evaluates

_HOLE_MS = 100.0
_TELL_ONE = 5  # so many steps tell one that is longer from the others
_COMPILES, _MOSTLY = 0.05, 0.5  # of the steps' time
# A slow first step: as long as so many others, of the time of all, and its own share until its operations have started.
_AS_LONG, _SHARE, _STARTS = 20, 0.2, 0.8


@dataclass
class Verdict:
    """The one word, the causes behind it, and what they were told from."""

    word: str
    why: str
    case: Case | None = None
    found: list[Found] = field(default_factory=list)


def examine(profile: Profile) -> Verdict:
    """Judge a profile."""
    steps = find_steps(profile)
    if not steps.intervals:
        if begins := before_steps(profile):
            return Verdict("warm_up", begins)
        return Verdict("too_short", in_one_call(profile.samples) or _nothing(profile))
    case = _case(profile, _with_unfinished_steps(profile, steps))
    if steps.count < FEW_STEPS:
        return Verdict("too_short", too_few(steps.count), case)
    if (
        steps.found_by == "operations"
        and case.times.gpu
        and count_kernels(profile, case.times.gpu, case.times.window) < case.steps.count
    ):
        return Verdict("too_short", "Python starts operations, hardly one of them on the GPU: no step yet", case)
    if only_evaluates(profile, steps) == "fit":
        return Verdict("too_short", "it holds a validation alone, by fit, and no step of the training", case)
    kept, filled = after_first_fill(case.steps, case.pipeline)
    if len(kept.intervals) < FEW_STEPS:
        return Verdict("warm_up", f"{filled}: this is the start of the training", case)
    recorded = case = _case(profile, kept) if filled else case
    case, left_out = _without_compiling(profile, recorded)
    left_out = "; ".join(each for each in (filled, left_out) if each)
    if len(case.steps.intervals) < FEW_STEPS:
        return _hardly_trains(recorded, left_out, case)
    if one := _one_is_most(case.steps):
        return Verdict("too_short", one, case)
    if refused := no_device_events(profile):
        return Verdict("no_device_events", refused, case)
    found = bottlenecks(case)
    first = next((each for each in found if each.share >= each.high), None)
    if first and first.share >= _unknown_input(case, found):
        return Verdict(first.label, left_out, case, sorted(found, key=lambda each: each is not first))
    if case.share("idle", "input") - _at_iterators(case) >= HIGH:
        return Verdict("unexplained", _waits(case), case, found)
    if begins := builds_graphs(profile.samples) or _compiles_mostly(case):
        return Verdict("warm_up", begins, case)
    return Verdict("compute_bound", left_out, case, found)


def _one_is_most(steps: Steps) -> str:
    """That one of a few steps takes most of the time; empty if none does. The end of an epoch may lie in it, or a stall."""
    times = [high - low for low, high in steps.intervals]
    longest = max(times)
    if steps.count >= _TELL_ONE or longest < max(_AS_LONG * steps.median_ms * steps.per_call, _MOSTLY * sum(times)):
        return ""
    return (
        f"one of its {steps.count} steps takes {longest:.1f} ms, the others {steps.median_ms:.1f}: whether that comes again and "
        "again, more steps would tell"
    )


def _unknown_input(case: Case, found: list[Found]) -> float:
    """The share of waiting for input of which no reason was found."""
    known = any(each.label.startswith("input_") for each in found)
    return 0.0 if known else case.share("input") - _at_iterators(case)


def _at_iterators(case: Case) -> float:
    """The share in which iterators are made or removed."""
    return case.times.share_of(case.times.ended + case.times.made)


def _waits(case: Case) -> str:
    lost_ms, each_ms = case.ms("idle") + case.ms("input"), case.steps.mean_ms
    if case.share("input") > case.share("idle"):
        return (
            f"the steps wait {case.ms('input'):.1f} of {each_ms:.1f} ms for the next batch, and the profile does not hold what "
            "the pipeline did meanwhile"
        )
    return f"in {lost_ms:.1f} of {each_ms:.1f} ms of each step the program waits, and no event says for what"


def _with_unfinished_steps(profile: Profile, steps: Steps) -> Steps:
    """Add the long time before and after the steps in which the pipeline worked: the program waited for it."""
    longer = with_unfinished(profile, steps)
    if longer is steps or longer.found_by == "gpu":
        return steps
    pipeline = find_pipeline(profile, longer.window, longer.unfinished)
    if pipeline is None:
        return steps
    works = union(
        interval for stage in pipeline.stages.values() if stage is not pipeline.root for interval in stage.busy
    )
    gaps = [found for gap in longer.unfinished if (found := _worked(gap, works))]
    return replace(steps, intervals=sorted([*steps.intervals, *gaps]), unfinished=gaps)


def _case(profile: Profile, steps: Steps) -> Case:
    pipeline = find_pipeline(profile, steps.window, steps.unfinished)
    return Case(profile, steps, pipeline, break_down(profile, steps, pipeline))


def _worked(gap: Interval, works: list[Interval]) -> Interval | None:
    """The part of a gap in which the pipeline mostly worked; the profiler drops the first of many events."""
    inside = [each for each in dilated(clip(works, *gap), _HOLE_MS) if each[1] - each[0] > 0.1 * (gap[1] - gap[0])]
    if not inside:
        return None
    part = (inside[0][0], gap[1]) if gap[1] - inside[-1][1] < _HOLE_MS else (inside[0][0], inside[-1][1])
    return part if length(clip(works, *part)) > 0.5 * (part[1] - part[0]) else None


def _without_compiling(profile: Profile, case: Case) -> tuple[Case, str]:
    """Leave out the steps in which functions are traced or compiled, if that is not done again and again, and say so.

    A training does it in its first steps, and at the end of its first epoch (a smaller batch, a validation). Of the other steps
    the longest stretch is judged: those between the first compilations are few, and may not yet be as the later ones.
    """
    steps, compiled = case.steps, case.times.parts["compile"]
    if case.share("compile") < _COMPILES:
        return _after_slow_first(profile, case)
    _, traced = most_traced(steps)
    _, repeated = case.compiled_often()
    if traced > 2 or repeated or (not traced and len(compiled) > 2 * FEW_STEPS):
        return case, ""
    grouped = itertools.groupby(steps.intervals, key=lambda step: bool(clip(compiled, *step)))
    stretches = [list(stretch) for compiles, stretch in grouped if not compiles]
    longest = max(reversed(stretches), key=len, default=[])  # of two that are as long the later one
    kept = replace(steps, intervals=longest, unfinished=[each for each in steps.unfinished if each in longest])
    count = len(steps.intervals) - sum(map(len, stretches))
    told = f"{count} of {len(steps.intervals)} steps build graphs or compile"
    if len(longest) < FEW_STEPS:
        return Case(profile, kept, case.pipeline, case.times), told
    if longest != steps.intervals[count:]:
        told += f"; only the longest stretch of others, {len(longest)} steps, is judged"
    elif count == 1:
        told = "the first step builds graphs or compiles, and is left out"
    else:
        told = f"the first {count} steps build graphs or compile, and are left out"
    return _case(profile, kept), told


def _hardly_trains(recorded: Case, told: str, kept: Case) -> Verdict:
    """The verdict where steps compile and too few others follow each other: the start of the training, if the first compiles."""
    steps = recorded.steps
    first = next((each for each in steps.intervals if each not in steps.unfinished), steps.window)
    if clip(recorded.times.parts["compile"], *first):
        return Verdict("warm_up", f"{told}: this is the start of the training", kept)
    return Verdict("too_short", f"{told}, and fewer than {FEW_STEPS} in a row are without; ten are better", kept)


def _after_slow_first(profile: Profile, case: Case) -> tuple[Case, str]:
    """Leave out a first step that mostly starts operations, for as long as many steps take: a GPU loads their kernels then."""
    steps = case.steps
    first, later = steps.intervals[0], steps.intervals[1:]
    first_ms, starts_ms = first[1] - first[0], length(clip(case.times.parts["launch"], *first))
    slow = first_ms > max(_AS_LONG * steps.median_ms * steps.per_call, _SHARE * length([steps.window]))
    if not slow or starts_ms < _STARTS * first_ms or len(later) < FEW_STEPS:
        return case, ""
    kept = replace(steps, intervals=later, unfinished=[each for each in steps.unfinished if each in later])
    why = f"the first step takes {first_ms:.0f} ms, most of it until its operations have started, and is left out"
    return _case(profile, kept), why


def _compiles_mostly(case: Case) -> str:
    if case.share("compile") < _MOSTLY:
        return ""
    return (
        f"building graphs and compiling take {case.ms('compile'):.1f} of {case.steps.mean_ms:.1f} ms of each step, and nothing "
        "is seen to be compiled twice. If a later recording says so again, the program calls new functions all the time: make "
        "each tf.function once, outside of the loop"
    )


def _nothing(profile: Profile) -> str:
    if not profile.events:
        return "the profile is empty: nothing of TensorFlow ran while it was recorded"
    if computing_gpus(profile):
        return "the profile has kernels, but nothing that tells one step from the next"
    if any(len(thread.events.get("eager", ())) > FEW_STEPS for thread in profile.threads):
        return "Python starts operations, but they do not repeat: no step of a training is seen"
    return "the profile shows no step of a training: no call of a function or of an operation from Python"
