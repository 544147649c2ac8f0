"""What the control group of a program says: its limits, and how much of the time they, or pressure, held it back.

Sources: https://docs.kernel.org/admin-guide/cgroup-v2.html, https://docs.kernel.org/scheduler/sched-bwc.html (version 1
of the CPU controller), https://docs.kernel.org/admin-guide/cgroup-v1/memory.html, https://docs.kernel.org/accounting/psi.html
"""

from __future__ import annotations

import msgspec

from tfgpu_doctor.collect.probes.control_groups import ControlGroups
from tfgpu_doctor.host import Host

_NO_LIMIT_BYTES = 1 << 62  # version 1 writes the largest possible number of pages instead of "max"
_ANY_OF_VERSION_2 = "pressure"  # no controller of version 1 has this name: its folders are those of version 2
_EVENTS = ("high", "max", "oom", "oom_kill")
_RESOURCES = ("cpu", "io", "memory")


class GroupLook(msgspec.Struct, frozen=True, kw_only=True):
    """One look at a control group and its parents; None where the kernel does not say."""

    quota_cpus: float | None = None  # the smallest of all of them
    throttled: float | None = None
    stalled: dict[str, float] = {}  # share of the time, by "cpu", "io", "memory"
    memory_limit_bytes: int | None = None
    memory_events: dict[str, int] = {}


class GroupSignals:
    """Looks repeatedly at the control group of a process, which the process may leave for another one.

    `throttled` is the share of the quota's periods (0.1 s by default) in which the group used its quota up, of those
    periods in which it ran at all; where several parents have quotas, the one that was used up most often counts.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._named = ""
        self._groups = ControlGroups(host)
        self._periods: dict[str, tuple[int, int]] = {}  # by folder: all, and those in which the quota was used up
        self._stalled_us: dict[str, int] = {}  # by file
        self._first_events: dict[str, dict[str, int]] = {}  # by folder

    def look(self, pid: int, seconds: float | None) -> GroupLook:
        """What changed in the `seconds` since the look before (None: this is the first). Never raises.

        After the process has ended, its last group is looked at.
        """
        named = self._host.files.text_if_any(f"/proc/{pid}/cgroup")
        if named and named != self._named:
            self._named, self._groups = named, ControlGroups(self._host, pid)
        if not self._named:
            return GroupLook(stalled=self._stalled(seconds))
        limit, events = self._memory()
        return GroupLook(
            quota_cpus=self._quota(),
            throttled=self._throttled(),
            stalled=self._stalled(seconds),
            memory_limit_bytes=limit,
            memory_events=events,
        )

    def _quota(self) -> float | None:
        found: list[float] = []
        for folder in self._groups.folders("cpu"):
            if self._groups.version("cpu") == 1:
                quota = self._groups.read(folder, "cpu.cfs_quota_us")
                period = self._groups.read(folder, "cpu.cfs_period_us") if quota.isdecimal() else ""  # -1: no quota
            else:
                quota, _, period = self._groups.read(folder, "cpu.max").partition(" ")
            if quota.isdecimal() and period.isdecimal() and int(period):
                found.append(int(quota) / int(period))
        return min(found, default=None)

    def _throttled(self) -> float | None:
        before, self._periods = self._periods, {}
        shares: list[float] = []
        for folder, text in self._groups.readings("cpu", "cpu.stat"):
            counters = _counters(text)
            if "nr_periods" not in counters:
                continue
            now = (counters["nr_periods"], counters.get("nr_throttled", 0))
            self._periods[folder] = now
            if folder in before:
                periods, throttled = (new - old for new, old in zip(now, before[folder], strict=True))
                shares.append(min(1.0, max(0.0, throttled / periods)) if periods > 0 else 0.0)
        return max(shares, default=None)

    def _stalled(self, seconds: float | None) -> dict[str, float]:
        """The time in which at least one task waited for a resource ("some"), as a share."""
        before, self._stalled_us = self._stalled_us, {}
        shares: dict[str, float] = {}
        for resource in _RESOURCES:
            path, total = self._pressure(resource)
            if total is None:
                continue
            self._stalled_us[path] = total
            if seconds and path in before:
                shares[resource] = min(1.0, max(0.0, (total - before[path]) / 1e6 / seconds))
        return shares

    def _pressure(self, resource: str) -> tuple[str, int | None]:
        """The counter (µs) of the program's own group, else of the machine, and the file that has it."""
        folders = self._groups.folders(_ANY_OF_VERSION_2) if self._named else []
        paths = [f"{folder}/{resource}.pressure" for folder in folders[:1]] + [f"/proc/pressure/{resource}"]
        for path in paths:
            for line in self._host.files.text_if_any(path).splitlines():
                total = line.rpartition("total=")[2]
                if line.startswith("some ") and total.isdecimal():
                    return path, int(total)
        return "", None

    def _memory(self) -> tuple[int | None, dict[str, int]]:
        """The smallest limit, and what happened to its group since the first look at it."""
        second = self._groups.version("memory") == 2
        limits = self._groups.readings("memory", "memory.max" if second else "memory.limit_in_bytes")
        known = [(int(text), folder) for folder, text in limits if text.isdecimal() and int(text) < _NO_LIMIT_BYTES]
        limit, folder = min(known, default=(None, (self._groups.folders("memory") or [""])[0]))
        if second:
            counters = _counters(self._groups.read(folder, "memory.events"))
        else:
            counters = _counters(self._groups.read(folder, "memory.oom_control"))
            counters.update(_counters("max " + self._groups.read(folder, "memory.failcnt")))
        events = {name: counters[name] for name in _EVENTS if name in counters}
        first = self._first_events.setdefault(folder, events)
        return limit, {name: max(0, count - first.get(name, 0)) for name, count in events.items()}


def _counters(text: str) -> dict[str, int]:
    """Parse lines `name number`."""
    rows = (line.partition(" ") for line in text.splitlines())
    return {name: int(value) for name, _, value in rows if value.strip().isdecimal()}
