"""The answer for a profile that TensorBoard's plugin has worked up: fewer facts, so a less certain reason."""

from __future__ import annotations

from collections.abc import Sequence

from tfgpu_doctor._project import __version__
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.tracing.breakdown import PARTS
from tfgpu_doctor.tracing.case import FEW_STEPS, HIGH, LAUNCH_HIGH, MODERATE, too_few
from tfgpu_doctor.tracing.input_causes import SOURCES
from tfgpu_doctor.tracing.processed import Processed
from tfgpu_doctor.tracing.result import Gain, Shares, StepTimes, TraceCause, TraceFix, TraceReport, cleaned
from tfgpu_doctor.tracing.tables import StageRow
from tfgpu_doctor.tracing.wording import filled

_BETTER = (
    "this file holds TensorBoard's summary of a profile; the profile itself (*.xplane.pb) would tell the reason better"
)
_HANDING_ON = (
    "Generator",
    "Prefetch",
    "Model",
    "Root",
    "MaxIntraOpParallelism",
    "PrivateThreadPool",
    "Zip",
    "ForeverRepeat",
)
_OVERHEAD = {"launch": "launch_bound", "copies": "copies", "collectives": "collectives", "compile": "compile"}


def processed_report(found: Processed, file: str) -> TraceReport:
    """Put the worked-up profile into words."""
    causes = _causes(found)
    first = next((each for each in causes if each.share >= _high(found, each.label)), None)
    verdict, why = _not_told(found, causes, first.share if first else 0.0)
    if verdict:
        first = None
    else:
        verdict = first.label if first else "compute_bound"
    row = read_knowledge().trace_verdicts[verdict]
    best = round(found.mean_ms * (1 - first.share), 3) if first else None
    report = TraceReport(
        doctor=__version__, recorded="", file=file, verdict=verdict,
        title=first.title if first else filled(row.title, {}), why=why, healthy=row.healthy,
        steps=StepTimes(
            count=len(found.steps), median_ms=round(found.median_ms, 3), mean_ms=round(found.mean_ms, 3),
            found_by="file",
        ),
        shares=Shares(**{part: round(found.share(part), 4) for part in PARTS}),
        causes=causes, gain=Gain(step_ms_at_best=best), pipeline=_stages(found),
        operations=(), gpu=None, memory=(), events=0,
        notes=(why, _BETTER) if why else (_BETTER,),
    )  # fmt: skip
    return cleaned(report)


def _not_told(found: Processed, causes: Sequence[TraceCause], known: float) -> tuple[str, str]:
    """The verdict where the summary does not tell, and why; two empty texts where it does. `known`: the first cause's share."""
    if len(found.steps) < FEW_STEPS:
        return "too_short", too_few(len(found.steps))
    unknown = found.share("idle") + found.share("host")
    waiting = 0.0 if any(each.label.startswith("input_") for each in causes) else found.share("input")
    if max(unknown, waiting) < HIGH or max(unknown, waiting) <= known:
        return "", ""
    lost_ms = max(unknown, waiting) * found.mean_ms
    if waiting > unknown:
        return "unexplained", (
            f"the steps wait {lost_ms:.1f} of {found.mean_ms:.1f} ms for input, and the summary does not say which stage of the "
            "pipeline takes that time"
        )
    return "unexplained", (
        f"in {lost_ms:.1f} of {found.mean_ms:.1f} ms of each step neither a GPU computes nor input is waited for, and the "
        "summary does not say what is done"
    )


def _high(found: Processed, label: str) -> float:
    """The share from which on a cause is the verdict."""
    return LAUNCH_HIGH if label == "launch_bound" and found.share("compute") else HIGH


def _causes(found: Processed) -> tuple[TraceCause, ...]:
    """What takes a tenth of the steps' time or more, the greatest first."""
    causes = []
    if (share := found.share("input")) >= MODERATE:
        waits = f"the steps wait {share * found.mean_ms:.0f} of {found.mean_ms:.0f} ms for input"
        label, stage, why = _reason(found)
        if label:
            causes.append(_cause(label, share, (waits, why), {"stage": stage}))
    for part, label in _OVERHEAD.items():
        if (share := found.share(part)) >= MODERATE:
            times = f"{part}: {share * found.mean_ms:.0f} of {found.mean_ms:.0f} ms of each step"
            causes.append(_cause(label, share, (times,), {}))
    return tuple(sorted(causes, key=lambda each: -each.share))


def _reason(found: Processed) -> tuple[str, str, str]:
    """The label, the stage with the most time of its own besides those that only hand on, and what says so.

    All are empty if that time is no real part of the waiting: then something else takes it.
    """
    stages = {path: row for path, row in found.stages.items() if path.rpartition("::")[2] not in _HANDING_ON}
    path = max(stages, key=lambda each: stages[each][1], default="")
    calls, own_ms, _ = stages.get(path, (0, 0.0, ""))
    if own_ms < MODERATE * found.parts["input"]:
        return "", "", ""
    stage, kind = path.removeprefix("Iterator::"), path.rpartition("::")[2]
    words = f"most time of its own has {stage}: {own_ms:.0f} ms in {amount(calls, 'call')}"
    if kind.startswith(SOURCES):
        return "input_slow_source", stage, words
    if kind.startswith(("Parallel", "MapAndBatch")):
        return "input_cpu_bound", stage, words
    return "input_serial_map", stage, words


def _cause(label: str, share: float, evidence: tuple[str, ...], words: dict[str, str]) -> TraceCause:
    row = read_knowledge().trace_verdicts[label]
    return TraceCause(
        label=label, title=filled(row.title, words), confidence="low", share=round(share, 4), evidence=evidence,
        fix=TraceFix(text=filled(row.fix, words), code=row.code),
    )  # fmt: skip


def _stages(found: Processed) -> tuple[StageRow, ...]:
    return tuple(
        StageRow(
            path=path.removeprefix("Iterator::"), name=category, calls=calls,
            busy_share=round(own_ms / sum(found.steps), 4), parallelism=0, is_slowest=False,
        )
        for path, (calls, own_ms, category) in sorted(found.stages.items())[:40]
    )  # fmt: skip
