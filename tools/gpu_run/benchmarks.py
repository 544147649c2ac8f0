"""Part 3: the perf suites, all of them, or as many as fit into the time."""

from __future__ import annotations

from typing import Any

from gpu_run.plan import BY_NAME
from gpu_run.workbench import NotRun, Workbench

_ENDING_S = 40.0  # of the budget: for the examination's end and the report
_LEAST_BUDGET_S = 30.0


def benchmarks(bench: Workbench) -> None:
    """Run bench, and find each comparison on the GPU without a measurement."""
    whole = bench.seconds >= BY_NAME["bench"].wished_s
    budget = "full" if whole else f"{max(_LEAST_BUDGET_S, bench.left_s - _ENDING_S):.0f}s"
    if not whole:
        bench.shortened.append(f"--budget full: there was time for --budget {budget}")
    document = bench.document(
        bench.doctor("bench", "bench", "--budget", budget, "--format", "json", *bench.busy_option)
    )
    if document is None:
        raise NotRun("the doctor gave no document")
    rows = [_row(each) for each in document["comparisons"]]
    bench.table("Comparisons", ("comparison", "verdict", "ratio", "interval", "device", "reason"), rows)
    bench.table("Metrics", ("metric", "value", "unit", "limit"), [_metric(each) for each in document["metrics"]])
    skipped = document["skipped"]
    tests = {why: ", ".join(name for name in skipped if skipped[name] == why) for why in skipped.values()}
    bench.table("Skipped", ("reason", "tests"), list(tests.items()))
    bench.table("Failed", ("test", "reason"), sorted(document["failed"].items()))
    _judge(bench, document)


def _row(each: dict[str, Any]) -> tuple[Any, ...]:
    ratio, interval = each.get("ratio"), each.get("interval")
    return (
        f"{each['suite']}/{each['name']}", each["verdict"], ratio and round(ratio, 3),
        " to ".join(f"{end:.3f}" for end in interval) if interval else "", each.get("device") or "", each.get("reason") or "",
    )  # fmt: skip


def _metric(each: dict[str, Any]) -> tuple[Any, ...]:
    return f"{each['suite']}/{each['name']}", round(each["value"], 4), each["unit"], each.get("limit") or ""


def _judge(bench: Workbench, document: dict[str, Any]) -> None:
    for each in document["comparisons"]:
        if each.get("on_gpu") and each["verdict"] in ("not run", "too noisy", "slower"):
            bench.found(f"{each['suite']}/{each['name']} on the GPU: {each['verdict']}: {each.get('reason')}")
    for test, why in document["failed"].items():
        bench.found(f"{test} failed: {why}")
    for cause in document["causes"]:
        bench.found(f"bench names {cause['label']} ({cause['id']}): {cause['title']}")
