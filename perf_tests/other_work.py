"""The CPU time that other processes use during a measurement, which can explain differences between runs."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

_IDLE = (3, 4)  # of /proc/stat's first line: idle, and waiting for a disk (proc(5))
_GUEST = 8  # the fields from here on are already included in `user`
_GROUP, _TIMES = 2, slice(11, 15)  # of /proc/PID/stat after the name: process group; user, system, and of children


@dataclass(frozen=True)
class Reading:
    """CPU seconds since an arbitrary moment: used by all processes, used by this process group, and available."""

    busy_s: float
    own_s: float
    all_s: float

    @classmethod
    def now(cls) -> Reading | None:
        """Return the counters; None if the system does not provide them."""
        try:
            tick = 1 / os.sysconf("SC_CLK_TCK")
            with open("/proc/stat", "rb") as file:
                times = [int(word) for word in file.readline().split()[1 : 1 + _GUEST]]
            processors = os.sysconf("SC_NPROCESSORS_ONLN")
            own = sum(_ticks_of_group(os.getpgrp()))
        except (OSError, ValueError, IndexError):
            return None
        busy = sum(times) - sum(times[place] for place in _IDLE)
        return cls(busy * tick, own * tick, processors * time.monotonic())

    def others_since(self, before: Reading) -> float:
        """Return the share of the time of all CPUs that other processes used, 0 to 1."""
        passed = self.all_s - before.all_s
        others = (self.busy_s - before.busy_s) - (self.own_s - before.own_s)
        return min(1.0, max(0.0, others / passed)) if passed > 0 else 0.0


def _ticks_of_group(group: int) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    words = file.read().rpartition(b")")[2].split()
            except OSError:
                continue  # the process ended
            if int(words[_GROUP]) == group:
                found.append(sum(int(word) for word in words[_TIMES]))
    return found
