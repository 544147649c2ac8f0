"""A watched training as metrics for the node exporter's textfile collector."""

from __future__ import annotations

from tfgpu_doctor.render.exposition import Family, Sample, exposition
from tfgpu_doctor.tracing import NAMES
from tfgpu_doctor.watching.live import State
from tfgpu_doctor.watching.result import WatchReport
from tfgpu_doctor.watching.words import HANG


def render_prometheus(seen: WatchReport | State) -> str:
    """Return the document; a family of which nothing is known is left out."""
    step_ms = seen.step_ms if isinstance(seen, State) else seen.steps.median_ms if seen.steps.count else None
    verdict = HANG if seen.hang else seen.verdict
    healthy = False if seen.hang else seen.healthy
    families: tuple[Family, ...] = (
        ("healthy", "1 if nothing holds the training up, 0 if something does.", [({}, healthy)]),
        ("verdict_info", "The verdict, as a label.", [({"verdict": verdict}, 1)] if verdict else []),
        ("hang", "1 if the program makes no step any more.", [({}, seen.hang is not None)]),
        ("step_seconds", "Time of a step.", [({}, None if step_ms is None else step_ms / 1000)]),
        ("share", "Share of the steps' time, by what it is spent on.", _shares(seen)),
        ("gpu_utilization_ratio", "Share of the time in which a kernel ran.", _utilization(seen)),
        ("gpu_used_bytes", "GPU memory in use; of a run that has ended, its peak.", _used(seen)),
    )
    return exposition("tfgpu_watch_", families)


def _shares(seen: WatchReport | State) -> list[Sample]:
    shares = seen.shares
    if shares is None or (isinstance(seen, WatchReport) and not seen.steps.count):
        return []
    return [({"part": part}, getattr(shares, part)) for part in NAMES]


def _utilization(seen: WatchReport | State) -> list[Sample]:
    return [({"gpu": str(gpu.index), "uuid": gpu.uuid}, gpu.utilization) for gpu in seen.gpus]


def _used(seen: WatchReport | State) -> list[Sample]:
    if isinstance(seen, WatchReport):
        return [({"gpu": str(gpu.index), "uuid": gpu.uuid}, gpu.peak_used_bytes) for gpu in seen.gpus]
    return [({"gpu": str(gpu.index), "uuid": gpu.uuid}, gpu.used_bytes) for gpu in seen.gpus]
