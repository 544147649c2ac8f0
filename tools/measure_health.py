"""Measure the time to read the health of eight GPUs beyond NVML's own start, on the simulated driver, interleaved.

    python tools/measure_health.py [--rounds 15]

NVML's own start is a process that imports nvidia-ml-py, initialises it, counts the GPUs and ends.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

from tabulate import tabulate

import tfgpu_doctor.collect.workers
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.rehearse.build import build_driver
from tfgpu_doctor.rehearse.machine import machine_for
from tfgpu_doctor.rehearse.props import lay_out

_START = (
    "import json, os, sys; sys.path[:] = json.loads(sys.argv[1]); import pynvml; pynvml.nvmlInit(); "
    "pynvml.nvmlDeviceGetCount(); os._exit(0)"
)
_LIMIT_S = 0.3
_LINK = {"remote": "switch"}
_GPU: dict[str, Any] = {
    "ecc": {},
    "remapped_rows": {},
    "nvlinks": [_LINK] * 18,
    "fabric": {},
    "mig_mode": False,
    "recovery_action": "none",
}


def seconds(argv: list[str], variables: dict[str, str]) -> float:
    """Return the wall time of one process of this interpreter."""
    started = time.perf_counter()
    command = [sys.executable, "-E", "-S", *argv]
    subprocess.run(command, env={**os.environ, **variables}, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def main() -> None:
    """Measure, and print medians and their difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()

    program = str(pathlib.Path(tfgpu_doctor.collect.workers.__file__).parent / "open_nvml.py")
    path = json.dumps(sys.path)
    sides = {"NVML's own start": ["-c", _START, path], "eight GPUs": [program, path, "8", "16"]}
    times: dict[str, list[float]] = {name: [] for name in sides}
    with tempfile.TemporaryDirectory() as folder:
        variables = lay_out(folder, machine_for("H100", read_knowledge(), count=8, **_GPU), build_driver())
        for turn in range(options.rounds + 1):
            for name, argv in sides.items() if turn % 2 else reversed(sides.items()):
                spent = seconds(argv, variables)
                if turn:  # the first round is a warm-up
                    times[name].append(spent)
    rows = [(name, min(spent), statistics.median(spent), max(spent)) for name, spent in times.items()]
    print(tabulate(rows, headers=("process", "min s", "median s", "max s"), floatfmt=".3f"), end="\n\n")
    start, whole = (statistics.median(spent) for spent in times.values())
    print(f"beyond NVML's own start: {whole - start:.3f} s; it should be at most {_LIMIT_S} s")


if __name__ == "__main__":
    main()
