"""Measure the speed of merging fleet reports against a plain Python loop over json.load with the same grouping.

    python tools/measure_fleet.py [--nodes 100,1000,10000] [--rounds 3] [--folder /tmp]
    python tools/measure_fleet.py --days 365 [--nodes 2000] [--seed N] [--store FOLDER]

The second form makes daily reports of nodes with 8 GPUs and 30 measurements each, puts each day into a store, and measures
that and `fleet history` on the whole store. Slow nodes and drifts are planted, with a seed that nobody chose unless one is
given; the table says how many were found, and what was found besides them. A store that exists is only queried: it has to be
of the same --days, --nodes and, if given, --seed, and filled to its end.

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
import secrets
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
_DRIFTS = 10  # of each kind
_SHARE = 0.12  # by which a planted line gets worse
_GPUS = 8


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


def planted_days(nodes: int, days: int, seed: int) -> tuple[Any, set[tuple[str, str, str]]]:
    """Return a fleet that gets 3 % slower as a whole on one day, and its lines that get worse on their own."""
    import numpy as np
    from fleet_days import FleetDays

    fleet = FleetDays(nodes, gpus=_GPUS, seed=seed, remembered=0.5, missing=0.002)
    chance = np.random.default_rng(seed + 1)
    ways: tuple[Any, ...] = (
        lambda day: _SHARE * day / days,  # all the time
        lambda day: _SHARE * max(0, day - days + 60) / 60,  # in the last two months
        lambda day: _SHARE * max(0, day - days + 25) / 25,  # in the last weeks
        lambda day: _SHARE * (day > days * 0.6),  # on one day
    )
    for place, way in enumerate(ways * _DRIFTS):
        fleet.drifts[place * nodes // (len(ways) * _DRIFTS), int(chance.integers(_GPUS)), int(chance.integers(30))] = (
            way
        )
    fleet.fleet = lambda day, _: 0.03 * (day > days // 2)
    return fleet, {(fleet.names[node], f"GPU:{gpu}", fleet.measured[each][0]) for node, gpu, each in fleet.drifts}


def fill(store_folder: str, nodes: int, days: int, seed: int) -> None:
    """Put the days into a store, write what is planted beside it, and print the time for one day."""
    from tfgpu_doctor.fleet.store import Store
    from tfgpu_doctor.fleet.store_weeks import roll
    from tfgpu_doctor.fleet.store_write import ingest

    fleet, planted = planted_days(nodes, days, seed)
    truth = truth_of(store_folder)
    truth.unlink(missing_ok=True)
    store, took = Store(store_folder, create=True), []
    for day in range(days):
        with tempfile.TemporaryDirectory() as folder:
            fleet.write(folder, day)
            began = time.process_time()
            ingest(folder, store)
            roll(store)
            took.append(time.process_time() - began)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    size = sum(path.stat().st_size for path in pathlib.Path(store_folder).rglob("*.parquet")) / 1e6
    whole = {"days": days, "nodes": nodes, "seed": seed, "planted": sorted(planted)}
    truth.write_text(json.dumps(whole))  # now that all days are in the store
    print(f"{days} days: {statistics.median(took):.1f} s CPU per day, {peak:.0f} MB of memory, {size:.0f} MB on disk")


def truth_of(store_folder: str) -> pathlib.Path:
    """The file beside a store that says what is planted; it is there once the store is filled."""
    return pathlib.Path(f"{store_folder}.planted.json")


def query(store_folder: str) -> None:
    """Print the time of `fleet history` on a store, and what it found of what is planted."""
    command = [sys.executable, "-m", "tfgpu_doctor", "fleet", "history", "--store", store_folder, "--format", "json"]
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wall, used = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    found = json.loads(done.stdout)
    slower = {(each["node"], each["device"], each["measurement"]) for each in found["slower"]}
    truth = json.loads(truth_of(store_folder).read_text())
    planted = {tuple(each) for each in truth["planted"]}
    print(
        f"history: {wall:.1f} s, {used.ru_utime + used.ru_stime:.1f} s CPU, {used.ru_maxrss / 1024:.0f} MB; "
        f"{len(slower & planted)} of {len(planted)} planted lines, {len(slower - planted)} others of {found['compared']:,}; "
        f"seed {truth['seed']}"
    )


def over_time(options: argparse.Namespace) -> None:
    """Make a store unless it exists, and query it; refuse one that is not whole, or of other numbers."""
    wanted = {"days": options.days, "nodes": int(options.nodes) if options.nodes.isdigit() else 2000}
    wanted |= {} if options.seed is None else {"seed": options.seed}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        store = options.store or f"{folder}/store"
        if not os.path.exists(store):
            seed = secrets.randbits(32) if options.seed is None else options.seed
            fill(store, wanted["nodes"], wanted["days"], seed)
        elif why := not_as_wanted(store, wanted):
            sys.exit(f"{store} {why}: remove it, or name another --store")
        query(store)


def not_as_wanted(store_folder: str, wanted: dict[str, int]) -> str:
    """Why a store cannot be queried in place of one with these numbers; empty if it can."""
    try:
        truth = json.loads(truth_of(store_folder).read_text())
    except FileNotFoundError:
        return f"was not filled to its end ({truth_of(store_folder).name} is not there)"
    other = [
        f"--{name} {truth.get(name)}, and not {value}" for name, value in wanted.items() if truth.get(name) != value
    ]
    return f"was made with {'; '.join(other)}" if other else ""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", default="100,1000,10000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder")
    parser.add_argument("--days", type=int)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--store", help="where the store is made; one that exists is only queried")
    parser.add_argument("--one", choices=("plain", "merge"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(options.one, options.folder)
        return
    if options.days:
        over_time(options)
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
