"""The document of `tfgpu-doctor trace`: the verdict, where a step's time goes, the causes, and what they cost."""

from __future__ import annotations

import datetime as dt
import math
import re
from dataclasses import replace
from typing import Any

import msgspec

from tfgpu_doctor._project import __version__
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model import Confidence
from tfgpu_doctor.model.plain_text import clean
from tfgpu_doctor.tracing.breakdown import PARTS
from tfgpu_doctor.tracing.case import FEW_STEPS, Found
from tfgpu_doctor.tracing.device_events import complaints
from tfgpu_doctor.tracing.examine import Verdict
from tfgpu_doctor.tracing.gpu_streams import computing_gpus
from tfgpu_doctor.tracing.gpu_work import GpuWork, gpu_work
from tfgpu_doctor.tracing.memory import MemoryRow, memory_left_out, memory_of
from tfgpu_doctor.tracing.recorded import Profile
from tfgpu_doctor.tracing.steps import Steps
from tfgpu_doctor.tracing.tables import OperationRow, StageRow, operation_rows, stage_rows
from tfgpu_doctor.tracing.wording import filled

SCHEMA = 1
_CODE = frozenset(row.code for row in read_knowledge().trace_verdicts.values())  # what may have several lines
_NOT_TOLD = 3
_SECONDS = re.compile(r"--seconds (\d+)")  # in the code of the table
_WISHED_STEPS = 10  # in a recording
MOST_RECORDED_S = 120  # at once


class StepTimes(msgspec.Struct, frozen=True, kw_only=True):
    """The steps that were judged: how many, their durations in ms, what tells where they begin, and how many a call runs."""

    count: int
    median_ms: float
    mean_ms: float
    found_by: str  # "markers", "calls", "batches", "operations", "graph", "gpu", "file"; empty if there are none
    name: str = ""
    per_call: float = 1.0  # "graph": not known, the call was longer than the recording


class Shares(msgspec.Struct, frozen=True, kw_only=True):
    """Where the time of the steps goes, of 1. Each moment counts once; the first that claims it has it.

    They claim in this order: other work between steps (as `host`), compile, compute, collectives, copies, input, idle,
    launch; the rest is `host`. Where the processor computes, what TensorFlow's executor does between the operations of a
    graph is launch; an operation of less than 2 µs counts as such.
    """

    compute: float
    collectives: float
    copies: float
    compile: float
    input: float
    launch: float
    host: float
    idle: float


class TraceFix(msgspec.Struct, frozen=True, kw_only=True):
    """What to do: in words, and as lines for the program."""

    text: str
    code: str = ""


class TraceCause(msgspec.Struct, frozen=True, kw_only=True):
    """A bottleneck: the share of the steps' time that it takes (of 1), and what in the trace says so."""

    label: str
    title: str
    confidence: Confidence
    share: float
    evidence: tuple[str, ...]
    fix: TraceFix


class Gain(msgspec.Struct, frozen=True, kw_only=True):
    """What removing the first cause would bring at most: the mean step in ms; None where there is nothing to remove."""

    step_ms_at_best: float | None = None


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the step, in ms, in the other recording and in this one."""

    part: str
    before_ms: float
    now_ms: float


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Another recording, against which one is compared: `ratio` is how many times as fast a step is now; None without steps."""

    file: str
    verdict: str
    step_ms: float
    ratio: float | None
    changes: tuple[Change, ...]


class TraceReport(msgspec.Struct, frozen=True, kw_only=True):
    """The document. `healthy` is null where the profile does not tell."""

    schema: int = SCHEMA
    doctor: str
    recorded: str
    file: str
    verdict: str
    title: str
    why: str
    healthy: bool | None
    steps: StepTimes
    shares: Shares
    causes: tuple[TraceCause, ...]
    gain: Gain
    pipeline: tuple[StageRow, ...]
    operations: tuple[OperationRow, ...]
    gpu: GpuWork | None
    memory: tuple[MemoryRow, ...]
    notes: tuple[str, ...]
    events: int
    compared: Comparison | None = None

    @property
    def exit_code(self) -> int:
        """0: healthy; 1: a bottleneck; 3: the profile does not tell."""
        return {True: 0, False: 1, None: _NOT_TOLD}[self.healthy]


def make_report(profile: Profile, verdict: Verdict, file: str) -> TraceReport:
    """Put the examination of a profile into words."""
    row = read_knowledge().trace_verdicts[verdict.word]
    case, memory = verdict.case, memory_of(profile)
    causes = tuple(make_cause(found) for found in _doubted(profile, verdict))
    title = causes[0].title if causes and causes[0].label == verdict.word else filled(row.title, {})
    steps = case.steps if case else Steps()
    slowest = verdict.found[0].stage if verdict.found else None
    report = TraceReport(
        doctor=__version__, recorded=_when(profile.began_ns), file=file, verdict=verdict.word, title=title,
        why=verdict.why, healthy=row.healthy, steps=_step_times(steps),
        shares=Shares(**{part: round(case.times.share(part), 4) if case else 0.0 for part in PARTS}),
        causes=causes, gain=_gain(verdict),
        pipeline=stage_rows(case, slowest) if case else (), operations=operation_rows(case) if case else (),
        gpu=gpu_work(profile, steps, case.times.gpus) if case else None, memory=memory,
        notes=(*_notes(profile, verdict), *(each.warning for each in memory if each.warning)), events=profile.events,
    )  # fmt: skip
    return cleaned(report)


def _step_times(steps: Steps) -> StepTimes:
    return StepTimes(
        count=steps.count, median_ms=_ms(steps.median_ms), mean_ms=_ms(steps.mean_ms), found_by=steps.found_by,
        name=steps.name, per_call=steps.per_call,
    )  # fmt: skip


def cleaned(report: TraceReport) -> TraceReport:
    """Return the report with no text that controls a terminal or forges a line; a profile's names are anybody's."""
    return msgspec.convert(_cleaned(msgspec.to_builtins(report)), TraceReport)


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        text = clean(value.encode("utf-8", "replace").decode())
        return text if "\n" not in text or text in _CODE else text.replace("\n", " ")
    if isinstance(value, dict):
        return {name: _cleaned(each) for name, each in value.items()}
    return [_cleaned(each) for each in value] if isinstance(value, list | tuple) else value


def next_step(report: TraceReport) -> TraceFix | None:
    """What to do where the profile does not tell."""
    if report.healthy is not None:
        return None
    row = read_knowledge().trace_verdicts[report.verdict]
    wished_s = min(MOST_RECORDED_S, math.ceil(_WISHED_STEPS * report.steps.mean_ms / 1000))
    code = _SECONDS.sub(lambda found: f"--seconds {max(wished_s, int(found[1]))}", row.code)
    return TraceFix(text=filled(row.fix, {}) + _too_long(report.steps.mean_ms / 1000), code=code)


def _too_long(step_s: float) -> str:
    if FEW_STEPS * step_s <= MOST_RECORDED_S:
        return ""
    return f" {FEW_STEPS} steps of {step_s:.0f} s are longer than a recording can be: use smaller batches for it."


def make_cause(found: Found) -> TraceCause:
    """Put what was found into words."""
    row = read_knowledge().trace_verdicts[found.label]
    of_stage = {"stage": found.stage.in_words, "number": found.stage.number} if found.stage else {}
    words = of_stage | found.words
    return TraceCause(
        label=found.label, title=filled(row.title, words), confidence=found.confidence, share=round(found.share, 4),
        evidence=tuple(found.evidence), fix=TraceFix(text=filled(row.fix, words), code=row.code),
    )  # fmt: skip


def _doubted(profile: Profile, verdict: Verdict) -> list[Found]:
    """What was found, less sure where it may be only that others took the CPUs; the evidence of the verdict says so."""
    cpus = profile.sources.processors
    return [
        replace(found, confidence="low", evidence=[*found.evidence, *[cpus.doubt] * (found.label == verdict.word)])
        if cpus.explain(found.label, found.share, found.high) else found
        for found in verdict.found
    ]  # fmt: skip


def _gain(verdict: Verdict) -> Gain:
    """The mean step without the time that the first cause can save, and at least that: other work may take its place."""
    if verdict.case is None or not verdict.found or verdict.found[0].label != verdict.word:
        return Gain()
    first = verdict.found[0]
    saved = first.share if first.saved is None else first.saved
    return Gain(step_ms_at_best=_ms(verdict.case.steps.mean_ms * (1 - saved)))


def _notes(profile: Profile, verdict: Verdict) -> tuple[str, ...]:
    notes = [verdict.why] if verdict.why else []
    if profile.cut_off:
        notes.append(f"the file is cut off ({profile.cut_off}); what came before is judged")
    if left_out := memory_left_out(profile):
        notes.append(left_out)
    if verdict.word != "no_device_events":
        notes += [f"TensorFlow's profiler says: {each}" for each in complaints(profile)[:3]]
    if told := _of_processors(profile, verdict):
        notes.append(told)
    if verdict.case and verdict.word != "no_device_events" and not computing_gpus(profile):
        none = "no GPU computes" if profile.gpus else "there is no GPU"
        notes.append(f"{none} in this profile: computation is the processor's")
    return tuple(notes)


def _of_processors(profile: Profile, verdict: Verdict) -> str:
    """What the machine kept from the program, unless the verdict's own evidence says it, or there is no verdict."""
    cpus = profile.sources.processors
    if verdict.word == "unexplained":
        return cpus.doubt or cpus.said
    if read_knowledge().trace_verdicts[verdict.word].healthy is None:
        return ""
    in_evidence = any(
        each.label == verdict.word and cpus.explain(each.label, each.share, each.high) for each in verdict.found
    )
    return "" if in_evidence else cpus.said


def _when(origin_ns: int) -> str:
    if not origin_ns:
        return ""
    return dt.datetime.fromtimestamp(origin_ns / 1e9, dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _ms(value: float) -> float:
    return round(value, 3)
