"""Part 5: trainings whose bottleneck is known, recorded by trace, and watched while they run."""

from __future__ import annotations

import shlex
import statistics
import sys
from dataclasses import dataclass
from typing import Any

from gpu_run.packing import compress_profiles, profile_bytes
from gpu_run.workbench import PROGRAMS, TRAININGS, Workbench, document_of

_OURS = PROGRAMS / "trainings.py"
_TRACE_S, _TRACE_PATIENCE_S, _WATCH_S, _WATCH_EVERY_S = 20.0, 75.0, 24, 8
_HANGS_S = 22  # TensorFlow's start; and its end, where it may wait for as long as the training took:
_HANGS_AFTER_S = 12  # a quarter more, and the program is ended
_COST_S, _PAIRS = 12, 2
_OTHERS = "cpu_contention"


@dataclass(frozen=True)
class Training:
    """A program, and the verdicts that are right of it."""

    what: str
    name: str
    verdicts: tuple[str, ...]
    ours: bool = False
    traced_s: float = 2.0  # less where a second has thousands of steps, of which a profile of 100 MB is made

    def argv(self, seconds: int) -> list[str]:
        """The command."""
        return [sys.executable, str(_OURS if self.ours else TRAININGS), self.name, "--seconds", str(seconds)]


ALL = (
    Training("Python in the pipeline", "py_function", ("input_python",)),
    Training("serial map", "serial_map", ("input_serial_map",)),
    Training("slow file", "compressed_records", ("input_slow_source",)),
    Training("small batch", "tiny_steps", ("launch_bound",), traced_s=0.8),
    Training("float32", "float32", ("fp32", "compute_bound"), ours=True),
    Training("copies from the host", "copies", ("copies",), ours=True),
    Training("a wide bias", "wide_bias", ("slow_kernel",), ours=True),
    Training("a look at each loss", "sync_each_step", ("sync_each_step", "host_python"), ours=True),
    Training("no kernel for the GPU", "cpu_fallback", ("cpu_fallback",), ours=True),
    Training("eager", "run_eagerly", ("eager",), traced_s=1.0),
    Training("retracing", "retracing", ("retracing",)),
    Training("a loop in the graph", "long_calls", ("compute_bound",), ours=True),
    Training("healthy", "healthy", ("compute_bound",), ours=True),
)


def traces(bench: Workbench) -> None:
    """Record each with trace, and compare the verdict."""
    rows = [_traced(bench, each) for each in ALL if bench.enough(_TRACE_S, each.what)]
    compress_profiles(bench.folder)
    bench.table(
        "trace", ("training", "expected", "found", "", "steps", "median, ms", "seconds", "profile, MiB", "GPU"), rows
    )


def _traced(bench: Workbench, each: Training) -> tuple[Any, ...]:
    saved = bench.folder / f"profile-{each.name}"
    done = bench.doctor(
        f"trace-{each.name}", "trace", "--record-with", shlex.join(each.argv(120)), "--after", "3",
        "--seconds", str(each.traced_s), "--patience", "60", "--format", "json", "--save", str(saved), limit_s=_TRACE_PATIENCE_S,
    )  # fmt: skip
    mib = round(profile_bytes(saved) / (1 << 20), 1)
    document = document_of(done.output) or {"verdict": "none", "steps": {}}
    if document["verdict"] == "none":
        bench.found(f"{each.what}: trace gave no document: {done.complaint}")
    steps = document["steps"]
    gpu = "seen" if document.get("gpu") else "not seen"
    if not bench.setting.stand_in and gpu == "not seen" and each.verdicts != ("retracing",):
        bench.found(f"{each.what}: the profile holds nothing of the GPU")
    median = steps.get("median_ms")
    return (
        *_verdict(bench, "trace", each, document["verdict"]),
        steps.get("count"),
        median and round(median, 2),
        done.seconds,
        mib,
        gpu,
    )


def _verdict(bench: Workbench, command: str, each: Training, found: str) -> tuple[str, str, str, str]:
    right = found in each.verdicts
    if found == _OTHERS:
        bench.found(
            f"{each.what}: other work took the CPUs while it ran, so that {command} could not judge it: repeat it"
        )
        return each.what, " or ".join(each.verdicts), found, "other work"
    if not right and found != "none":
        bench.found(f"{each.what}: {command} says {found}, right is {' or '.join(each.verdicts)}")
    return each.what, " or ".join(each.verdicts), found, "right" if right else "WRONG"


def watches(bench: Workbench) -> None:
    """Watch each while it runs, then measure what watching costs."""
    rows = [_watched(bench, each) for each in ALL if bench.enough(_WATCH_S + 8, each.what)]
    bench.table("watch", ("training", "expected", "found", "", "first right after, s", "recordings", "seconds"), rows)
    if bench.enough(_PAIRS * 2 * (_COST_S + 8), "the cost"):
        _cost(bench)


def _watched(bench: Workbench, each: Training) -> tuple[Any, ...]:
    report, events = (bench.folder / f"{each.name}.{ending}" for ending in ("report.json", "events"))
    done = bench.doctor(
        f"watch-{each.name}", "watch", "--no-live", "--format", "json", "-o", str(report), "--events", str(events),
        "--every", str(_WATCH_EVERY_S), "--on-hang", "stop", "--hang-after", str(_HANGS_AFTER_S), "--",
        *each.argv(_WATCH_S), limit_s=_WATCH_S + _HANGS_S,
    )  # fmt: skip
    document = document_of(report.read_text("utf-8")) if report.exists() else None
    if document is None:
        bench.found(f"{each.what}: watch gave no report: {done.complaint}")
        document = {"verdict": "none", "timeline": []}
    said = [turn["verdict"] for turn in document["timeline"] if turn["verdict"] != "hang"]
    found = said[-1] if document["verdict"] == "hang" and said else document["verdict"]  # that of the training
    first = next((turn["at_s"] for turn in document["timeline"] if turn["verdict"] in each.verdicts), None)
    return (*_verdict(bench, "watch", each, found), first, document.get("captures"), done.seconds)


def _cost(bench: Workbench) -> None:
    """Interleaved pairs of the healthy training, alone and watched."""
    healthy, found = ALL[-1], {"alone": [], "watched": []}  # type: tuple[Training, dict[str, list[dict[str, float]]]]
    report = str(bench.folder / "cost.txt")
    for number in range(2 * _PAIRS):
        how = ("alone", "watched", "watched", "alone")[number % 4]
        around = ["watch", "--no-live", "--every", "5", "-o", report, "--"] if how == "watched" else []
        argv = [*(bench.setting.doctor if around else ()), *around, *healthy.argv(_COST_S)]
        document = document_of(bench.run(f"cost-{number}-{how}", argv, _COST_S + 50).output)
        if document:
            found[how].append(document)
    rows = []
    for key in ("median_ms", "mean_ms"):
        sides = [statistics.median(each[key] for each in found[how]) if found[how] else None for how in found]
        ratio = round(sides[1] / sides[0], 4) if sides[0] and sides[1] else None
        rows.append((key, *sides, ratio))
    bench.table("Cost of watch, healthy training", ("step", "alone", "watched", "ratio"), rows)
