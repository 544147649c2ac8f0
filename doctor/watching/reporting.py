"""The report at the end, from what was seen."""

from __future__ import annotations

import datetime as dt
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tfgpu_doctor._project import __version__
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.tracing import HIGH, Gain, Shares, StepTimes, TraceReport
from tfgpu_doctor.watching.captures import LONGEST_S
from tfgpu_doctor.watching.live_verdict import HANGS, SLOWS
from tfgpu_doctor.watching.reading import GpuReading, Reading
from tfgpu_doctor.watching.result import GpuSummary, Hang, HostSummary, TimelineEntry, WatchReport
from tfgpu_doctor.watching.watcher import Watcher
from tfgpu_doctor.watching.words import cleaned

_IDLE = 0.05  # utilisation


def make_watch_report(watcher: Watcher, *, exit_code: int | None, ended_by: str = "") -> WatchReport:
    """Put together what was seen; `ended_by` is the signal with which the doctor ended a program that hung."""
    history, seconds = watcher.history, watcher.seconds
    hang = _hang(watcher, seconds, ended_by)
    verdict = HANGS if hang else main_verdict(history.timeline, seconds)
    if verdict in history.reports:  # it was told before there were enough looks
        verdict = watcher.seldom_verdict or verdict
    if verdict == "starting" and exit_code is not None:
        verdict = "no_tensorflow"
    report = watcher.report_of(verdict)
    last = report or next(reversed(history.reports.values()), None)
    title, why, healthy = _words(watcher, verdict, hang, report)
    rules = [rule.result() for rule in watcher.rules]
    if watcher.broke_off:  # of the rest of the run nothing is known
        healthy = None if healthy else healthy
        why_not = "the doctor failed before the end of the run"
        rules = [rule if rule.broken else msgspec.structs.replace(rule, broken=None, why=why_not) for rule in rules]
    whole = WatchReport(
        doctor=__version__,
        command=watcher.options.command,
        started=dt.datetime.fromtimestamp(watcher.began_at, dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        seconds=round(seconds, 1),
        exit_code=exit_code,
        from_outside=watcher.options.from_outside,
        verdict=verdict, title=title, why=why, healthy=healthy,
        steps=last.steps if last else StepTimes(count=0, median_ms=0.0, mean_ms=0.0, found_by=""),
        shares=last.shares if last else Shares(**dict.fromkeys(Shares.__struct_fields__, 0.0)),
        causes=report.causes if report else (),
        gain=report.gain if report else Gain(),
        machine=watcher.machine.found(),
        timeline=tuple(history.timeline),
        gpus=tuple(_gpu(looks) for looks in history.gpus.values()),
        host=_host(history.readings),
        hang=hang,
        rules=tuple(rules),
        captures=watcher.captures.count,
        notes=tuple(_notes(watcher, why)),
        trace=last,
    )  # fmt: skip
    return cleaned(whole)


def main_verdict(timeline: Sequence[TimelineEntry], seconds: float) -> str:
    """The verdict that was right for most of the time; what says nothing counts only if nothing else was said.

    What of the machine slowed it for a short time alone is not the answer either: the report lists it.
    """
    times: dict[str, float] = defaultdict(float)
    ends = [*(turn.at_s for turn in timeline[1:]), seconds]
    for turn, end_s in zip(timeline, ends, strict=False):
        times[turn.verdict] += max(0.0, end_s - turn.at_s)
    states = {word for word, row in read_knowledge().watch_words.items() if row.kind == "state"}
    told = {
        verdict: time_s for verdict, time_s in times.items()
        if verdict not in states | {HANGS} and (verdict not in SLOWS or time_s >= HIGH * seconds)
    }  # fmt: skip
    if told:
        return max(told, key=lambda each: told[each])
    ended = "watching" if timeline and timeline[-1].verdict == HANGS else ""
    return ended or next((turn.verdict for turn in reversed(timeline) if turn.verdict in states), "watching")


def _hang(watcher: Watcher, seconds: float, ended_by: str) -> Hang | None:
    """The hang that stands at the end, or with which its process ended and no other trained since, with its whole time."""
    hangs = watcher.history.hangs
    until_s = seconds if watcher.hang else watcher.hang_ended_s
    if until_s is None or not hangs:
        return None
    return msgspec.structs.replace(hangs[-1], seconds=round(until_s - hangs[-1].at_s, 1), ended=ended_by)


def _words(
    watcher: Watcher, verdict: str, hang: Hang | None, report: TraceReport | None
) -> tuple[str, str, bool | None]:
    if hang:
        return hang.title, hang.evidence[0], False
    if report:
        return report.title, report.why, report.healthy
    row = read_knowledge().watch_words[verdict]
    why = "" if row.kind == "machine" else _why_unknown(watcher)
    return row.title, why, False if row.kind == "machine" else None


def _why_unknown(watcher: Watcher) -> str:
    if watcher.options.from_outside:
        return "the program was started without the recorder: TensorFlow's own times cannot be seen"
    if watcher.captures.too_long:
        return (
            f"no recording, of up to {LONGEST_S:.0f} s, holds a whole step: a step takes longer than that, or none is made; "
            "the program can profile three of its steps or more itself, for `tfgpu-doctor trace LOGDIR`"
        )
    if watcher.captures.count:
        step_s = watcher.captures.step_s
        told = f" (one takes about {step_s:.1f} s)" if step_s >= 1 else ""
        return f"the recordings hold too few whole steps{told} to judge: let the program run for longer"
    if watcher.captures.problem:
        return f"no recording could be read: {watcher.captures.problem}"
    if not watcher.with_tensorflow:
        return (
            "no process of the program has imported TensorFlow; python -S, -I and -E keep the recorder out, as does a "
            "program that clears PYTHONPATH"
        )
    return (
        "the program, or the block that was watched, ended before it was recorded; the first recording begins some seconds "
        "after the import of TensorFlow, or after the begin of the block"
    )


def _gpu(looks: Sequence[GpuReading]) -> GpuSummary:
    used = [each.utilization for each in looks if each.utilization is not None]
    reasons = Counter(word for each in looks for word in each.reasons or ())
    told = sum(each.reasons is not None for each in looks)
    tenants = Counter(f"{name or 'a process'} ({pid})" for each in looks for pid, name, _ in each.tenants)
    return GpuSummary(
        index=looks[-1].index, name=looks[-1].name, uuid=looks[-1].uuid,
        utilization=round(statistics.fmean(used), 4) if used else None,
        idle_share=round(sum(each < _IDLE for each in used) / len(used), 4) if used else None,
        peak_used_bytes=_most(looks, lambda each: each.used_bytes), total_bytes=looks[-1].total_bytes,
        power_w=_mean(looks, lambda each: each.power_w), temperature_c=_most(looks, lambda each: each.temperature_c),
        sm_mhz=_mean(looks, lambda each: each.sm_mhz), max_sm_mhz=looks[-1].max_sm_mhz,
        reasons={word: round(count / told, 3) for word, count in sorted(reasons.items())},
        tenants=tuple(name for name, _ in tenants.most_common(5)),
    )  # fmt: skip


def _host(looks: Sequence[Reading]) -> HostSummary | None:
    if not looks:
        return None
    return HostSummary(
        cpu=_mean(looks, lambda each: each.cpu) or 0.0, cpus=looks[-1].cpus,
        queued=_mean(looks, lambda each: each.queued), others_cpu=_mean(looks, lambda each: each.others_cpu),
        throttled=_mean(looks, lambda each: each.throttled), io_stalled=_mean(looks, lambda each: each.io_stalled),
        peak_memory_bytes=max(each.memory_bytes for each in looks),
    )  # fmt: skip


def _mean(looks: Sequence[Any], value: Callable[[Any], float | None]) -> float | None:
    known = [found for each in looks if (found := value(each)) is not None]
    return round(statistics.fmean(known), 3) if known else None


def _most(looks: Sequence[Any], value: Callable[[Any], Any]) -> Any:
    return max((found for each in looks if (found := value(each)) is not None), default=None)


def _notes(watcher: Watcher, why: str) -> list[str]:
    notes = list(watcher.history.notes)
    if trouble := watcher.gpus.trouble:
        missing = "libnvidia-ml.so.1 is not here" if "cannot open shared object file" in trouble else trouble
        notes.append(f"nothing is known of GPUs: {missing}")
    problem = watcher.captures.problem
    if problem and watcher.captures.count == 0 and problem not in why:
        notes.append(f"TensorFlow did not record: {problem}")
    return notes
