"""What the processes do that hold a GPU's memory: compute, wait for requests, or nothing any more."""

from __future__ import annotations

import os
import re
import time

from tfgpu_doctor.collect.probe import probe
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts.gpu_holders import GpuHolder, GpuHolders, Waits
from tfgpu_doctor.model.facts.nvidia import Nvml

_WATCHED_S = 2.0
_MOST = 32
_LISTENING_TCP, _LISTENING_UNIX = "0A", "01"
_FIELDS_BEFORE = 11  # fields of /proc/PID/stat between its name, in parentheses, and the CPU time


@probe(waits_for="the processes on the GPU")
def gpu_holders(host: Host, nvml: Nvml) -> GpuHolders:
    """Read /proc of each process that computes on a GPU twice, two seconds apart; those of other users cannot be read."""
    # Without a user, the number is not the one of this /proc: the processes are those of other containers.
    rows = [each for gpu in nvml.gpus for each in gpu.processes if each.computes and each.user]
    ids = list(dict.fromkeys(each.pid for each in rows))[:_MOST]
    before = {pid: used for pid in ids if (used := _cpu_s(host, pid)) is not None}
    if not before:
        return GpuHolders()
    started = time.monotonic()
    time.sleep(_WATCHED_S)
    watched_s = round(time.monotonic() - started, 1)
    found = []
    for pid, used in before.items():
        after = _cpu_s(host, pid)
        if after is not None:
            row = GpuHolder(
                pid=pid,
                waits_for=_waits_for(host, pid),
                watched_s=watched_s,
                cpu_s=round(after - used, 2),
                listens=_listens(host, pid),
            )
            found.append(row)
    return GpuHolders(processes=tuple(found))


def _waits_for(host: Host, pid: int) -> Waits:
    """What the main thread waits for, by the kernel function that it is in: futex_do_wait, futex_wait_queue, ..."""
    function = host.files.text_if_any(f"/proc/{pid}/wchan").strip("\0\n ")
    if function in ("", "0"):
        return ""
    return "lock" if function.startswith("futex") else "other"


def _cpu_s(host: Host, pid: int) -> float | None:
    """The CPU time of all threads, seconds; None if it cannot be read."""
    fields = host.files.text_if_any(f"/proc/{pid}/stat").rpartition(")")[2].split()
    try:
        return (int(fields[_FIELDS_BEFORE]) + int(fields[_FIELDS_BEFORE + 1])) / os.sysconf("SC_CLK_TCK")
    except (IndexError, ValueError, OSError, AttributeError):
        return None


def _listens(host: Host, pid: int) -> bool | None:
    """Whether one of the process's sockets accepts connections; None if its files cannot be listed."""
    folder = f"/proc/{pid}/fd"
    try:
        targets = [_target(host, f"{folder}/{name}") for name in host.files.list_folder(folder)]
    except OSError:
        return None
    own = {found.group(1) for target in targets if (found := re.fullmatch(r"socket:\[(\d+)\]", target))}
    return bool(own & _listening(host, pid))


def _target(host: Host, path: str) -> str:
    try:
        return host.files.link_target(path)
    except OSError:
        return ""


def _listening(host: Host, pid: int) -> set[str]:
    """The numbers of the sockets of that network namespace that accept connections (proc(5))."""
    tcp = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in host.files.text_if_any(f"/proc/{pid}/net/{name}").splitlines()
    ]
    unix = [line.split() for line in host.files.text_if_any(f"/proc/{pid}/net/unix").splitlines()]
    found = {row[9] for row in tcp if len(row) > 9 and row[3] == _LISTENING_TCP}
    return found | {row[6] for row in unix if len(row) > 6 and row[5] == _LISTENING_UNIX and row[3] != "00000000"}
