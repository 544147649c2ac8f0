"""How busy others keep the processors meanwhile: what makes a result of today differ from one of yesterday."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

_IDLE = (3, 4)  # of /proc/stat's first line: idle, and waiting for a disk (proc(5))
_GUEST = 8  # from here on what is counted under `user` already
_GROUP, _TIMES = 2, slice(11, 15)  # of /proc/PID/stat behind the name: process group; user, system, and of children


@dataclass(frozen=True)
class Reading:
    """Seconds of processors since some moment: of all that runs, of this process group, and how many there were."""

    busy_s: float
    own_s: float
    all_s: float

    @classmethod
    def now(cls) -> Reading | None:
        """The counters; None where the system does not tell them."""
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
        """Which share of all processors' time others took, 0 to 1."""
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
                continue  # it ended
            if int(words[_GROUP]) == group:
                found.append(sum(int(word) for word in words[_TIMES]))
    return found
