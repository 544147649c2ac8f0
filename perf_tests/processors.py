"""The CPUs that this process may use."""

from __future__ import annotations

import os

from tfgpu_doctor.collect.probe import Unavailable
from tfgpu_doctor.collect.probes.limits import limits
from tfgpu_doctor.host import Host


def usable_processors() -> int:
    """Return the number of CPUs that this process may use, by its quota and its affinity."""
    allowed = len(os.sched_getaffinity(0))
    try:
        quota = limits.function(Host()).cpu_quota
    except Unavailable:
        quota = None
    return max(1, allowed if quota is None else min(allowed, int(quota)))
