"""What a process started: its children and theirs, also those that left its session, and the memory that they use."""

from __future__ import annotations

import os

from tfgpu_doctor.host.janitor import descendants

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
# Of the words behind the name in /proc/PID/stat: https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
_FLAGS, _ENV_END = 6, 48
_PF_KTHREAD = 0x00200000  # linux/sched.h
_LEAST_BYTES = 8 << 30
_ALWAYS_ALLOWED_BYTES = 4 << 30


def children_of(pid: int) -> list[int]:
    """The children of a process, also those that it adopted."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:  # CONFIG_PROC_CHILDREN
                found += map(int, file.read().split())
    except OSError:
        return [each for each in descendants(pid) if parent_of(each) == pid]
    return found


def family_of(pid: int) -> list[int]:
    """A process, its children and theirs."""
    found = [pid]
    for each in found:  # grows meanwhile
        found += children_of(each)
    return found


def parent_of(pid: int) -> int:
    """The parent of a process; 0 if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except OSError:
        return 0


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or has ended and was not waited for."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    except OSError:
        return True


def carries(pid: int, mark: str, *, begins: bool = False) -> bool:
    """Whether a process began with this `NAME=value` in its environment, or with one that begins so."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            values = file.read().split(b"\0")
    except OSError:
        return False
    wanted = os.fsencode(mark)
    return any(value.startswith(wanted) for value in values) if begins else wanted in values


def is_starting(pid: int) -> bool:
    """Whether a process lives and has no environment: the kernel closes a program's files before it has set that up (execve)."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return not file.read(1) and not has_ended(pid)
    except OSError:
        return False


def is_between(pid: int) -> bool:
    """Whether a process is starting, or ends: the kernel does not know where its environment ends.

    It does of a program that was started with an empty one. A thread of the kernel never has any.
    """
    if not is_starting(pid):
        return False
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            words = file.read().rpartition(b")")[2].split()
    except OSError:
        return False
    is_kernels = int(words[_FLAGS]) & _PF_KTHREAD
    return not is_kernels and (len(words) <= _ENV_END or words[_ENV_END] == b"0")


def own_bytes(pid: int) -> int:
    """The memory that a process has for itself: what it shares with files, such as CUDA's libraries, does not count."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            resident, shared = map(int, file.read().split()[1:3])
    except (OSError, ValueError):
        return 0
    return (resident - shared) * _PAGE_BYTES


def largest_bytes(pid: int) -> int:
    """The memory of the largest process of a family; not their sum, because forked processes share theirs."""
    return max(map(own_bytes, family_of(pid)))


def most_bytes() -> int:
    """The memory that no healthy child needs: half of what is free, or 8 GiB, but not the last that the machine has.

    A limit of the control group is left to the kernel, which ends the largest process when it is reached.
    """
    free = _free_bytes()
    return max(_ALWAYS_ALLOWED_BYTES, min(max(_LEAST_BYTES, free // 2), free * 9 // 10))


def _free_bytes() -> int:
    """Memory that can be used without taking it from others, and swap space."""
    try:
        with open("/proc/meminfo", "rb") as file:
            rows = dict(line.split(b":", 1) for line in file.read().splitlines() if b":" in line)
        return sum(int(rows[name].split()[0]) << 10 for name in (b"MemAvailable", b"SwapFree"))
    except (OSError, KeyError, ValueError):
        return 2 * _LEAST_BYTES
