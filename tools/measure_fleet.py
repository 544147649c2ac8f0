"""Measure the speed of merging fleet reports against a plain Python loop over json.load with the same grouping.

    python tools/measure_fleet.py [--nodes 100,1000,10000] [--rounds 3] [--folder /tmp]

Reports are full reports generated from a recorded machine, with 30 measurements, planted slow nodes and planted drift.
Both methods alternate, each in a separate process; medians. CPU time is more reliable than wall time on a busy machine.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from typing import Any

from tabulate import tabulate

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/support"))
_PLANTED = 20


def plain(folder: str) -> int:
    """Compute causes, drift, and outliers by robust z in plain Python; return the number of reported nodes."""
    causes: dict[tuple[str, str], list[str]] = defaultdict(list)
    settings: dict[tuple[str, str], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    series: dict[tuple[str, str, str], list[tuple[float, str]]] = defaultdict(list)
    checks: dict[str, Counter[str]] = defaultdict(Counter)
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".json") or name == "expected.json":
            continue
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            node: dict[str, Any] = json.load(file)
        kind = node["settings"].get("GPU models", "")
        for cause in node["causes"]:
            causes[cause["label"], cause["title"]].append(node["node"])
        for setting, value in node["settings"].items():
            settings[kind, setting][value].append(node["node"])
        for each in node["measurements"]:
            series[each["name"], each["model"], each["better"]].append((each["value"], node["node"]))
        for check, outcome in node["checks"].items():
            checks[check][outcome] += 1
    odd = {node for values in settings.values() for node in _drifted(values)}
    odd |= {node for (_, _, better), values in series.items() for node in _slow(values, better)}
    return len(odd | {node for nodes in causes.values() for node in nodes})


def _drifted(values: dict[str, list[str]]) -> list[str]:
    usual = max(values, key=lambda value: len(values[value]))
    return [node for value, nodes in values.items() if value != usual for node in nodes]


def _slow(values: list[tuple[float, str]], better: str) -> list[str]:
    turn = 1 if better == "lower" else -1
    turned = [(turn * math.log(value), node) for value, node in values]
    middle = statistics.median(value for value, _ in turned)
    sigma = 1.4826 * statistics.median(abs(value - middle) for value, _ in turned)
    return [node for value, node in turned if value - middle > max(6 * sigma, 0.0513)]


def merged(folder: str) -> int:
    """Compute the same and more with `fleet report`."""
    from tfgpu_doctor.fleet.merge import merge

    found = merge(folder)
    return sum(len(nodes) for status, nodes in found.statuses.items() if status != "good")


def measure(way: str, folder: str) -> dict[str, float]:
    """Do one run in a separate process."""
    done = subprocess.run(
        [sys.executable, __file__, "--one", way, "--folder", folder], capture_output=True, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def one(way: str, folder: str) -> None:
    """Print the time of a run as JSON."""
    began, clock = time.process_time(), time.monotonic()
    found = {"plain": plain, "merge": merged}[way](folder)
    took = {
        "wall": time.monotonic() - clock,
        "cpu": time.process_time() - began,
        "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "found": found,
    }
    print(json.dumps(took))


def make(folder: pathlib.Path, count: int) -> None:
    """Write a fleet with slow nodes and drift."""
    from made_up_fleet import MadeUpFleet

    fleet = MadeUpFleet(count)
    names = list(fleet.nodes)
    for number in range(min(_PLANTED, count // 4)):
        fleet.slow(names[number * 4], number, by=0.12)
        fleet.set(names[number * 4 + 1], {"kernel": f"5.15.0-{number}"})
    fleet.write(folder)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", default="100,1000,10000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder")
    parser.add_argument("--one", choices=("plain", "merge"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(options.one, options.folder)
        return
    rows = []
    for count in map(int, options.nodes.split(",")):
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            make(pathlib.Path(folder), count)
            runs: dict[str, list[dict[str, float]]] = {"plain": [], "merge": []}
            for turn in range(options.rounds):
                for way in ("plain", "merge") if turn % 2 else ("merge", "plain"):
                    runs[way].append(measure(way, folder))
        rows.append(_row(count, runs))
    heads = (
        "nodes",
        "json.load CPU s",
        "wall s",
        "MB",
        "merge CPU s",
        "wall s",
        "MB",
        "times as fast, CPU",
        "wall",
        "found",
    )
    print(tabulate(rows, headers=heads, disable_numparse=True))


def _row(count: int, runs: dict[str, list[dict[str, float]]]) -> list[str]:
    middle = {way: {key: statistics.median(run[key] for run in each) for key in each[0]} for way, each in runs.items()}
    old, new = middle["plain"], middle["merge"]
    return [
        f"{count:,}", *(f"{old[key]:.2f}" if key != "mb" else f"{old[key]:.0f}" for key in ("cpu", "wall", "mb")),
        *(f"{new[key]:.2f}" if key != "mb" else f"{new[key]:.0f}" for key in ("cpu", "wall", "mb")),
        f"{old['cpu'] / new['cpu']:.1f}", f"{old['wall'] / new['wall']:.1f}", f"{new['found']:.0f}",
    ]  # fmt: skip


if __name__ == "__main__":
    main()
