"""The document of `tfgpu-doctor trace`: the verdict, where a step's time goes, the causes, and what they cost."""

from __future__ import annotations

import datetime as dt
import string
from typing import Any

import msgspec

from tfgpu_doctor._project import __version__
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model import Confidence
from tfgpu_doctor.model.plain_text import clean
from tfgpu_doctor.tracing.breakdown import PARTS
from tfgpu_doctor.tracing.causes import Found, in_words
from tfgpu_doctor.tracing.examine import Verdict
from tfgpu_doctor.tracing.gpu_work import GpuWork, gpu_work
from tfgpu_doctor.tracing.memory import MemoryRow, memory_of
from tfgpu_doctor.tracing.recorded import Profile

SCHEMA = 1
_CODE = frozenset(row.code for row in read_knowledge().trace_verdicts.values())  # what may have several lines
_NOT_TOLD = 3


class StepTimes(msgspec.Struct, frozen=True, kw_only=True):
    """The steps that were judged: how many, their durations in ms, and what tells where they begin."""

    count: int
    median_ms: float
    mean_ms: float
    found_by: str  # "markers", "calls", "batches", "operations", "gpu", "file"; empty if there are none
    name: str = ""


class Shares(msgspec.Struct, frozen=True, kw_only=True):
    """Where the time of the steps goes, of 1; each moment counts once, in this order of precedence."""

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


class StageRow(msgspec.Struct, frozen=True, kw_only=True):
    """A stage of the input pipeline, from the program's end to the source."""

    path: str
    name: str
    calls: int
    busy_share: float  # of the steps' time
    parallelism: int
    is_slowest: bool


class OperationRow(msgspec.Struct, frozen=True, kw_only=True):
    """An operation or a kernel: its time summed over threads or streams, in ms, and how often it ran."""

    name: str
    total_ms: float
    count: int


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
    memory = memory_of(profile)
    case = verdict.case
    causes = tuple(_cause(found, case.steps.name if case else "") for found in verdict.found) if verdict.found else ()
    title = causes[0].title if causes and causes[0].label == verdict.word else _filled(row.title, {})
    steps = case.steps if case else None
    report = TraceReport(
        doctor=__version__,
        recorded=_when(profile.began_ns),
        file=file,
        verdict=verdict.word,
        title=title,
        why=verdict.why,
        healthy=row.healthy,
        steps=StepTimes(
            count=steps.count if steps else 0, median_ms=_ms(steps.median_ms if steps else 0.0),
            mean_ms=_ms(steps.mean_ms if steps else 0.0), found_by=steps.found_by if steps else "",
            name=steps.name if steps else "",
        ),
        shares=Shares(**{part: round(case.times.share(part), 4) if case else 0.0 for part in PARTS}),
        causes=causes,
        gain=_gain(verdict),
        pipeline=_stages(verdict),
        operations=_operations(profile, verdict),
        gpu=gpu_work(profile, steps) if steps else None,
        memory=memory,
        notes=(*_notes(profile, verdict), *(each.warning for each in memory if each.warning)),
        events=profile.events,
    )  # fmt: skip
    return cleaned(report)


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
    row = read_knowledge().trace_verdicts[report.verdict]
    return TraceFix(text=row.fix, code=row.code) if report.healthy is None else None


def _cause(found: Found, function: str) -> TraceCause:
    row = read_knowledge().trace_verdicts[found.label]
    words = {
        "function": function or "a function",
        "stage": in_words(found.stage) if found.stage else "the stage",
        **found.words,
    }
    text = _filled(row.fix, words)
    return TraceCause(
        label=found.label, title=_filled(row.title, words), confidence=found.confidence, share=round(found.share, 4),
        evidence=tuple(found.evidence), fix=TraceFix(text=text, code=row.code),
    )  # fmt: skip


def _filled(text: str, words: dict[str, str]) -> str:
    """Fill in what is known; a sentence whose word is not known is left out."""
    sentences = []
    for sentence in text.split(". "):
        needed = [name for _, name, _, _ in string.Formatter().parse(sentence) if name]
        if all(words.get(name) for name in needed):
            sentences.append(sentence.format(**words))
    joined = ". ".join(sentences)
    return joined + "." if text.endswith(".") and joined and not joined.endswith(".") else joined


def _gain(verdict: Verdict) -> Gain:
    """The mean step without the time of the first cause; overlapping work may take its place, so this is the least."""
    if verdict.case is None or not verdict.found or verdict.found[0].label != verdict.word:
        return Gain()
    return Gain(step_ms_at_best=_ms(verdict.case.steps.mean_ms * (1 - verdict.found[0].share)))


def _stages(verdict: Verdict) -> tuple[StageRow, ...]:
    if verdict.case is None or verdict.case.pipeline is None:
        return ()
    slow = verdict.found[0].stage if verdict.found else None
    whole = max(1e-9, verdict.case.times.window[1] - verdict.case.times.window[0])
    stages = sorted(verdict.case.pipeline.stages.values(), key=lambda each: each.path)
    return tuple(
        StageRow(
            path=stage.path.removeprefix("Iterator::"), name=str(stage.settings.get("name", "")), calls=stage.calls,
            busy_share=round(sum(high - low for low, high in stage.busy) / whole, 4), parallelism=stage.parallelism,
            is_slowest=stage is slow,
        )
        for stage in stages[:40]
    )  # fmt: skip


def _operations(profile: Profile, verdict: Verdict) -> tuple[OperationRow, ...]:
    """The operations with the most time: kernels where there is a GPU, else what the threads ran."""
    if verdict.case is None:
        return ()
    low, high = verdict.case.times.window
    totals: dict[str, tuple[float, int]] = {}
    events = (
        [
            event
            for lines in profile.gpus.values()
            for each in lines
            if each.name.startswith("Stream")
            for event in each.events
        ]
        if profile.gpus
        else [
            event
            for thread in profile.threads
            for kind in ("operation", "python")
            for event in thread.events.get(kind, ())
        ]
    )
    for event in events:
        if low <= event.begin < high:
            total, count = totals.get(event.name, (0.0, 0))
            totals[event.name] = (total + event.duration, count + 1)
    first = sorted(totals.items(), key=lambda each: -each[1][0])[:10]
    return tuple(OperationRow(name=name, total_ms=_ms(total), count=count) for name, (total, count) in first)


def _notes(profile: Profile, verdict: Verdict) -> tuple[str, ...]:
    notes = [verdict.why] if verdict.why else []
    if profile.cut_off:
        notes.append(f"the file is cut off ({profile.cut_off}); what came before is judged")
    if not profile.gpus and verdict.case and verdict.word != "no_device_events":
        notes.append("there is no GPU in this profile: computation is the processor's")
    return tuple(notes)


def _when(origin_ns: int) -> str:
    return (
        dt.datetime.fromtimestamp(origin_ns / 1e9, dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ") if origin_ns else ""
    )


def _ms(value: float) -> float:
    return round(value, 3)
