"""Counters of a program's processes at two moments, and the rates between them."""

from __future__ import annotations

import msgspec

from tfgpu_doctor.watching.thread_states import HERTZ, ProcessStat

IO = (b"read_bytes", b"write_bytes", b"rchar")  # of /proc/PID/io


class ThreadLook(msgspec.Struct, frozen=True):
    """A thread: its file `schedstat` (empty if the kernel does not count), the wait for a CPU in it, and its state."""

    schedstat: bytes
    queued_ns: int
    state: str


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """The counters at one moment; each grows only, as long as its process runs."""

    at_s: float
    processes: dict[int, ProcessStat]
    io: dict[int, tuple[int, ...]]  # in the order of `IO`; of processes that let this user read it
    threads: dict[int, ThreadLook]
    busy_ticks: dict[int, int]  # of each CPU that is online
    allowed: frozenset[int]  # those of them that the program may run on; empty if unknown


def cpus_used(now: Look, before: Look, seconds: float) -> float:
    """CPUs that the program used, with those of processes which began or ended between the looks.

    The time of a process that ended goes to the parent that waits for it, and is lost if none does: what the living
    used is then closer. Both are lower bounds.
    """
    living = 0
    for pid, stat in now.processes.items():
        earlier = before.processes.get(pid)
        living += stat.own_ticks - (earlier.own_ticks if earlier and earlier.started == stat.started else 0)
    return max(living, _ticks(now) - _ticks(before), 0) / HERTZ / seconds


def others_cpus_used(now: Look, before: Look, seconds: float, own: float) -> float | None:
    """CPUs that other processes used, of those that the program may run on; None if these are unknown.

    A lower bound where a process of the program is bound to other CPUs than its main process.
    """
    both = [cpu for cpu in now.allowed if cpu in now.busy_ticks and cpu in before.busy_ticks]
    if not both:
        return None
    busy = sum(now.busy_ticks[cpu] - before.busy_ticks[cpu] for cpu in both)
    return max(0.0, busy / HERTZ / seconds - own)


def threads_queued(now: Look, before: Look, seconds: float) -> float | None:
    """How many threads waited for a CPU on average; None if the kernel does not count it."""
    if not any(thread.schedstat for thread in now.threads.values()):
        return None
    waited_ns = 0
    for tid, thread in now.threads.items():
        earlier = before.threads.get(tid)
        waited_ns += max(0, thread.queued_ns - (earlier.queued_ns if earlier else 0))
    return waited_ns / 1e9 / seconds


def bytes_per_s(now: Look, before: Look, seconds: float) -> list[float]:
    """In the order of `IO`; empty if unknown. The kernel adds what a process transferred to the parent that waits for it."""
    # A process whose file could not be read at the look before would count with all that it ever read.
    new = [row for pid, row in now.io.items() if pid in before.io or pid not in before.processes]
    old = list(before.io.values())
    if not new:
        return []
    return [
        max(0, sum(row[column] for row in new) - sum(row[column] for row in old)) / seconds for column in range(len(IO))
    ]


def faults_per_s(now: Look, before: Look, seconds: float) -> float:
    """Major page faults: a page had to be read from a disk."""
    new = sum(stat.faults for stat in now.processes.values())
    return max(0, new - sum(stat.faults for stat in before.processes.values())) / seconds


def _ticks(look: Look) -> int:
    return sum(stat.own_ticks + stat.children_ticks for stat in look.processes.values())
