"""The CUDA driver library: which copy the loader takes, the result of cuInit, and the GPUs."""

from __future__ import annotations

from tfgpu_doctor.collect.probe import Request, probe
from tfgpu_doctor.collect.probes.child import ask, understand
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts.nvidia import CudaDriver


@probe(waits_for="cuInit", starts_first=True)
def cuda_driver(host: Host, request: Request) -> CudaDriver:
    """Open libcuda in a child process of the target's interpreter, whose own RPATH may change which copy is found."""
    attempt, answer, _ = ask(
        host, request.python, "open_libcuda", deadline_s=min(15, request.deadline_s), options=("-I", "-S")
    )
    return understand(CudaDriver, attempt, answer)
