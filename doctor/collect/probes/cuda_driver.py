"""The CUDA driver library: which copy the loader takes, the result of cuInit, and the GPUs."""

from __future__ import annotations

from tfgpu_doctor.collect.first_response import limit_s
from tfgpu_doctor.collect.probe import Request, probe
from tfgpu_doctor.collect.probes.child import ask, understand
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts.nvidia import CudaDriver

_WARM_S = 15.0


@probe(waits_for="cuInit", starts_first=True, deadline_s=None)
def cuda_driver(host: Host, request: Request) -> CudaDriver:
    """Open libcuda in a child process of the target's interpreter, whose own RPATH may change which copy is found."""
    attempt, answer, _ = ask(
        host, request.python, "open_libcuda", deadline_s=limit_s(host, request, _WARM_S), options=("-I", "-S")
    )
    return understand(CudaDriver, attempt, answer)
