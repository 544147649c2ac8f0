"""The target's interpreter and its packages."""

from __future__ import annotations

import msgspec

from tfgpu_doctor.collect.probe import Request, probe
from tfgpu_doctor.collect.probes.child import NO_CUDA_BYTES, ask, understand
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts.python import Target


@probe(waits_for="the target's Python", starts_first=True, deadline_s=None)
def target(host: Host, request: Request) -> Target:
    """Query the target's own interpreter, in which no part of the doctor needs to be installed."""
    # A network file system may be slow. TensorFlow has as long, but --quick is to end earlier.
    deadline_s = request.deadline_s / 2 if request.quick else request.deadline_s
    attempt, answer, _ = ask(host, request.python, "describe_target", deadline_s=deadline_s, memory_bytes=NO_CUDA_BYTES)
    fact = understand(Target, attempt, answer)
    return fact if fact.executable else msgspec.structs.replace(fact, executable=request.python)
