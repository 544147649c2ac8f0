"""Work of the input pipeline that gives the same in each repetition: what a cache would leave to the first."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator

from tfgpu_doctor.tracing.case import Case
from tfgpu_doctor.tracing.intervals import clip, union
from tfgpu_doctor.tracing.pipeline import Pipeline, Stage
from tfgpu_doctor.tracing.recorded import Profile, Thread
from tfgpu_doctor.tracing.validation_steps import IN_TEST

_REPETITION = re.compile(r"(?:Forever|Finite)Repeat\[(\d+)\]")
_RANDOM = re.compile(r"Random|Rng|Multinomial|TruncatedNormal|Stateful(Uniform|Standard)|SampleDistorted")
_KEPT = re.compile(r"Cache|Snapshot")
_MADE_ANEW = 0.5  # of the steps: a program that makes an iterator for each step does not repeat its data
_FUNCTION = "InstantiatedCapturedFunction"
_UNKNOWN, _MISSED = "?", 0.2
_MOST_CALLS = 50_000  # of a thread


def told_of_cache(case: Case, pipeline: Pipeline, stage: Stage) -> tuple[list[str], dict[str, str]]:
    """Return evidence and words if a cache behind a stage would save its work; `random` is known if it would not.

    Neither if a stage keeps its results already, or if Python runs in the pipeline: what is random there does not show.
    """
    drawing = _drawing(case.profile, pipeline)
    at_fault = sorted((path for path in drawing if not _is_below(stage.path, path)), key=len)
    if at_fault:
        drawn = pipeline.stages.get(stage.path if stage.path in drawing else at_fault[-1])
        return [], {"random": drawn.in_words if drawn else "the pipeline"}
    again = _again(case)
    if not again or pipeline.python or any(_KEPT.search(each.kind) for each in pipeline.stages.values()):
        return [], {}
    told = f"{again}, no stage keeps its results (cache), and {stage.in_words} gives the same again: nothing in it is random"
    return [told], {"cached": stage.in_words}


def _is_below(path: str, other: str) -> bool:
    """Whether a stage is nearer to the source than another, on the same way."""
    return path.startswith(f"{other}::")


def _again(case: Case) -> str:
    """What shows that the data are read more than once; empty if nothing does."""
    planes = {id(thread.plane): thread.plane for thread in case.profile.threads}
    names = [name for plane in planes.values() for name in plane.names.values() if "Repeat[" in name]
    number = max((int(found) for name in names for found in _REPETITION.findall(name)), default=0)
    if number:
        return f"the data are read again (repetition {number + 1})"
    low, high = case.steps.window
    eager = case.steps.thread.events.get("eager", ()) if case.steps.thread else ()
    made = sum(low < each.begin < high and each.name.endswith(" MakeIterator") for each in eager)
    tested = any(call.name.endswith(IN_TEST) or "test" in call.name for call in case.steps.calls)
    if made > tested and made < _MADE_ANEW * case.steps.count:
        return "the data are read again (a new iterator for each epoch)"
    return ""


def _drawing(profile: Profile, pipeline: Pipeline) -> set[str]:
    """The paths of the stages that draw random numbers; "?" among them if some belong to no stage."""
    until = _first_part(profile)
    stages: dict[object, str] = {}
    for thread in profile.threads:
        stages.update(_stages_of_runs(thread, until))
    runs = Counter(
        stages.get(number, _UNKNOWN)
        for thread in profile.threads
        for number in set(_random_runs(thread, until))
        if thread.of_pipeline or number in stages
    )
    if runs[_UNKNOWN] < _MISSED * runs.total():  # runs that began before the recording did
        del runs[_UNKNOWN]
    return {*runs, *(each.path for each in pipeline.stages.values() if each.kind.startswith("Random"))}


def _first_part(profile: Profile) -> float:
    """Until when to look: there may be a million calls, and all are alike."""
    times = (
        thread.events["iterator"] for thread in profile.threads if len(thread.events.get("iterator", ())) > _MOST_CALLS
    )
    return min((events[_MOST_CALLS].begin for events in times), default=math.inf)


def _random_runs(thread: Thread, until: float) -> Iterator[object]:
    """The ids of the runs on this thread that draw random numbers."""
    drawn = union(
        each.interval for each in thread.events.get("operation", ()) if _RANDOM.search(each.name.rpartition(":")[2])
    )
    for event in thread.events.get("executor", ()) if drawn else ():
        if event.begin < until and clip(drawn, *event.interval):
            yield thread.stats(event).get("id")


def _stages_of_runs(thread: Thread, until: float) -> dict[object, str]:
    """Run of a function to the stage that calls it: the one it is called in, or whose thread asked its input before."""
    calls = [each for kind in ("iterator", "user function") for each in thread.events.get(kind, ())]
    found: dict[object, str] = {}
    within: list[tuple[str, float]] = []  # the stages that are asked at this time, and until when
    before = ""
    for event in sorted(calls if thread.events.get("user function") else (), key=lambda each: each.begin):
        begin, end = event.interval
        if begin > until:
            break
        while within and within[-1][1] <= begin:
            before = within.pop()[0]
        if event.name.startswith(_FUNCTION):
            stage = within[-1][0] if within else before.rpartition("::")[0]
            found |= {thread.stats(event).get("id"): stage} if stage else {}
        else:
            within.append((event.name, end))
    return found
