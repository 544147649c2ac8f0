"""Part 4: the levels with a load."""

from __future__ import annotations

from typing import Any

from gpu_run.telemetry import telemetry
from gpu_run.workbench import NotRun, Workbench

_DEADLINE_S, _REPORT_S = 120.0, 10.0  # the doctor's own for deep; a slow start of TensorFlow needs more
_EXPECTED = ("LOD001", "LOD003", "LOD004", "LOD005", "LOD007")  # to be measured on any GPU that is loaded
_AROUND_S = 90.0  # what a soak needs beside its minutes


def deep(bench: Workbench) -> None:
    """`check --level deep`."""
    _level(bench, "deep", "--deadline", f"{max(_DEADLINE_S, bench.left_s - _REPORT_S):.0f}")


def soak(bench: Workbench) -> None:
    """`check --level soak` for up to five minutes."""
    minutes = min(5.0, max(1.0, (bench.left_s - _AROUND_S) / 60))
    if minutes < 5:
        bench.shortened.append(f"5 minutes: there was time for {minutes:.1f}")
    _level(bench, "soak", "--minutes", f"{minutes:.1f}")


def _level(bench: Workbench, level: str, *more: str) -> None:
    record = bench.folder / "facts.json"
    with telemetry(bench):
        done = bench.doctor(
            level, "check", "--level", level, *more, "--record", str(record), "--format", "json", *bench.busy_option
        )
    document = bench.document(done)
    if document is None:
        raise NotRun("the doctor gave no document")
    rows = []
    for each in document["results"]:
        if each["id"].startswith("LOD"):
            said = [finding["message"] for finding in each.get("findings", ())] or each.get("evidence", ())
            rows.append((each["id"], each["title"], each["outcome"], each.get("reason") or "; ".join(said)))
            _judge(bench, each)
    skipped = {each["id"]: each.get("reason") or "" for each in document["results"] if each["outcome"] == "skip"}
    for why in dict.fromkeys(skipped[name] for name in _EXPECTED if name in skipped):
        names = ", ".join(name for name in _EXPECTED if skipped.get(name) == why)
        bench.found(f"{names} not measured at level {level}: {why}")
    bench.table(f"Checks of --level {level}", ("check", "title", "outcome", "said"), rows)


def _judge(bench: Workbench, result: dict[str, Any]) -> None:
    """A check under load that did not pass is told; whether it had to be skipped, a human says."""
    if result["outcome"] in ("fail", "warn", "crash"):
        bench.found(f"{result['id']} {result['outcome']}: {result['title']}: " + "; ".join(
            finding["message"] for finding in result.get("findings", ())))  # fmt: skip
