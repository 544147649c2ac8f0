"""A recording examined: the steps, where their time goes, and the verdict."""

from __future__ import annotations

from dataclasses import replace

from tfgpu_doctor.tracing.breakdown import Breakdown, break_down, busiest_gpu, streams, traced_calls
from tfgpu_doctor.tracing.causes import HIGH, Case, Found, bottlenecks
from tfgpu_doctor.tracing.intervals import Interval, clip, dilated, length, union
from tfgpu_doctor.tracing.pipeline import find_pipeline
from tfgpu_doctor.tracing.recorded import Profile
from tfgpu_doctor.tracing.steps import Steps, find_steps, with_unfinished

_FEW = 3
_HOLE_MS = 100.0
_GPU_THREADS = ("tf_gpu_private", "tf_GPU_Event_Manager", "GPU_")
_OTHER_DEVICES = ("/device:TPU:", "/device:ROCM", "#Chip")


class Verdict:
    """The one word, the causes behind it, and what they were told from."""

    def __init__(self, word: str, why: str, case: Case | None = None, found: list[Found] | None = None) -> None:
        self.word, self.why, self.case, self.found = word, why, case, found or []


def examine(profile: Profile) -> Verdict:
    """Judge a profile."""
    steps = find_steps(profile)
    if not steps.intervals:
        return Verdict("too_short", _nothing(profile))
    case = _case(profile, steps)
    if steps.count < _FEW:
        return Verdict(
            "too_short",
            f"it holds {steps.count} whole step{'s' * (steps.count > 1)}; {_FEW} are needed, ten are better",
            case,
        )
    case, warm = _after_warm_up(profile, case)
    if case.steps.count < _FEW:
        return Verdict("warm_up", warm, case)
    if (refused := _no_device_events(profile)) and not profile.gpus:
        return Verdict("no_device_events", refused, case)
    found = bottlenecks(case)
    if found and found[0].share >= HIGH:
        return Verdict(found[0].label, warm, case, found)
    if case.share("idle", "input") >= HIGH:
        lost_ms = case.ms("idle") + case.ms("input")
        waits = (
            f"{lost_ms:.1f} of {case.steps.mean_ms:.1f} ms of each step the program waits, and no event says for what"
        )
        return Verdict("unexplained", waits, case, found)
    return Verdict("compute_bound", warm, case, found)


def _case(profile: Profile, steps: Steps) -> Case:
    longer = with_unfinished(profile, steps)
    if longer is not steps and longer.found_by != "gpu":
        pipeline = find_pipeline(profile, longer.window, longer.unfinished)
        stages = pipeline.stages.values() if pipeline else ()
        works = union(
            interval for stage in stages if pipeline and stage is not pipeline.root for interval in stage.busy
        )
        if gaps := [found for gap in longer.unfinished if (found := _worked(gap, works))]:
            steps = replace(steps, intervals=sorted([*steps.intervals, *gaps]), unfinished=gaps)
    pipeline = find_pipeline(profile, steps.window, steps.unfinished)
    times: Breakdown = break_down(profile, steps, pipeline)
    return Case(profile, steps, pipeline, times)


def _worked(gap: Interval, works: list[Interval]) -> Interval | None:
    """The part of a gap in which the pipeline worked for most of the time; the profiler drops the first of many events."""
    inside = [each for each in dilated(clip(works, *gap), _HOLE_MS) if each[1] - each[0] > 0.1 * (gap[1] - gap[0])]
    if not inside:
        return None
    part = (inside[0][0], gap[1]) if gap[1] - inside[-1][1] < _HOLE_MS else (inside[0][0], inside[-1][1])
    return part if length(clip(works, *part)) > 0.5 * (part[1] - part[0]) else None


def _after_warm_up(profile: Profile, case: Case) -> tuple[Case, str]:
    """Leave out the first steps if functions are traced or compiled only there."""
    steps = case.steps
    compiled = case.times.parts["compile"]
    if case.times.share("compile") < 0.05 or not steps.intervals:
        return case, ""
    low, high = steps.window
    traced = [each for each in traced_calls(steps) if low <= each.begin < high]
    last = max(end for _, end in compiled)
    later = [each for each in steps.intervals if each[0] >= last]
    repeated = max(profile.programs.values(), default=0) >= max(3, 0.3 * steps.count)
    if len(traced) > 2 or repeated or (len(traced) == 0 and len(compiled) > 2 * _FEW):
        return case, ""
    kept = Steps(steps.thread, steps.found_by, steps.name, later, steps.calls, steps.per_call, steps.keras)
    left_out = len(steps.intervals) - len(later)
    if len(later) < _FEW:
        return Case(profile, kept, case.pipeline, case.times), (
            f"{left_out} of {len(steps.intervals)} steps build graphs or compile: this is the start of the training"
        )
    return _case(profile, kept), f"the first {left_out} steps build graphs or compile, and are left out"


def _no_device_events(profile: Profile) -> str:
    """Say so if the program used a GPU of which the profile has no kernel."""
    used = [thread.name for thread in profile.threads if thread.name.startswith(_GPU_THREADS)]
    if used and not any(stream.events for _, stream in streams(profile)):
        return f"the program used a GPU (thread {used[0].partition('/')[0]}), and the profile has none of its kernels"
    return ""


def _nothing(profile: Profile) -> str:
    if not profile.events:
        return "the profile is empty: nothing of TensorFlow ran while it was recorded"
    if busiest_gpu(profile):
        return "the profile has kernels, but nothing that tells one step from the next"
    return "the profile shows no step of a training: no call of a function or of an operation from Python"
