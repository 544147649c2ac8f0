"""Whether this process belongs to a job across nodes."""

from __future__ import annotations

from tfgpu_doctor.fleet import TfConfigError, derive
from tfgpu_doctor.host import Host


def in_job_across_nodes() -> bool:
    """Return whether a launcher, or TF_CONFIG, names workers on more than one host."""
    try:
        config = derive(Host().environment)
    except TfConfigError:
        return False
    hosts = {address.rpartition(":")[0] or address for _, address in config.members} if config else set()
    return len(hosts) > 1
