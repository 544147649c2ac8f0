"""The fact of the limits that the kernel sets for this process."""

from __future__ import annotations

import re

from tfgpu_doctor.model.facts.attempt import Fact
from tfgpu_doctor.model.redaction import Count, FilePath, Number, Text

UNLIMITED = -1
_MOST_PROCESSORS = 1 << 16  # more than any machine has; prevents a damaged file from filling the memory
_NUMBER = re.compile(r"[0-9]{1,9}")


def numbers_in(listed: str) -> frozenset[int]:
    """The numbers of a list in the kernel's format: "0-3,8" is 0, 1, 2, 3 and 8. Other texts have no numbers."""
    numbers: set[int] = set()
    for part in listed.replace("\n", "").split(","):
        first, _, last = part.strip().partition("-")
        if (
            not _NUMBER.fullmatch(first)
            or not _NUMBER.fullmatch(last or first)
            or int(last or first) >= _MOST_PROCESSORS
        ):
            continue
        numbers.update(range(int(first), int(last or first) + 1))
    return frozenset(numbers)


class Limits(Fact, frozen=True):
    """The limits of this process, which its children share. None and empty: no limit, or no source for it.

    With nested control groups, the tightest limit counts.
    """

    cgroup_version: Count = 0  # 1 or 2, 0 if none can be read
    cpu_list: Text = ""  # the CPUs that it may run on, "0-3,8"
    cpu_quota: Number | None = None  # CPU time, in CPUs
    cpu_quota_group: FilePath = ""  # the folder that sets it
    cpu_periods: Count | None = None  # of that quota, in which the group ran at all
    cpu_throttled_periods: Count | None = None  # in which it was stopped because the quota was used up
    memory_limit_bytes: Count | None = None
    memory_used_bytes: Count | None = None  # of it, without what the kernel can drop at any time
    oom_kills: Count | None = None  # processes of its group that were killed for lack of memory
    tasks_limit: Count | None = None  # processes and threads
    tasks_used: Count | None = None
    device_rules: tuple[Text, ...] = ()  # of version 1: "c 195:* rwm"; version 2 does not show them
    resources: dict[
        Text, Count
    ] = {}  # soft limits by getrlimit's names: "as", "memlock", "nofile", "nproc"; or UNLIMITED

    @property
    def cpus(self) -> frozenset[int]:
        """The CPUs that it may run on; empty if unknown."""
        return numbers_in(self.cpu_list)

    def resource(self, name: str) -> int | None:
        """A soft limit of getrlimit's; None if there is none."""
        value = self.resources.get(name, UNLIMITED)
        return None if value == UNLIMITED else value
