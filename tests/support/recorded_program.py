"""A training that the doctor starts, records and ends, as `trace --record-with` does it for a user."""

from __future__ import annotations

import os
import pathlib
import shlex
import subprocess
import sys

_TOO_BUSY = 3.0  # processes that want to run, for each CPU


def is_too_busy() -> bool:
    """Whether this machine has so much other work that a recording may hold little else."""
    return os.getloadavg()[0] > _TOO_BUSY * (os.cpu_count() or 1)


def record_program(
    folder: pathlib.Path, arguments: str, *more: str, for_s: int = 3
) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments, and --seconds; `more` are options of `trace`, `for_s` the length of the profile."""
    program = f"{shlex.quote(sys.executable)} {arguments} --seconds 120"
    argv = [
        sys.executable,
        "-m",
        "tfgpu_doctor",
        "trace",
        "--record-with",
        program,
        "--after",
        "2",
        "--seconds",
        str(for_s),
        *more,
    ]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    return subprocess.run(argv, capture_output=True, text=True, env=environment, cwd=folder, timeout=500, check=False)
