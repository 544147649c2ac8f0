"""Five comparisons on the GPU, run again and again: `calibration_runs.py FACTS RUNS SECONDS`; a line of JSON for each run."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time

from tfgpu_doctor.bench.run import Order, run_suites
from tfgpu_doctor.model.facts.bench import Comparison
from tfgpu_doctor.perf_tests.budget import passes_for
from tfgpu_doctor.perf_tests.variables import FACTS_VARIABLE

FIVE = (
    ("device_placement", "gpu[matmul]"),
    ("graph_execution", "function"),
    ("graph_execution", "xla"),
    ("mixed_precision", "speed[dense-bfloat16]"),
    ("inference", "batching"),
)
_BUDGET_S = 120.0  # as `bench` without --budget measures: three processes, half a second each


def run(facts: str) -> dict[str, object] | None:
    """One run: each comparison with its ratio and interval, and what went wrong. None if it was interrupted."""
    small = ("-p", "small_sizes") if "RECORD_GPU_SMALL" in os.environ else ()
    with tempfile.TemporaryDirectory() as folder:
        order = Order(
            journal=os.path.join(folder, "journal"), passes=passes_for(_BUDGET_S), variables={FACTS_VARIABLE: facts},
            comparisons=[Comparison(suite=suite, name=name, verdict="not run") for suite, name in FIVE],
            pytest_options=small,
        )  # fmt: skip
        bench = run_suites(order)
    if bench.interrupted:
        return None
    rows = [
        {
            "name": each.key,
            "ratio": each.ratio,
            "interval": each.interval,
            "verdict": each.verdict,
            "reason": each.reason,
        }
        for each in bench.comparisons
    ]
    return {"comparisons": rows, "problems": [*bench.problems, *bench.failed.values(), *bench.skipped.values()]}


def main() -> None:
    """Repeat while there is time for one more."""
    facts, runs, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    began, longest = time.monotonic(), 0.0
    for _ in range(runs):
        started = time.monotonic()
        if started - began + 1.1 * longest > seconds:
            break
        if (found := run(facts)) is None:
            break
        print(json.dumps(found), flush=True)
        longest = max(longest, time.monotonic() - started)


if __name__ == "__main__":
    main()
