"""Measure the doctor's time against TensorFlow's own import: ratios of medians from one run, all commands interleaved.

    python tools/measure_speed.py [--rounds 7] [--peer "cuda-doctor"]

Run it with a Python that has both TensorFlow and tfgpu-doctor. `--peer` adds another command to compare with.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
import subprocess
import sys
import sysconfig
import time

from tabulate import tabulate

TENSORFLOW = "import tensorflow as tf; tf.config.list_physical_devices('GPU')"


def seconds(argv: list[str]) -> float:
    """Return the wall time of one run; its output is discarded."""
    started = time.perf_counter()
    subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return time.perf_counter() - started


def measure(sides: dict[str, list[str]], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of every round of each command, after one warm-up round; the order reverses every round."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for place in range(rounds + 1):
        for name in list(sides) if place % 2 else list(reversed(sides)):
            spent = seconds(sides[name])
            if place:
                times[name].append(spent)
    return times


def main() -> None:
    """Measure, and print medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--peer", help="another command to compare --quick with")
    options = parser.parse_args()

    doctor = f"{sysconfig.get_path('scripts')}/tfgpu-doctor"
    sides = {"tensorflow": [sys.executable, "-c", TENSORFLOW], "quick": [doctor, "--quick"], "full": [doctor]}
    if options.peer:
        sides["peer"] = shlex.split(options.peer)
    times = measure(sides, options.rounds)
    median = {name: statistics.median(spent) for name, spent in times.items()}
    rows = [(name, min(spent), median[name], max(spent)) for name, spent in times.items()]
    print(tabulate(rows, headers=("command", "min s", "median s", "max s"), floatfmt=".3f"), end="\n\n")
    ratios = [("quick / tensorflow", "quick", "tensorflow", 0.1), ("full / tensorflow", "full", "tensorflow", 1.3)]
    ratios += [("quick / peer", "quick", "peer", 1.3)] if options.peer else []
    table = [(name, median[over] / median[under], limit) for name, over, under, limit in ratios]
    print(tabulate(table, headers=("ratio of medians", "is", "should be at most"), floatfmt=".3f"))


if __name__ == "__main__":
    main()
