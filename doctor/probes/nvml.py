"""What NVML says of the GPUs."""

from __future__ import annotations

import json
import sys

from tfgpu_doctor.facts import Nvml
from tfgpu_doctor.host import Host
from tfgpu_doctor.probe import Request, probe
from tfgpu_doctor.probes.child import ask, understand


@probe(waits_for="NVML, the library behind nvidia-smi")
def nvml(host: Host, request: Request) -> Nvml:
    """Ask nvidia-ml-py, in a child process with the doctor's own interpreter and search path."""
    attempt, answer, _ = ask(
        host,
        sys.executable,
        "open_nvml",
        [json.dumps(sys.path)],
        deadline_s=min(15, request.deadline_s),
        options=("-E", "-S"),
    )
    return understand(Nvml, attempt, answer)
