"""Reports on watched trainings that a test makes up."""

from __future__ import annotations

from typing import Any

import msgspec

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.tracing import Found, Gain, Shares, StepTimes, TraceCause, TraceFix, TraceReport, make_cause
from tfgpu_doctor.tracing.wording import filled
from tfgpu_doctor.watching.result import (
    GpuSummary,
    Hang,
    HostSummary,
    MachineCause,
    RuleResult,
    TimelineEntry,
    WatchReport,
)

HOSTILE = (
    "\n✗ forged\n\n# forged\r::error::forged\n\x1b[31mred\x1b]0;title\x07 <script>alert(1)</script><b>&amp; --> `code` ``` | "
    "[link](http://x) ![i](x) *a* _b_ ~~s~~ # @all ::set-output name=x::y %0A ##[error]no ##vso[task.x]y \u202eturned\u2066 "
    "'\"><img src=x onerror=alert(1)> {{ x }} {function} %s ${x} \x00 \ufffe \x85 \u2028\n- forged\n</details>\n```\n"
    "} 1\ntfgpu_watch_healthy 7\n\\ \udcff \u009b31m \x1b7\x1b[1;3r"
)
_NOTHING = Shares(compute=0.0, collectives=0.0, copies=0.0, compile=0.0, input=0.0, launch=0.0, host=0.0, idle=0.0)
_INPUT = msgspec.structs.replace(_NOTHING, input=0.89, compute=0.08, launch=0.03)


def watched(**fields: Any) -> WatchReport:
    """A report of which nothing is known, with these fields."""
    empty: dict[str, Any] = {
        "doctor": "0.1", "command": "python train.py", "started": "2026-11-23T10:00:00Z", "seconds": 723.0, "exit_code": 0,
        "from_outside": False, "verdict": "watching", "title": "Nothing is known of the steps of the training yet",
        "why": "", "healthy": None, "steps": StepTimes(count=0, median_ms=0.0, mean_ms=0.0, found_by=""),
        "shares": _NOTHING, "causes": (), "gain": Gain(), "machine": (), "timeline": (), "gpus": (), "host": None,
        "hang": None, "rules": (), "captures": 0, "notes": (),
    }  # fmt: skip
    return WatchReport(**{**empty, **fields})


def cause(label: str = "input_python", word: str = "load (train.py:31)", share: float = 0.89) -> TraceCause:
    """A bottleneck with the words of the doctor's table."""
    row = read_knowledge().trace_verdicts[label]
    return TraceCause(
        label=label, title=row.title, confidence="high", share=share,
        evidence=(
            "the steps wait 27.3 of 30.7 ms for input", f"97% of the looks found {word}",
        ),
        fix=TraceFix(text=filled(row.fix, {}), code=row.code),
    )  # fmt: skip


def steps(milliseconds: float = 29.9) -> StepTimes:
    """Some steps of that time."""
    return StepTimes(count=126, median_ms=milliseconds, mean_ms=milliseconds, found_by="markers")


def gpu(index: int = 0, **fields: Any) -> GpuSummary:
    """A GPU of which all is known."""
    known: dict[str, Any] = {
        "index": index, "name": "NVIDIA A100-SXM4-40GB", "uuid": f"GPU-{index}", "utilization": 0.34, "idle_share": 0.61,
        "peak_used_bytes": 12 << 30, "total_bytes": 40 << 30, "power_w": 212.0, "temperature_c": 61.0, "sm_mhz": 1200.0,
        "max_sm_mhz": 1410.0, "reasons": {"gpu_idle": 0.6, "sw_power_cap": 0.3}, "tenants": (),
    }  # fmt: skip
    return GpuSummary(**{**known, **fields})


def host(**fields: Any) -> HostSummary:
    """A program on two CPUs."""
    known: dict[str, Any] = {
        "cpu": 1.6, "cpus": 2.0, "queued": 0.4, "others_cpu": 0.9, "throttled": 0.0, "io_stalled": 0.02,
        "peak_memory_bytes": 3 << 30,
    }  # fmt: skip
    return HostSummary(**{**known, **fields})


def turn(at_s: float, verdict: str, *causes: str) -> TimelineEntry:
    """A moment of the timeline."""
    row = read_knowledge().trace_verdicts[verdict]
    return TimelineEntry(at_s=at_s, verdict=verdict, title=row.title, share=0.8, step_ms=29.9, causes=causes)


def healthy() -> WatchReport:
    """A training that computes all the time."""
    row = read_knowledge().trace_verdicts["compute_bound"]
    return watched(
        verdict=row.verdict, title=row.title, healthy=True, steps=steps(), captures=3,
        shares=msgspec.structs.replace(_NOTHING, compute=0.97, launch=0.03), timeline=(turn(2, "compute_bound"),),
        gpus=(gpu(utilization=0.98, idle_share=0.0, reasons={}),), host=host(others_cpu=0.1, queued=0.0),
    )  # fmt: skip


def contention(word: str = "stress-ng (4711)") -> MachineCause:
    """Other processes on the same CPUs."""
    return MachineCause(
        label="cpu_contention", title="Other processes take the CPUs that the training needs", seconds=250.0,
        evidence=(f"its threads wait for 0.8 CPUs; other processes use 0.9, most of it {word}",),
        fix="Give the job CPUs of its own (--cpus-per-task, a cpuset, a quieter node), or end what else runs here.",
    )  # fmt: skip


def input_bound(word: str = "load (train.py:31)") -> WatchReport:
    """A training that waits for its input, for a while because of other processes."""
    first = cause(word=word)
    return watched(
        verdict=first.label, title=first.title, healthy=False, steps=steps(), shares=_INPUT, captures=9, exit_code=-9,
        causes=(first, cause("host_python", share=0.12)), gain=Gain(step_ms_at_best=3.3), machine=(contention(word),),
        timeline=(
            turn(2, "compute_bound"), turn(120, "input_python", "cpu_contention"), turn(150, "input_python"),
            turn(400, "compute_bound"), turn(410, "input_python"),
        ),
        gpus=(gpu(tenants=(word,)),), host=host(), notes=("the program was recorded 9 times",),
    )  # fmt: skip


def hung(word: str = "load (train.py:31)") -> WatchReport:
    """The same, which then makes no step any more, and is ended."""
    hang = Hang(
        kind="input", title="The training waits for its input pipeline, which gives nothing more", at_s=500.0,
        seconds=223.0, evidence=(f"the function {word} has not returned for 223 s",),
        fix=f"Look at {word}: the function of the pipeline has not returned.", holds_gpu_bytes=12 << 30,
        holds_memory_bytes=3 << 30, ended="SIGTERM",
    )  # fmt: skip
    return msgspec.structs.replace(input_bound(word), hang=hang, exit_code=-15)


def from_outside() -> WatchReport:
    """A program of which nothing can be known."""
    row = read_knowledge().watch_words["outside"]
    return watched(
        verdict="outside", title=row.title, from_outside=True, exit_code=None, command="pid 4711",
        why="the program was not started with the recorder", gpus=(_unknown_gpu(),),
        rules=(RuleResult(rule="gpu_util < 20 % for 5 min", broken=None, why="no GPU says how much it is used"),),
    )  # fmt: skip


def _unknown_gpu() -> GpuSummary:
    return gpu(
        name="", uuid="", utilization=None, idle_share=None, peak_used_bytes=None, total_bytes=None, power_w=None,
        temperature_c=None, sm_mhz=None, max_sm_mhz=None, reasons={},
    )  # fmt: skip


def with_rules(word: str = "") -> WatchReport:
    """Rules that are broken, kept, and not known."""
    return msgspec.structs.replace(
        healthy(),
        rules=(
            RuleResult(rule=f"step_ms > 10 for 1 min{word}", broken=True, at_s=62.0, longest_s=660.0),
            RuleResult(rule="gpu_idle > 40 % for 5 min", broken=False, longest_s=30.0),
            RuleResult(rule="memory > 90 % for 1 min", broken=None, why=f"the control group has no limit{word}"),
        ),
    )  # fmt: skip


def eight_gpus(word: str = "python (4711)") -> WatchReport:
    """A machine with eight GPUs, of which one is shared."""
    gpus = tuple(gpu(index, tenants=(word,) if index == 3 else ()) for index in range(8))
    return msgspec.structs.replace(input_bound(), gpus=gpus)


def hostile(word: str = HOSTILE) -> WatchReport:
    """A hang, rules and GPUs with a word in all places that are not the doctor's own."""
    report = hung(word)
    return msgspec.structs.replace(
        report, command=word, title=f"The steps wait{word}", why=word, notes=(word, "x"), rules=with_rules(word).rules,
        gpus=(gpu(name=word, uuid=word, tenants=(word,), reasons={word: 0.5, "sw_power_cap": 0.5}),), started=word,
        timeline=(*report.timeline, TimelineEntry(at_s=450.0, verdict=f"a{word}", title=word, causes=(word,))),
    )  # fmt: skip


def traced(report: WatchReport, pipeline: tuple[Any, ...] = ()) -> TraceReport:
    """The last recording of a report."""
    return TraceReport(
        doctor="0.1", recorded="", file="", verdict=report.verdict, title=report.title, why=report.why,
        healthy=report.healthy, steps=report.steps, shares=report.shares, causes=report.causes, gain=report.gain,
        pipeline=pipeline, operations=(), gpu=None, memory=(), notes=(), events=10,
    )  # fmt: skip


REPORTS = {
    "healthy": healthy, "input_bound": input_bound, "hung": hung, "from_outside": from_outside, "with_rules": with_rules,
    "eight_gpus": eight_gpus, "hostile": hostile,
}  # fmt: skip


def recording(*causes: Found, healthy: bool | None) -> TraceReport:
    """What `trace` says of 20 steps of 10 ms: healthy, or these causes."""
    shares = Shares(compute=0.5, collectives=0, copies=0, compile=0, input=0.25, launch=0.15, host=0.1, idle=0)
    return TraceReport(
        doctor="1", recorded="", file="train.py", verdict=causes[0].label if causes else "compute_bound", title="t", why="",
        healthy=healthy, steps=StepTimes(count=20, median_ms=9.0, mean_ms=10.0, found_by="calls"), shares=shares,
        causes=tuple(map(make_cause, causes)), gain=Gain(step_ms_at_best=7.5), pipeline=(), operations=(), gpu=None, memory=(),
        notes=(), events=9,
    )  # fmt: skip
