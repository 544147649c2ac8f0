"""Words that every format of a watched training shares: times, sizes, the one verdict, GPUs, rules, how the program ended."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from tfgpu_doctor.host.signal_names import name_of, number_in
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.tracing import NAMES, TraceCause, TraceReport
from tfgpu_doctor.watching.result import GpuSummary, Hang, HostSummary, MachineCause, RuleResult, WatchReport
from tfgpu_doctor.watching.units import clean_texts, clock, duration, megahertz, of, percent, size

HANG = "hang"  # the verdict of a program that makes no step any more
_LEAST = 0.005  # shares below it are not worth a line
_LEAST_CPUS = 0.05
_APART = 2.0  # times the median: then the mean says more, as in the page of `trace`
# What NVML calls a low clock that somebody may want to change; an idle GPU and a clock that its owner set are none.
_REASONS = {
    "sw_power_cap": "power limit", "hw_slowdown": "hardware slowdown", "sw_thermal_slowdown": "heat",
    "hw_thermal_slowdown": "heat", "hw_power_brake_slowdown": "power brake", "sync_boost": "sync boost",
}  # fmt: skip


@dataclass(frozen=True)
class Headline:
    """The one verdict: that of the hang if there is one, else that of the training."""

    verdict: str
    title: str
    healthy: bool | None
    line: str  # the word, its share and how sure it is
    evidence: tuple[str, ...]
    fix: str = ""
    code: str = ""
    before: str = ""  # what the training did before it hung


def headline(report: WatchReport) -> Headline:
    """Choose the verdict that the report begins with."""
    if report.hang:
        return _of_hang(report, report.hang)
    word, title, healthy = report.verdict, report.title, report.healthy
    if cause := first_cause(report):
        line = f"{word}, {percent(cause.share)} of the steps' time, confidence {cause.confidence}"
        return Headline(word, title, healthy, line, cause.evidence, fix=cause.fix.text, code=cause.fix.code)
    if outside := next((each for each in report.machine if each.label == word), None):
        line = f"{word}, {duration(outside.seconds)} of the run"
        return Headline(word, title, healthy, line, outside.evidence, fix=outside.fix)
    fix, code = _next_step(word) if healthy is None else ("", "")
    return Headline(word, title, healthy, word, (report.why,) if report.why else (), fix=fix, code=code)


def _next_step(word: str) -> tuple[str, str]:
    """What to do where nobody knows."""
    if row := read_knowledge().trace_verdicts.get(word):
        return row.fix, row.code
    state = read_knowledge().watch_words.get(word)
    return (state.fix if state else ""), ""


def machine_beside(report: WatchReport) -> list[MachineCause]:
    """What slowed the program from outside, without what the verdict says already."""
    return [each for each in report.machine if report.hang or each.label != report.verdict]


def _of_hang(report: WatchReport, hang: Hang) -> Headline:
    held = [
        f"{size(count)} of {what}"
        for count, what in ((hang.holds_gpu_bytes, "GPU memory"), (hang.holds_memory_bytes, "memory"))
        if count
    ]
    evidence = [*hang.evidence, *([f"it holds {' and '.join(held)} meanwhile"] if held else [])]
    evidence += [f"the doctor ended it with {hang.ended}"] if hang.ended else []
    line = f"{HANG} ({hang.kind}): no step for {duration(hang.seconds)}, since {clock(hang.at_s)} of the run"
    return Headline(HANG, hang.title, False, line, tuple(evidence), fix=hang.fix, before=_before(report, hang))


def _before(report: WatchReport, hang: Hang) -> str:
    """What was said of the training before it hung; empty if nothing was known of its steps."""
    if report.verdict not in (HANG, hang.kind):
        return report.title
    told = read_knowledge().watch_words
    turns = [turn for turn in report.timeline if turn.at_s <= hang.at_s and turn.verdict != HANG]
    known = [turn.title for turn in turns if turn.verdict not in told or told[turn.verdict].kind == "machine"]
    return known[-1] if known else ""


def notes(report: WatchReport) -> list[str]:
    """The notes that are not said as evidence already."""
    return [note for note in report.notes if note not in headline(report).evidence]


def first_cause(report: WatchReport | TraceReport) -> TraceCause | None:
    """The cause that the verdict names; None for a healthy training, and where nobody knows."""
    return next((cause for cause in report.causes if cause.label == report.verdict), None)


def other_causes(report: WatchReport) -> str:
    """What else takes a tenth of the steps' time or more."""
    return "; ".join(f"{each.label} ({percent(each.share)})" for each in report.causes if each.label != report.verdict)


def shares(report: WatchReport) -> list[tuple[str, str, float]]:
    """The parts of a step that are worth a line: key, name, share; the largest first."""
    found = [(part, name, getattr(report.shares, part)) for part, name in NAMES.items()]
    return sorted((each for each in found if each[2] >= _LEAST), key=lambda each: -each[2])


def at_best(report: WatchReport) -> str:
    """What removing the first cause would bring at most; empty if there is nothing to remove."""
    best = report.gain.step_ms_at_best
    if best is None or report.hang:
        return ""
    return f"steps would take {best:.1f} ms in place of {report.steps.mean_ms:.1f}"


def subject(report: WatchReport) -> str:
    """How long the program was watched, how it ended, and its steps."""
    steps = "steps not measured"
    if report.steps.count:
        uneven = report.steps.mean_ms > _APART * report.steps.median_ms
        mean, median = f"{report.steps.mean_ms:.1f} ms (mean", f"{report.steps.median_ms:.1f} ms"
        steps = f"steps of {mean}; median {median})" if uneven else f"steps of {median} (median)"
    captures = {0: "no recording", 1: "one recording"}.get(report.captures, f"{report.captures} recordings")
    return f"watched for {duration(report.seconds)}, {captures}; {ended(report)}; {steps}"


def ended(report: WatchReport) -> str:
    """How the program ended, in words."""
    code = report.exit_code
    if code is None:
        return "watched from outside, its exit code is not known" if report.from_outside else "it runs on"
    if code < 0:
        return f"signal {-code}{_named(code)} ended it"
    return f"it ended with exit code {code}{_named(code)}"


def _named(code: int) -> str:
    name = name_of(number_in(code))
    return f" ({name})" if name else ""


def machine_line(cause: MachineCause) -> str:
    """Something outside of the program, and for how long it slowed it."""
    return f"{cause.title} ({duration(cause.seconds)} of the run)"


def gpu_name(gpu: GpuSummary) -> str:
    """`GPU 0 A100-SXM4-40GB`."""
    return f"GPU {gpu.index} {gpu.name.removeprefix('NVIDIA ')}".rstrip()


def gpu_line(gpu: GpuSummary) -> str:
    """What is known of a GPU over the run; its clock only where something lowered it."""
    slowed = slowdowns(gpu)
    parts = [
        f"util {percent(gpu.utilization)}" if gpu.utilization is not None else "",
        f"idle {percent(gpu.idle_share)}" if gpu.idle_share is not None else "",
        f"peak {of(gpu.peak_used_bytes, gpu.total_bytes)}" if gpu.peak_used_bytes is not None else "",
        f"{gpu.power_w:.0f} W" if gpu.power_w is not None else "",
        f"{gpu.temperature_c:.0f} °C" if gpu.temperature_c is not None else "",
        megahertz(gpu.sm_mhz, gpu.max_sm_mhz) if slowed else "",
        f"slowed by {slowed}" if slowed else "",
        f"shared with {', '.join(gpu.tenants)}" if gpu.tenants else "",
    ]
    return ", ".join(part for part in parts if part) or "nothing could be measured"


def slowdowns(gpu: GpuSummary) -> str:
    """Why clocks were low, with the share of the time."""
    found = [(name, share) for name, share in gpu.reasons.items() if name in _REASONS and share >= _LEAST]
    return ", ".join(f"{_REASONS[name]} ({percent(share)})" for name, share in sorted(found, key=lambda pair: -pair[1]))


def slowdown_names(reasons: tuple[str, ...] | None) -> str:
    """Why clocks are low at this moment; empty if they are not, or nobody knows."""
    return ", ".join(dict.fromkeys(_REASONS[name] for name in reasons or () if name in _REASONS))


def host_line(host: HostSummary) -> str:
    """The program on its machine: CPUs, what it waited for, memory."""
    queued, others, throttled, stalled = (
        each or 0.0 for each in (host.queued, host.others_cpu, host.throttled, host.io_stalled)
    )
    parts = [
        f"{host.cpu:.1f} of {host.cpus:g} used" if host.cpus is not None else f"{host.cpu:.1f} used",
        f"threads wait for {queued:.1f} more" if queued >= _LEAST_CPUS else "",
        f"others use {others:.1f}" if others >= _LEAST_CPUS else "",
        f"held by the quota {percent(throttled)} of the time" if throttled >= _LEAST else "",
        f"stalled by storage {percent(stalled)} of the time" if stalled >= _LEAST else "",
        f"memory up to {size(host.peak_memory_bytes)}" if host.peak_memory_bytes else "",
    ]
    return ", ".join(part for part in parts if part)


def rule_line(rule: RuleResult) -> str:
    """Whether a rule was kept."""
    if rule.broken is None:
        return f"{rule.rule}: not known{': ' + rule.why if rule.why else ''}"
    at = f" at {clock(rule.at_s)}" if rule.broken and rule.at_s is not None else ""
    held = f"; it held for up to {duration(rule.longest_s)} at a stretch" if rule.longest_s else ""
    return f"{rule.rule}: {'broken' if rule.broken else 'not broken'}{at}{held}{f' ({rule.why})' if rule.why else ''}"


def cleaned(report: WatchReport) -> WatchReport:
    """The report with all its texts on one line and cleaned, lines of code apart, which are the doctor's own."""
    return msgspec.convert(clean_texts(msgspec.to_builtins(report)), WatchReport)
