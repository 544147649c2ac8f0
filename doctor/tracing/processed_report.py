"""The answer for a profile that TensorBoard's plugin has worked up: fewer facts, so a less certain reason."""

from __future__ import annotations

from tfgpu_doctor._project import __version__
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model import Confidence
from tfgpu_doctor.tracing.breakdown import PARTS
from tfgpu_doctor.tracing.causes import HIGH, SOURCES
from tfgpu_doctor.tracing.processed import Processed
from tfgpu_doctor.tracing.result import Gain, Shares, StageRow, StepTimes, TraceCause, TraceFix, TraceReport, cleaned

_BETTER = (
    "this file holds TensorBoard's summary of a profile; the profile itself (*.xplane.pb) would tell the reason better"
)
_GENERATOR, _PREFETCH = "Generator", "Prefetch"
_OVERHEAD = ("launch", "copies", "collectives", "compile")


def processed_report(found: Processed, file: str) -> TraceReport:
    """Put the worked-up profile into words."""
    causes = _causes(found)
    verdict = causes[0].label if causes and causes[0].share >= HIGH else "compute_bound"
    row = read_knowledge().trace_verdicts[verdict]
    best = found.mean_ms * (1 - causes[0].share) if causes and verdict == causes[0].label else None
    report = TraceReport(
        doctor=__version__, recorded="", file=file, verdict=verdict,
        title=causes[0].title if verdict != "compute_bound" else row.title, why="", healthy=row.healthy,
        steps=StepTimes(
            count=len(found.steps), median_ms=round(found.median_ms, 3), mean_ms=round(found.mean_ms, 3), found_by="file"
        ),
        shares=Shares(**{part: round(found.share(part), 4) for part in PARTS}),
        causes=causes, gain=Gain(step_ms_at_best=round(best, 3) if best is not None else None), pipeline=_stages(found),
        operations=(), gpu=None, memory=(), events=0,
        notes=(_BETTER,),
    )  # fmt: skip
    return cleaned(report)


def _causes(found: Processed) -> tuple[TraceCause, ...]:
    causes = []
    if found.share("input") >= HIGH / 2:
        label, sure, words = _reason(found)
        text = f"the steps wait {found.share('input') * found.mean_ms:.0f} of {found.mean_ms:.0f} ms for input"
        causes.append(_cause(label, sure, found.share("input"), (text, words)))
    names = {"launch": "launch_bound", "copies": "copies", "collectives": "collectives", "compile": "compile"}
    causes += [
        _cause(
            names[part], "low", share, (f"{part}: {share * found.mean_ms:.0f} of {found.mean_ms:.0f} ms of each step",)
        )
        for part in _OVERHEAD
        if (share := found.share(part)) >= HIGH / 2
    ]
    return tuple(sorted(causes, key=lambda each: -each.share))


def _reason(found: Processed) -> tuple[str, Confidence, str]:
    """The stage with the most time of its own, besides those that only hand on."""
    stages = {
        path: row
        for path, row in found.stages.items()
        if path.rpartition("::")[2] not in (_GENERATOR, _PREFETCH, "Model")
    }
    path = max(stages, key=lambda each: stages[each][1], default="")
    kind = path.rpartition("::")[2]
    if not path:
        return "input_cpu_bound", "low", "the file names no stage of the pipeline"
    words = f"most time of its own has {path.removeprefix('Iterator::')}: {stages[path][1]:.0f} ms in {stages[path][0]} calls"
    if kind.startswith(SOURCES):
        return "input_slow_source", "low", words
    if kind.startswith(("Parallel", "MapAndBatch")):
        return "input_cpu_bound", "low", words
    return "input_serial_map", "low", words


def _cause(label: str, sure: Confidence, share: float, evidence: tuple[str, ...]) -> TraceCause:
    row = read_knowledge().trace_verdicts[label]
    words = {"stage": "the stage", "function": "a function", "place": "the program", "what": "other work"}
    return TraceCause(
        label=label, title=row.title.format(**words), confidence=sure, share=round(share, 4), evidence=evidence,
        fix=TraceFix(text=row.fix.format(**words), code=row.code),
    )  # fmt: skip


def _stages(found: Processed) -> tuple[StageRow, ...]:
    return tuple(
        StageRow(
            path=path.removeprefix("Iterator::"), name=category, calls=calls,
            busy_share=round(own_ms / sum(found.steps), 4), parallelism=0, is_slowest=False,
        )
        for path, (calls, own_ms, category) in sorted(found.stages.items())[:40]
    )  # fmt: skip
