"""The limits that the kernel sets for this process: CPUs, memory, threads, files."""

from __future__ import annotations

import re

from tfgpu_doctor.collect.probe import Unavailable, probe
from tfgpu_doctor.collect.probes.control_groups import ControlGroups
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts.limits import UNLIMITED, Limits

_RESOURCES = {
    "Max address space": "as", "Max locked memory": "memlock", "Max open files": "nofile", "Max processes": "nproc",
}  # fmt: skip
_RESOURCE = re.compile(r"^(Max [a-z ]+?) {2,}(\d+|unlimited) ", re.MULTILINE)
_NO_LIMIT_BYTES = 1 << 62  # version 1 writes the largest possible number of pages, which depends on their size


@probe(waits_for="the limits of this process")
def limits(host: Host) -> Limits:
    """Read /proc/self and the control groups that it names. The processes that the doctor starts have the same."""
    status = host.files.text_if_any("/proc/self/status")
    resources = host.files.text_if_any("/proc/self/limits")
    if not status and not resources:
        raise Unavailable("/proc/self cannot be read: limits can only be read on Linux")
    groups = ControlGroups(host)
    quota, group = _cpu_quota(groups)
    periods = _counters(groups.read(group, "cpu.stat")) if group else {}
    allowed = re.search(r"^Cpus_allowed_list:\s*(\S+)", status, re.MULTILINE)
    return Limits(
        cgroup_version=groups.version("memory"),
        cpu_list=allowed.group(1) if allowed else "",
        cpu_quota=quota,
        cpu_quota_group=group,
        cpu_periods=periods.get("nr_periods"),
        cpu_throttled_periods=periods.get("nr_throttled"),
        device_rules=_device_rules(groups),
        resources=_resources(resources),
        **_memory(groups),
        **_tasks(groups),
    )


def _resources(text: str) -> dict[str, int]:
    """Soft limits of the table in /proc/self/limits."""
    rows = {name: value for name, value in _RESOURCE.findall(text) if name in _RESOURCES}
    return {_RESOURCES[name]: UNLIMITED if value == "unlimited" else int(value) for name, value in rows.items()}


def _device_rules(groups: ControlGroups) -> tuple[str, ...]:
    """The rules of version 1 only: version 2 uses programs instead, which cannot be read."""
    found = groups.readings("devices", "devices.list") if groups.version("devices") == 1 else []
    return tuple(found[0][1].splitlines()) if found else ()


def _cpu_quota(groups: ControlGroups) -> tuple[float | None, str]:
    """The CPU time quota in CPUs, and the folder that sets it."""
    found: list[tuple[float, str]] = []
    if groups.version("cpu") == 1:
        for folder, quota in groups.readings("cpu", "cpu.cfs_quota_us"):
            found += _share(quota, groups.read(folder, "cpu.cfs_period_us"), folder)
    else:
        for folder, text in groups.readings("cpu", "cpu.max"):
            quota, _, period = text.partition(" ")
            found += _share(quota, period, folder)
    return min(found, default=(None, ""))


def _share(quota: str, period: str, folder: str) -> list[tuple[float, str]]:
    """Both are microseconds; "max" and -1 mean that there is no quota."""
    if not quota.isdecimal() or not period.isdecimal() or int(period) == 0:
        return []
    return [(int(quota) / int(period), folder)]


def _memory(groups: ControlGroups) -> dict[str, int | None]:
    second = groups.version("memory") == 2
    maximum, current, inactive = (
        ("memory.max", "memory.current", "inactive_file")
        if second
        else ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    )
    limit, folder = _smallest(groups.readings("memory", maximum))
    if limit is None or limit >= _NO_LIMIT_BYTES:
        return {}
    used = groups.read(folder, current)
    idle = _counters(groups.read(folder, "memory.stat")).get(inactive, 0)  # files not in use: dropped when needed
    kills = _counters(groups.read(folder, "memory.events" if second else "memory.oom_control"))
    return {
        "memory_limit_bytes": limit,
        "memory_used_bytes": max(int(used) - idle, 0) if used.isdecimal() else None,
        "oom_kills": kills.get("oom_kill"),
    }


def _tasks(groups: ControlGroups) -> dict[str, int | None]:
    limit, folder = _smallest(groups.readings("pids", "pids.max"))
    if limit is None:
        return {}
    used = groups.read(folder, "pids.current")
    return {"tasks_limit": limit, "tasks_used": int(used) if used.isdecimal() else None}


def _smallest(readings: list[tuple[str, str]]) -> tuple[int | None, str]:
    """The smallest number, and its folder; "max" means no limit."""
    return min(((int(text), folder) for folder, text in readings if text.isdecimal()), default=(None, ""))


def _counters(text: str) -> dict[str, int]:
    """Parse lines `name number`."""
    rows = (line.partition(" ") for line in text.splitlines())
    return {name: int(value) for name, _, value in rows if value.strip().isdecimal()}
