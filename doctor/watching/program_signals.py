"""What a running program does to its machine, and the machine to it, from /proc, about once a second.

Sources: proc(5), proc_pid_stat(5), proc_pid_io(5): https://man7.org/linux/man-pages/man5/proc.5.html;
schedstat: https://docs.kernel.org/scheduler/sched-stats.html (the second column is the wait for a CPU, in ns).
"""

from __future__ import annotations

import mmap
import os
import re
import time
from collections.abc import Collection

import msgspec

from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts.limits import numbers_in
from tfgpu_doctor.watching.counters import (
    IO,
    Look,
    ThreadLook,
    bytes_per_s,
    cpus_used,
    faults_per_s,
    others_cpus_used,
    threads_queued,
)
from tfgpu_doctor.watching.group_signals import GroupSignals
from tfgpu_doctor.watching.reading import Reading
from tfgpu_doctor.watching.thread_states import ProcessStat, read_now, read_stat, read_state

_FORGET_AFTER_LOOKS = 30  # the number of a stranger that ended may by then be that of a new worker
_SHORTEST_S = 1e-3
_AT_ONCE_S, _TRIES = 0.05, 2
_MOST_BYTES = 1 << 20  # /proc/stat has a line for every CPU and a number for every interrupt
_ALLOWED = re.compile(rb"^Cpus_allowed_list:\s*(\S+)", re.MULTILINE)
_CPU_ROW = re.compile(rb"^cpu(\d{1,9})((?: +\d{1,20}){7})\b", re.MULTILINE)
_MEMORY = re.compile(rb"^MemTotal:\s*(\d+) kB", re.MULTILINE)


class ProgramSignals:
    """Looks at a program and all of its descendants; those that were seen once count on when their parent has ended.

    Processes that a daemon started for it (docker, srun) are no descendants, and do not count.
    """

    def __init__(self, host: Host, pid: int) -> None:
        self._host, self._pid = host, pid
        self._group = GroupSignals(host)
        self._before: Look | None = None
        self._was_seen = False
        self._members: dict[int, int] = {}  # number and start of each process
        self._alive: set[int] = set()
        self._strangers: set[int] = set()  # numbers of other processes, so that their files need not be read again
        self._looks = 0
        self._affinity: frozenset[int] = frozenset()
        whole = _MEMORY.search(read_now(host.files, "/proc/meminfo"))
        self._machine_memory_bytes = 1024 * int(whole[1]) if whole else None

    def pids(self) -> set[int]:
        """The numbers of the program's processes that ran at the last look."""
        return set(self._alive)

    def look(self) -> Reading | None:
        """What happened since the look before; None when the program and all its descendants are gone. Never raises.

        A program that /proc never showed (no /proc, or hidepid) has a reading without figures for as long as it exists.
        """
        for _ in range(_TRIES):
            at_s = time.monotonic()
            processes = self._find()
            busy_ticks = _busy_ticks(read_now(self._host.files, "/proc/stat", _MOST_BYTES))
            if time.monotonic() - at_s < _AT_ONCE_S:
                break  # otherwise the counters are of moments too far apart for a rate
        alive = {pid: stat for pid, stat in processes.items() if not stat.has_ended}
        self._alive = set(alive)
        self._was_seen = self._was_seen or bool(alive)
        if not alive and (self._was_seen or processes or not _exists(self._host, self._pid)):
            return None
        now = Look(
            at_s=at_s,
            processes=processes,
            io=self._io(processes),
            threads=self._threads(alive),
            busy_ticks=busy_ticks,
            allowed=self._allowed(busy_ticks),
        )
        before, self._before = self._before, now
        return self._reading(now, before, alive)

    def _find(self) -> dict[int, ProcessStat]:
        """The program and its descendants, also those that ended and were not waited for."""
        files = self._host.files
        fresh: dict[int, ProcessStat] = {}
        listed = {int(name) for name in files.names_if_any("/proc") if name.isdecimal()}
        self._looks += 1
        if self._looks % _FORGET_AFTER_LOOKS == 0:
            self._strangers.clear()
        for pid in listed - self._strangers:
            stat = read_stat(files, f"/proc/{pid}")
            if stat is not None:
                fresh[pid] = stat
        found = {pid: stat for pid, stat in fresh.items() if self._members.get(pid) == stat.started}
        if not self._was_seen and self._pid in fresh:
            found[self._pid] = fresh[self._pid]
        children: dict[int, list[int]] = {}
        for pid, stat in fresh.items():
            children.setdefault(stat.parent, []).append(pid)
        waiting = list(found)
        while waiting:
            for child in children.get(waiting.pop(), ()):
                if child not in found:
                    found[child] = fresh[child]
                    waiting.append(child)
        # The parent of a process that is too new to be listed may be the program's: it is looked at again.
        others = {pid for pid, stat in fresh.items() if pid not in found and (stat.parent in listed or not stat.parent)}
        self._strangers = (self._strangers & listed) | others - {self._pid}
        self._members = {pid: stat.started for pid, stat in found.items()}
        return found

    def _threads(self, alive: dict[int, ProcessStat]) -> dict[int, ThreadLook]:
        """Every thread. One that did not run since the look before is in the same state: its `stat` is not read again."""
        files = self._host.files
        found: dict[int, ThreadLook] = {}
        known = self._before.threads if self._before else {}
        for pid, process in alive.items():
            names = [str(pid)] if process.threads == 1 else files.names_if_any(f"/proc/{pid}/task")
            for tid in (int(name) for name in names if name.isdecimal()):
                place = f"/proc/{pid}/task/{tid}"
                schedstat = read_now(files, f"{place}/schedstat")
                words = schedstat.split()
                counts = len(words) > 1 and words[0] != b"0" and words[1].isdigit()  # all 0: the kernel does not count
                before = known.get(tid)
                if counts and before is not None and before.schedstat == schedstat:
                    found[tid] = before
                    continue
                state = process.state if process.threads == 1 else read_state(files, place)
                if state:
                    found[tid] = ThreadLook(schedstat if counts else b"", int(words[1]) if counts else 0, state)
        return found

    def _io(self, processes: dict[int, ProcessStat]) -> dict[int, tuple[int, ...]]:
        """`read_bytes`, `write_bytes` and `rchar` of each process that lets this user read them."""
        found: dict[int, tuple[int, ...]] = {}
        for pid in processes:
            lines = read_now(self._host.files, f"/proc/{pid}/io").splitlines()
            rows = {name: value.strip() for name, _, value in (line.partition(b":") for line in lines)}
            if all(rows.get(name, b"").isdigit() for name in IO):
                found[pid] = tuple(int(rows[name]) for name in IO)
        return found

    def _allowed(self, online: Collection[int]) -> frozenset[int]:
        """The CPUs of /proc/stat that the main process is bound to; none if unknown."""
        told = _ALLOWED.search(read_now(self._host.files, f"/proc/{self._pid}/status", _MOST_BYTES))
        self._affinity = numbers_in(told[1].decode("ascii", "replace")) if told else self._affinity
        found = self._affinity.intersection(online)
        # The list may name CPUs that the machine could have. If only a part fits, /proc/stat is that of a container (lxcfs),
        # which numbers its CPUs anew.
        return found if len(found) in (len(online), len(self._affinity)) else frozenset()

    def _reading(self, now: Look, before: Look | None, alive: dict[int, ProcessStat]) -> Reading:
        seconds = max(_SHORTEST_S, now.at_s - before.at_s) if before else None
        group = self._group.look(self._pid, seconds)
        allowed = len(now.allowed) or len(self._affinity) or None
        reading = Reading(
            at_s=now.at_s,
            processes=len(alive),
            threads=sum(stat.threads for stat in alive.values()),
            cpus=min((each for each in (allowed, group.quota_cpus) if each is not None), default=None),
            allowed_cpus=allowed,
            machine_cpus=len(now.busy_ticks) or None,
            throttled=group.throttled,
            cpu_stalled=group.stalled.get("cpu"),
            io_stalled=group.stalled.get("io"),
            memory_stalled=group.stalled.get("memory"),
            blocked=sum(thread.state == "D" for thread in now.threads.values()),
            memory_bytes=sum(stat.resident_pages for stat in alive.values()) * mmap.PAGESIZE,
            memory_limit_bytes=group.memory_limit_bytes,
            machine_memory_bytes=self._machine_memory_bytes,
            memory_events=group.memory_events,
        )
        return _with_rates(reading, now, before, seconds) if before and seconds and alive else reading


def _with_rates(reading: Reading, now: Look, before: Look, seconds: float) -> Reading:
    cpu = cpus_used(now, before, seconds)
    read, written, called = bytes_per_s(now, before, seconds) or (None, None, None)
    return msgspec.structs.replace(
        reading,
        cpu=cpu,
        queued=threads_queued(now, before, seconds),
        others_cpu=others_cpus_used(now, before, seconds, cpu),
        read_bytes_per_s=read,
        written_bytes_per_s=written,
        called_bytes_per_s=called,
        major_faults_per_s=faults_per_s(now, before, seconds),
    )


def _busy_ticks(text: bytes) -> dict[int, int]:
    """Busy ticks of each CPU that is online, from /proc/stat.

    Neither idle nor waiting for a disk, nor stolen by other virtual machines; `user` and `nice` include guests.
    """
    found: dict[int, int] = {}
    for number, ticks in _CPU_ROW.findall(text):
        user, nice, system, _idle, _waiting, hard, soft = map(int, ticks.split())
        found[int(number)] = user + nice + system + hard + soft
    return found


def _exists(host: Host, pid: int) -> bool:
    """Whether a process that /proc does not show may run; of a machine whose files lie elsewhere, nobody knows."""
    if host.files.root != "/" or os.name == "nt":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
