"""Part 6: how often the interval of a run holds the median of the ratios that the other runs found."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from typing import Any

from gpu_run.workbench import NotRun, Workbench

RUNS, _LEAST_RUNS, _ENDING_S = 10, 3, 5.0
_PROMISED = 0.95
Run = tuple[float, tuple[float, float]]  # the ratio and its interval


def calibration(bench: Workbench) -> None:
    """Repeat five comparisons, and count."""
    facts = str(bench.setting.record)
    done = bench.program("runs", "calibration_runs", facts, str(RUNS), f"{bench.left_s - _ENDING_S:.0f}")
    found: dict[str, list[Run]] = {}
    documents = [json.loads(line) for line in done.output.splitlines() if line.startswith("{")]
    for problem in dict.fromkeys(why for each in documents for why in each["problems"]):
        bench.found(f"a run of comparisons: {problem}")
    lines = [each["comparisons"] for each in documents if each["comparisons"]]
    for each in [each for comparisons in lines for each in comparisons]:
        found.setdefault(each["name"], [])
        if each["interval"]:
            found[each["name"]].append((each["ratio"], tuple(each["interval"])))
        else:
            bench.shortened.append(f"{each['name']}: {each['reason']}")
    if len(lines) < _LEAST_RUNS:
        raise NotRun(f"{len(lines)} runs in the time, {_LEAST_RUNS} are needed: {done.complaint}")
    if len(lines) < RUNS:
        bench.shortened.append(f"{RUNS} runs: there was time for {len(lines)}")
    _tell(bench, found)


def _tell(bench: Workbench, found: dict[str, list[Run]]) -> None:
    rows: list[tuple[Any, ...]] = []
    number = held = 0
    for name, runs in found.items():
        ratios = [ratio for ratio, _ in runs]
        if len(runs) < _LEAST_RUNS:
            rows.append((name, len(runs), "too few", "", "", ""))
            continue
        number, held = number + len(runs), held + covered(runs)
        ends = (f"{each:.3f}" for each in (min(ratios), statistics.median(ratios), max(ratios)))
        rows.append((name, len(runs), covered(runs), *ends))
    headers = ("comparison", "runs", "hold it", "least", "median", "most")
    bench.table("Intervals that hold the median of the other runs", headers, [*rows, ("all", number, held, "", "", "")])
    if number and held / number < _PROMISED - 0.1:
        bench.found(f"{held} of {number} intervals hold the median of the other runs, {_PROMISED:.0%} are promised")


def covered(runs: Sequence[Run]) -> int:
    """How many intervals hold the median of the others' ratios."""
    count = 0
    for place, (_, (low, high)) in enumerate(runs):
        others = statistics.median(ratio for number, (ratio, _) in enumerate(runs) if number != place)
        count += low <= others <= high
    return count
