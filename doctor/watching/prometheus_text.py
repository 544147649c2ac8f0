"""A watched training as metrics for the node exporter's textfile collector."""

from __future__ import annotations

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.render.exposition import Family, Sample, exposition
from tfgpu_doctor.tracing import NAMES
from tfgpu_doctor.watching.live import State
from tfgpu_doctor.watching.reading import Reading
from tfgpu_doctor.watching.result import WatchReport
from tfgpu_doctor.watching.words import HANG


def render_prometheus(seen: WatchReport | State) -> str:
    """Return the document; a family of which nothing is known is left out."""
    step_ms = seen.step_ms if isinstance(seen, State) else seen.steps.mean_ms if seen.steps.count else None
    verdict = HANG if seen.hang else seen.verdict
    healthy = False if seen.hang else seen.healthy
    families: tuple[Family, ...] = (
        ("healthy", "1 if nothing holds the training up, 0 if something does.", [({}, healthy)]),
        ("verdict_info", "The verdict, as a label.", [({"verdict": verdict}, 1)] if verdict else []),
        ("hang", "1 if the program makes no step any more.", [({}, seen.hang is not None)]),
        (
            "step_seconds",
            "Mean time of a step, by the last recording.",
            [({}, None if step_ms is None else step_ms / 1000)],
        ),
        ("share", "Share of the steps' time, by what it is spent on.", _shares(seen)),
        ("gpu_utilization_ratio", "Share of the time in which a kernel ran.", _utilization(seen)),
        ("gpu_used_bytes", "GPU memory in use; of a run that has ended, its peak.", _used(seen)),
        ("gpu_other_processes", "Processes of others on a GPU.", _tenants(seen)),
        ("gpu_other_utilization_ratio", "Share of the time in which their kernels ran.", _used_by_others(seen)),
        (
            "machine_cause",
            "1 if this slows the program from outside; of a run that has ended, if it did.",
            _causes(seen),
        ),
        *_host(seen),
        ("recordings", "Recordings of the program that were read.", [({}, seen.captures)]),
        ("rule_broken", "1 if a rule of --fail-if is broken; left out if it could not be judged.", _rules(seen)),
    )
    return exposition("tfgpu_watch_", families)


def _causes(seen: WatchReport | State) -> list[Sample]:
    """One sample for each cause that there is, so that an alert has a series before it fires."""
    active = seen.causes if isinstance(seen, State) else [each.label for each in seen.machine]
    words = read_knowledge().watch_words.values()
    return [({"cause": row.word}, row.word in active) for row in words if row.kind == "machine"]


def _host(seen: WatchReport | State) -> tuple[Family, ...]:
    """CPUs and memory: now, or the means and the peak of a run that has ended."""
    host = seen.reading if isinstance(seen, State) else seen.host
    memory = None if host is None else host.memory_bytes if isinstance(host, Reading) else host.peak_memory_bytes
    return (
        ("cpu_used", "CPUs that the program uses.", [({}, host.cpu if host else None)]),
        ("cpu_queued", "CPUs that its threads wait for.", [({}, host.queued if host else None)]),
        ("cpu_throttled_ratio", "Share of the periods in which its quota was used up.", [({}, host.throttled if host else None)]),
        ("memory_bytes", "Memory of the program; of a run that has ended, its peak.", [({}, memory)]),
    )  # fmt: skip


def _tenants(seen: WatchReport | State) -> list[Sample]:
    return [({"gpu": str(gpu.index), "uuid": gpu.uuid}, len(gpu.tenants)) for gpu in seen.gpus]


def _used_by_others(seen: WatchReport | State) -> list[Sample]:
    if isinstance(seen, WatchReport):
        return []
    return [
        ({"gpu": str(gpu.index), "uuid": gpu.uuid}, min(1.0, sum(gpu.tenants_utilization.values())))
        for gpu in seen.gpus
        if gpu.tenants_utilization is not None
    ]


def _rules(seen: WatchReport | State) -> list[Sample]:
    return [({"rule": rule.rule}, rule.broken) for rule in seen.rules if rule.broken is not None]


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
