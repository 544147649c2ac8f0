"""A watched training in the Prometheus text format, for the node exporter's textfile collector.

https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format. It is written here and not by
prometheus-client, which a machine that trains does not need to have.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from tfgpu_doctor.tracing import NAMES
from tfgpu_doctor.watching.live import State
from tfgpu_doctor.watching.result import WatchReport
from tfgpu_doctor.watching.units import one_line
from tfgpu_doctor.watching.words import HANG

_LONGEST = 400  # characters of a label
_Sample = tuple[dict[str, str], float | None]


def render_prometheus(seen: WatchReport | State) -> str:
    """Return the document; a family of which nothing is known is left out."""
    step_ms = seen.step_ms if isinstance(seen, State) else seen.steps.median_ms if seen.steps.count else None
    verdict = HANG if seen.hang else seen.verdict
    healthy = False if seen.hang else seen.healthy
    families: tuple[tuple[str, str, Iterable[_Sample]], ...] = (
        ("healthy", "1 if nothing holds the training up, 0 if something does.", [({}, healthy)]),
        ("verdict_info", "The verdict, as a label.", [({"verdict": verdict}, 1)] if verdict else []),
        ("hang", "1 if the program makes no step any more.", [({}, seen.hang is not None)]),
        ("step_seconds", "Time of a step.", [({}, None if step_ms is None else step_ms / 1000)]),
        ("share", "Share of the steps' time, by what it is spent on.", _shares(seen)),
        ("gpu_utilization_ratio", "Share of the time in which a kernel ran.", _utilization(seen)),
        ("gpu_used_bytes", "GPU memory in use; of a run that has ended, its peak.", _used(seen)),
    )
    return "".join(_family(f"tfgpu_watch_{name}", about, samples) for name, about, samples in families)


def _shares(seen: WatchReport | State) -> list[_Sample]:
    shares = seen.shares
    if shares is None or (isinstance(seen, WatchReport) and not seen.steps.count):
        return []
    return [({"part": part}, getattr(shares, part)) for part in NAMES]


def _utilization(seen: WatchReport | State) -> list[_Sample]:
    return [({"gpu": str(gpu.index), "uuid": gpu.uuid}, gpu.utilization) for gpu in seen.gpus]


def _used(seen: WatchReport | State) -> list[_Sample]:
    if isinstance(seen, WatchReport):
        return [({"gpu": str(gpu.index), "uuid": gpu.uuid}, gpu.peak_used_bytes) for gpu in seen.gpus]
    return [({"gpu": str(gpu.index), "uuid": gpu.uuid}, gpu.used_bytes) for gpu in seen.gpus]


def _family(name: str, about: str, samples: Iterable[_Sample]) -> str:
    """The metric; of two samples with the same labels only the first is kept, and none without a value."""
    rows: dict[str, str] = {}
    for labels, value in samples:
        if value is not None and math.isfinite(value):
            named = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
            rows.setdefault(f"{{{named}}}" if named else "", f"{float(value)}")
    lines = [f"# HELP {name} {about}", f"# TYPE {name} gauge", *(f"{name}{key} {value}" for key, value in rows.items())]
    return "\n".join(lines) + "\n" if rows else ""


def _escaped(text: str) -> str:
    return one_line(text)[:_LONGEST].replace("\\", "\\\\").replace('"', '\\"')
