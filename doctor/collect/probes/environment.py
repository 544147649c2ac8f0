"""The environment variables that matter, by allow-list."""

from __future__ import annotations

from tfgpu_doctor.collect.probe import probe
from tfgpu_doctor.host import Host
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model.facts.machine import Environment

_LONGEST = 4096


@probe(waits_for="the environment")
def environment(host: Host) -> Environment:
    """Read only variables that the knowledge names: any other variable may be a secret."""
    allowed = read_knowledge().variables
    return Environment(
        variables={name: value[:_LONGEST] for name, value in sorted(host.environment.items()) if name in allowed}
    )
