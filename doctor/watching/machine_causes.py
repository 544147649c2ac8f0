"""What outside of the program's code slows it: other processes, a quota, a disk, memory, a GPU that slows down."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.cpu_contention import all_are_busy, factor, others_take, share_without
from tfgpu_doctor.tracing import TraceReport
from tfgpu_doctor.watching.gpu_causes import Found, GpuCauses
from tfgpu_doctor.watching.memory_growth import GrowthWatch
from tfgpu_doctor.watching.reading import GpuReading, Reading
from tfgpu_doctor.watching.result import MachineCause

_LOOKS = 5  # seconds that are judged together
_LEAST = 4
_QUEUED = 0.25  # of the CPUs: what the program's threads wait for while others run
_THROTTLED = 0.25  # of the periods
_IO_STALLED = 0.3  # of the time
_MEMORY_STALLED = 0.1
_CPU_STALLED = 0.5  # of the time, where the kernel does not count how long threads wait for a CPU
_SWAPPING = 10.0  # major page faults a second that are worth a word
_HIGH = 0.2  # of the steps' time: from there on `trace` calls a wait a bottleneck
_NEED_CPUS = ("input_cpu_bound", "launch_bound", "unexplained")
_NEED_DISK = ("input_slow_source", "input_no_prefetch", "unexplained")
_NEED_GPU = ("fp32", "copies", "collectives", "sync_each_step", "launch_bound", "unexplained")
_ON_THE_GPU = ("gpu_slowed", "other_tenant")
_SLOWS_NOTHING = ("memory_growth",)  # until there is none left


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
    _gpus: GpuCauses = field(default_factory=GpuCauses)
    _growth: GrowthWatch = field(default_factory=GrowthWatch)
    _seen: dict[str, _Seen] = field(default_factory=dict)

    def add(self, reading: Reading, gpus: Sequence[GpuReading]) -> None:
        """Add a look at the program, and the newest look at each GPU."""
        passed_s = reading.at_s - self._looks[-1].at_s if self._looks else 0.0
        self._looks.append(reading)
        found: list[tuple[float, str, str]] = []
        if len(self._looks) >= _LEAST:
            found += [each for judge in _JUDGES if (each := judge(list(self._looks)))]
        found += self._gpus.judge(gpus)
        found += self._growth.judge(reading, gpus)
        found.sort(reverse=True)
        self.active = list(dict.fromkeys(label for _, label, _ in found))
        for label in self.active:
            self._seen.setdefault(label, _Seen()).seconds += passed_s
        for weight, label, words in found:
            seen = self._seen[label]
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
    if label in _SLOWS_NOTHING:
        return cause is None
    if label in _ON_THE_GPU:
        return cause is None or cause.label in _NEED_GPU
    if label == "disk_slow":
        return cause is None or cause.label in _NEED_DISK
    if cause is None or cause.label in _NEED_CPUS or label not in _FACTORS:
        return True
    return share_without(cause.share, _FACTORS[label](looks)) < _HIGH


def _contention_factor(looks: Sequence[Reading]) -> float:
    count = max(1, len(looks))
    queued, own = sum(each.queued or 0.0 for each in looks) / count, sum(each.cpu for each in looks) / count
    told = [each.others_cpu for each in looks if each.others_cpu is not None]
    return factor(own, queued, statistics.fmean(told) if told else None)


def _quota_factor(looks: Sequence[Reading]) -> float:
    told = [each.throttled for each in looks if each.throttled is not None]
    return 1 / max(0.1, 1 - (statistics.fmean(told) if told else 0.0))


_FACTORS = {"cpu_contention": _contention_factor, "cpu_quota": _quota_factor}


def slows(label: str) -> bool:
    """Whether a cause can be behind a slow step."""
    return label not in _SLOWS_NOTHING


def _contention(looks: list[Reading]) -> Found:
    """Threads wait for a CPU while others use it; a program that only starts too many threads waits for itself.

    So does one that has used up its quota: the kernel counts that in `queued` and `cpu_stalled`, too.
    """
    looks = [each for each in looks if not each.throttled]
    queued, others = _mean(looks, lambda each: each.queued), _mean(looks, lambda each: each.others_cpu)
    if others is None:
        return None
    whole = looks[-1].cpus or looks[-1].machine_cpus or 1.0
    own = statistics.fmean(each.cpu for each in looks)
    allowed = looks[-1].allowed_cpus or whole
    if not others_take(others, whole) or (whole < allowed and not all_are_busy(own + others, allowed)):
        return None  # with a quota below the CPUs that it may run on, these have to be short
    taken = f"{others:.1f}" + (f" of the {amount(allowed, 'CPU')} that it may run on" if whole < allowed else "")
    stalled = _mean(looks, lambda each: each.cpu_stalled)
    if queued is None:  # the kernel does not count how long threads wait
        if stalled is None or stalled < _CPU_STALLED:
            return None
        return min(stalled, others / whole), "cpu_contention", (
            f"for {stalled:.0%} of the time tasks wait for a CPU; the program gets {own:.1f} of {whole:g}, other processes "
            f"use {taken}"
        )  # fmt: skip
    if queued < _QUEUED * whole:
        return None
    waits = "" if stalled is None else f"; for {stalled:.0%} of the time some task waits for a CPU"
    return min(queued, others) / whole, "cpu_contention", (
        f"its threads wait for {queued:.1f} CPUs more than the {own:.1f} they get, of {whole:g}; other processes use "
        f"{taken}{waits}"
    )  # fmt: skip


def _quota(looks: list[Reading]) -> Found:
    share = _mean(looks, lambda each: each.throttled)
    if share is None or share < _THROTTLED:
        return None
    cpus = looks[-1].cpus
    allowed = f" of {amount(cpus, 'CPU')}" if cpus else ""
    return share, "cpu_quota", f"in {share:.0%} of the periods the group had used up its quota{allowed}"


def _disk(looks: list[Reading]) -> Found:
    stalled = _mean(looks, lambda each: each.io_stalled)
    blocked = statistics.fmean(each.blocked for each in looks)
    if stalled is None or stalled < _IO_STALLED or blocked < 0.5:
        return None
    return (
        stalled,
        "disk_slow",
        f"for {stalled:.0%} of the time tasks wait for storage, {blocked:.1f} of its threads{_rates(looks)}",
    )


def _rates(looks: list[Reading]) -> str:
    """What it reads from storage, of what it asks for (the rest was in memory), and writes."""
    read, called, written = (
        None if (rate := _mean(looks, value)) is None else rate / 1e6
        for value in (
            lambda each: each.read_bytes_per_s, lambda each: each.called_bytes_per_s, lambda each: each.written_bytes_per_s,
        )
    )  # fmt: skip
    if read is None:
        return ""
    asked = f" of the {called:.1f} that it asks for" if called is not None and called >= 2 * read else ""
    writes = f", writes {written:.1f} MB/s" if written is not None and written >= 0.1 else ""
    return f"; it reads {read:.1f} MB/s{asked}{writes}"


def _memory(looks: list[Reading]) -> Found:
    """Tasks wait for memory, or the kernel kills for it. That a group meets its limit is usual: the page cache fills it."""
    stalled = _mean(looks, lambda each: each.memory_stalled)
    killed = looks[-1].memory_events.get("oom_kill", 0) - looks[0].memory_events.get("oom_kill", 0)
    if killed <= 0 and (stalled is None or stalled < _MEMORY_STALLED):
        return None
    limit = looks[-1].memory_limit_bytes
    held = f"{looks[-1].memory_bytes / 2**30:.1f} GiB" + (f" of {limit / 2**30:.1f}" if limit else "")
    return max(stalled or 0.0, 1.0 if killed > 0 else 0.0), "memory_short", _memory_words(looks, stalled, killed, held)


def _memory_words(looks: list[Reading], stalled: float | None, killed: int, held: str) -> str:
    faults, met = _mean(looks, lambda each: each.major_faults_per_s), looks[-1].memory_events.get("max", 0)
    said = [
        f"the kernel killed {amount(killed, 'process')} of the group for memory" if killed > 0 else "",
        f"it met its limit {amount(met, 'time')}" if met else "",
        "" if stalled is None or stalled < _MEMORY_STALLED else f"for {stalled:.0%} of the time tasks wait for memory",
        f"{faults:.0f} pages a second are read back from a disk" if faults is not None and faults >= _SWAPPING else "",
        f"the program holds {held}",
    ]
    return "; ".join(each for each in said if each)


_JUDGES = (_contention, _quota, _disk, _memory)


def _mean(looks: Sequence[Reading], value: Callable[[Reading], float | None]) -> float | None:
    known = [found for each in looks if (found := value(each)) is not None]
    return statistics.fmean(known) if len(known) >= _LEAST else None
