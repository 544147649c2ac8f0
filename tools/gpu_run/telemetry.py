"""Clocks, heat, power and memory of the GPUs while a part loads them."""

from __future__ import annotations

import contextlib
import csv
import os
import statistics
import sys
from collections.abc import Iterator

from gpu_run import children
from gpu_run.workbench import PROGRAMS, Workbench

_SHOWN = ("sm_mhz", "memory_mhz", "temperature_c", "power_w", "utilization_percent", "memory_used_mib")


@contextlib.contextmanager
def telemetry(bench: Workbench) -> Iterator[None]:
    """Sample during the block, into telemetry.csv; then keep a table of the least, the usual and the most."""
    path = bench.folder / "telemetry.csv"
    variables = {**os.environ, **{key: value for key, value in bench.setting.variables.items() if value is not None}}
    argv = [sys.executable, str(PROGRAMS / "telemetry.py")]
    with (
        open(path, "wb") as out,
        open(bench.folder / "telemetry.err", "wb") as err,
        children.started(argv, variables, out.fileno(), err.fileno(), bench.folder),
    ):
        yield
    with open(path, newline="") as file:
        rows = [row for row in csv.DictReader(file) if None not in row.values()]
    table = []
    for gpu in sorted({row["gpu"] for row in rows}):
        for name in _SHOWN:
            values = [float(row[name]) for row in rows if row["gpu"] == gpu and row[name]]
            if values:
                table.append((gpu, name, min(values), statistics.median(values), max(values), len(values)))
    if not table:
        bench.found("NVML gave no telemetry while the GPU was loaded")
    bench.table("Telemetry", ("GPU", "reading", "least", "median", "most", "samples"), table)
