"""What outside of the program's code slows it: other processes, a quota, a disk, memory, a GPU that slows down."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.tracing import TraceReport
from tfgpu_doctor.watching.reading import GpuReading, Reading
from tfgpu_doctor.watching.result import MachineCause

_LOOKS = 5  # seconds that are judged together
_LEAST = 4
_QUEUED = 0.25  # of the CPUs: what the program's threads wait for while others run
_THROTTLED = 0.25  # of the periods
_IO_STALLED = 0.3  # of the time
_MEMORY_STALLED = 0.1
_CLOCK = 0.85  # of the highest, while the GPU works
_BUSY = 0.5
_HIGH = 0.2  # of the steps' time: from there on `trace` calls a wait a bottleneck
_NEED_CPUS = ("input_cpu_bound", "launch_bound", "unexplained")
_NEED_DISK = ("input_slow_source", "input_no_prefetch", "unexplained")
_SLOWING = {"hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown"}


@dataclass
class _Seen:
    seconds: float = 0.0
    evidence: tuple[str, ...] = ()
    worst: float = 0.0


@dataclass
class MachineCauses:
    """Judges the looks of the last seconds; `active` are the causes at work now, the worst first."""

    active: list[str] = field(default_factory=list)
    _looks: deque[Reading] = field(default_factory=lambda: deque(maxlen=_LOOKS))
    _seen: dict[str, _Seen] = field(default_factory=dict)

    def add(self, reading: Reading, gpus: Sequence[GpuReading]) -> None:
        """Add a look at the program, and the newest look at each GPU."""
        passed_s = reading.at_s - self._looks[-1].at_s if self._looks else 0.0
        self._looks.append(reading)
        found: list[tuple[float, str, str]] = []
        if len(self._looks) >= _LEAST:
            found += [each for judge in _JUDGES if (each := judge(list(self._looks)))]
        found += [each for gpu in gpus if (each := _slowed(gpu))]
        found.sort(reverse=True)
        self.active = list(dict.fromkeys(label for _, label, _ in found))
        for weight, label, words in found:
            seen = self._seen.setdefault(label, _Seen())
            seen.seconds += passed_s
            if weight > seen.worst:
                seen.worst, seen.evidence = weight, (words,)

    def lose(self, gpu: str, words: str) -> None:
        """A GPU no longer answers."""
        seen = self._seen.setdefault("gpu_lost", _Seen(worst=1.0))
        seen.evidence = (*seen.evidence, f"{gpu}: {words}")

    def found(self) -> tuple[MachineCause, ...]:
        """All causes that were at work, the longest first."""
        words = read_knowledge().watch_words
        rows = sorted(self._seen.items(), key=lambda each: (each[0] != "gpu_lost", -each[1].seconds))
        return tuple(
            MachineCause(
                label=label, title=words[label].title, seconds=round(seen.seconds, 1), evidence=seen.evidence,
                fix=words[label].fix,
            )
            for label, seen in rows
        )  # fmt: skip


def explains(label: str, report: TraceReport, looks: Sequence[Reading]) -> bool:
    """Whether a cause of the machine can be what makes the steps wait, and not the program's own way of working.

    What needs CPUs is slower by the factor that the looks show. If the wait would be a bottleneck even without that,
    while all else is as it is, the program has its own reason.
    """
    cause = next((each for each in report.causes if each.label == report.verdict), None)
    if label == "disk_slow":
        return cause is None or cause.label in _NEED_DISK
    if cause is None or cause.label in _NEED_CPUS or label not in _FACTORS:
        return True
    factor = _FACTORS[label](looks)
    left = cause.share / factor
    return left / (left + 1 - cause.share) < _HIGH


def _contention_factor(looks: Sequence[Reading]) -> float:
    cpu = sum(each.cpu for each in looks)
    return 1 + sum(each.queued or 0.0 for each in looks) / max(cpu, 0.1)


def _quota_factor(looks: Sequence[Reading]) -> float:
    told = [each.throttled for each in looks if each.throttled is not None]
    return 1 / max(0.1, 1 - (statistics.fmean(told) if told else 0.0))


_FACTORS = {"cpu_contention": _contention_factor, "cpu_quota": _quota_factor}
_Found = tuple[float, str, str] | None  # how bad (of 1), the label, the evidence


def _contention(looks: list[Reading]) -> _Found:
    """Threads wait for a CPU while others use it; a program that only starts too many threads waits for itself."""
    queued, others = _mean(looks, lambda each: each.queued), _mean(looks, lambda each: each.others_cpu)
    if queued is None or others is None:
        return None
    whole = looks[-1].cpus or looks[-1].machine_cpus or 1.0
    share = min(queued, others) / whole
    if share < _QUEUED:
        return None
    own = statistics.fmean(each.cpu for each in looks)
    return share, "cpu_contention", (
        f"its threads wait for {queued:.1f} CPUs more than the {own:.1f} they get, of {whole:g}; other processes use "
        f"{others:.1f}"
    )  # fmt: skip


def _quota(looks: list[Reading]) -> _Found:
    share = _mean(looks, lambda each: each.throttled)
    if share is None or share < _THROTTLED:
        return None
    cpus = looks[-1].cpus
    allowed = f" of {cpus:g} CPUs" if cpus else ""
    return share, "cpu_quota", f"in {share:.0%} of the periods the group had used up its quota{allowed}"


def _disk(looks: list[Reading]) -> _Found:
    stalled = _mean(looks, lambda each: each.io_stalled)
    blocked = statistics.fmean(each.blocked for each in looks)
    if stalled is None or stalled < _IO_STALLED or blocked < 0.5:
        return None
    rate = _mean(looks, lambda each: each.read_bytes_per_s)
    reads = "" if rate is None else f"; it reads {rate / 1e6:.1f} MB/s"
    return (
        stalled,
        "disk_slow",
        f"for {stalled:.0%} of the time tasks wait for storage, {blocked:.1f} of its threads{reads}",
    )


def _memory(looks: list[Reading]) -> _Found:
    stalled = _mean(looks, lambda each: each.memory_stalled)
    if stalled is None or stalled < _MEMORY_STALLED:
        return None
    limit = looks[-1].memory_limit_bytes
    held = f"{looks[-1].memory_bytes / 2**30:.1f} GiB" + (f" of {limit / 2**30:.1f}" if limit else "")
    return stalled, "memory_short", f"for {stalled:.0%} of the time tasks wait for memory; the program holds {held}"


_JUDGES = (_contention, _quota, _disk, _memory)


def _slowed(gpu: GpuReading) -> _Found:
    """Clocks that are low for a reason that is a fault, on a GPU that works."""
    why = _SLOWING & set(gpu.reasons or ())
    if not why or not gpu.sm_mhz or not gpu.max_sm_mhz or (gpu.utilization or 0.0) < _BUSY:
        return None
    if gpu.sm_mhz > _CLOCK * gpu.max_sm_mhz:
        return None
    return 1 - gpu.sm_mhz / gpu.max_sm_mhz, "gpu_slowed", (
        f"GPU {gpu.index} {gpu.name}: {gpu.sm_mhz:.0f} of {gpu.max_sm_mhz:.0f} MHz, {', '.join(sorted(why))}"
        + (f", {gpu.temperature_c:.0f} °C" if gpu.temperature_c is not None else "")
    )  # fmt: skip


def _mean(looks: Sequence[Reading], value: Callable[[Reading], float | None]) -> float | None:
    known = [found for each in looks if (found := value(each)) is not None]
    return statistics.fmean(known) if len(known) >= _LEAST else None
