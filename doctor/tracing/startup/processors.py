"""What the program gets of its CPUs while a profile is recorded, and what others take of them.

It may use the standard library alone, of any Python from 3.8 on.
"""

from __future__ import annotations

import os
import re
import time
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

_HERTZ = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_MOST_THREADS = 512  # of all processes together; each has files to read
_MOST_PROCESSES = 64
_MOST_GROUPS = 16
_MOST_BYTES = 1 << 20  # of /proc/stat: a line for each CPU, and a number for each interrupt
# user, nice, system, idle, waiting for a disk, hard and soft interrupts, stolen by other virtual machines:
# https://man7.org/linux/man-pages/man5/proc_stat.5.html
_CPU_ROW = re.compile(rb"^cpu(\d{1,9})((?: +\d{1,18}){8})\b", re.MULTILINE)
# Behind the name in https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html: the parent, the group, the process's own ticks,
# those of children that have ended, and when it began.
_PARENT, _GROUP, _OWN, _OF_CHILDREN, _BEGAN = 1, 2, slice(11, 13), slice(13, 15), 19
_PERIODS = re.compile(rb"^nr_periods (\d{1,18})\nnr_throttled (\d{1,18})$", re.MULTILINE)


class _Process(NamedTuple):
    pid: int  # as /proc counts
    began: int
    parent: int
    group: int
    own: int  # ticks
    ended: int  # ticks of children that have ended


class _Counted(NamedTuple):
    at_s: float
    processes: Dict[int, _Process]  # of the program; none where /proc does not list them
    # Of each CPU that it may run on: the ticks of programs and the kernel, those of interrupts, and stolen ones.
    cpus: Dict[int, Tuple[int, int, int]]
    queued_ns: Dict[int, int]  # by thread: how long it could run, and waited for a CPU
    periods: Dict[str, Tuple[int, int]]  # by control group: those of a quota, and those in which it was used up


def counted(proc: str = "/proc/self", machine: str = "/proc", groups: str = "/sys/fs/cgroup") -> Optional[_Counted]:
    """The counters now; None where they cannot be read. `proc` is the folder of the process in /proc, `machine` that of all."""
    try:
        rows, at_s = _read(os.path.join(machine, "stat")), time.monotonic()
        mine = _process(proc)
        if mine is None:
            return None
        processes = _of_program(mine, machine)
        cpus = _cpus(rows, os.sched_getaffinity(os.getpid()))
        waits = _waits(processes, machine) if processes else {}
        return _Counted(at_s, processes, cpus, waits, _quota_periods(proc, groups))
    except Exception:  # noqa: BLE001 - the program is another's; what an odd /proc holds is not known
        return None


def between(before: Optional[_Counted], now: Optional[_Counted]) -> Dict[str, Any]:
    """CPUs used on average by the program (`own`) and by `others`, of the `allowed` ones that it may run on.

    `interrupts`: CPUs that the kernel needed for them. `stolen`: CPUs that other virtual machines had meanwhile. `queued`:
    threads of the program that waited for a CPU, on average. `throttled`: the share of the periods in which a quota was used
    up. What is not known is left out.
    """
    if before is None or now is None or not now.at_s > before.at_s:
        return {}
    seconds = now.at_s - before.at_s
    found: Dict[str, Any] = {}
    shares = _throttled(before, now)
    if shares:
        found["throttled"] = max(shares)
    told = before.processes and now.processes and before.queued_ns and now.queued_ns
    if not told or not now.cpus or before.cpus.keys() != now.cpus.keys():
        return found
    own = _ticks_used(before, now) / _HERTZ / seconds
    busy, interrupts, stolen = (
        sum(now.cpus[cpu][place] - before.cpus[cpu][place] for cpu in now.cpus) / _HERTZ / seconds
        for place in (0, 1, 2)
    )
    waited_ns = sum(max(0, each - before.queued_ns.get(thread, 0)) for thread, each in now.queued_ns.items())
    found.update(
        allowed=len(now.cpus),
        own=own,
        others=max(0.0, busy - own),
        interrupts=interrupts,
        stolen=max(0.0, stolen),
        queued=waited_ns / 1e9 / seconds,
    )
    return found


def _ticks_used(before: _Counted, now: _Counted) -> int:
    """By the program, with its processes that began or ended meanwhile.

    The time of one that ended goes to the parent that waits for it, and is lost if none does: what the living used is then
    closer. Both are lower bounds.
    """
    living = 0
    for pid, each in now.processes.items():
        earlier = before.processes.get(pid)
        living += each.own - (earlier.own if earlier and earlier.began == each.began else 0)
    with_ended = [sum(each.own + each.ended for each in look.processes.values()) for look in (before, now)]
    return max(0, living, with_ended[1] - with_ended[0])


def _process(folder: str) -> Optional[_Process]:
    name, _, rest = _read(os.path.join(folder, "stat")).rpartition(b")")
    words = rest.split()
    if len(words) <= _BEGAN:
        return None
    own, ended = (sum(map(int, words[each])) for each in (_OWN, _OF_CHILDREN))
    began, parent, group = (int(words[each]) for each in (_BEGAN, _PARENT, _GROUP))
    return _Process(int(name.split()[0]), began, parent, group, own, ended)


def _of_program(mine: _Process, machine: str) -> Dict[int, _Process]:
    """The processes of the program: this one, those that started it, as far as they are of its group, and all below them.

    A group is what a shell, or the doctor, started by one command: other ranks on this machine, workers of tf.data's service.
    Nothing where they cannot be listed.
    """
    top = mine
    for _ in range(_MOST_PROCESSES):
        above = _process(os.path.join(machine, str(top.parent)))
        if above is None or above.group != mine.group:
            break
        top = above
    found: Dict[int, _Process] = {}
    left = [top.pid]
    while left:
        pid = left.pop()
        each = _process(os.path.join(machine, str(pid)))
        if each is None or pid in found:  # it has ended meanwhile
            continue
        found[pid] = each
        below = _children(os.path.join(machine, str(pid)))
        if below is None or len(found) > _MOST_PROCESSES:
            return {} if _has_child() else {mine.pid: mine}
        left += below
    return found if mine.pid in found else {}


def _children(folder: str) -> Optional[List[int]]:
    """Those of all threads of a process; None if the kernel does not tell (CONFIG_PROC_CHILDREN)."""
    files = [os.path.join(folder, "task", thread, "children") for thread in _threads(folder)]
    if files and not os.path.exists(files[0]):
        return None
    return [int(child) for file in files for child in _read(file).split()]


def _threads(folder: str) -> List[str]:
    try:
        return os.listdir(os.path.join(folder, "task"))
    except OSError:  # it has ended, or is another user's
        return []


def _cpus(rows: bytes, allowed: Set[int]) -> Dict[int, Tuple[int, int, int]]:
    """By CPU; neither idle nor waiting for a disk; `user` and `nice` include guests.

    Empty if one is not named: lxcfs gives the CPUs of a container new numbers.
    """
    found = {}
    for number, ticks in _CPU_ROW.findall(rows):
        user, nice, system, _, _, hard, soft, stolen = map(int, ticks.split())
        found[int(number)] = user + nice + system, hard + soft, stolen
    return {cpu: found[cpu] for cpu in allowed} if allowed <= found.keys() else {}


def _has_child() -> bool:
    """Whether any process that this one started is there, without waiting for it."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _waits(processes: Iterable[int], machine: str) -> Dict[int, int]:
    """By thread, in ns: https://docs.kernel.org/scheduler/sched-stats.html. Empty for many, or if none is counted."""
    found: Dict[int, int] = {}
    ran = False
    for folder in (os.path.join(machine, str(pid)) for pid in processes):
        threads = _threads(folder)
        if len(found) + len(threads) > _MOST_THREADS:
            return {}
        for thread in threads:
            words = _read(os.path.join(folder, "task", thread, "schedstat")).split()
            if len(words) == 3:
                found[int(thread)] = int(words[1])
                ran = ran or words[0] != b"0"
    return found if ran else {}


def _quota_periods(proc: str, groups: str) -> Dict[str, Tuple[int, int]]:
    """Of the program's control groups, version 1 or 2, up to the topmost; without a quota none counts periods."""
    found: Dict[str, Tuple[int, int]] = {}
    for line in _read(os.path.join(proc, "cgroup")).decode("utf-8", "replace").splitlines():
        controllers, _, path = line.partition(":")[2].partition(":")
        if controllers and "cpu" not in controllers.split(","):
            continue
        names = [controllers, "cpu", "cpu,cpuacct"] if controllers else [""]
        root = next((each for each in (os.path.join(groups, name) for name in names) if os.path.isdir(each)), groups)
        parts = [part for part in path.split("/") if part not in ("", "..")][:_MOST_GROUPS]
        for depth in range(len(parts) + 1):
            place = os.path.join(root, *parts[:depth], "cpu.stat")
            periods = _PERIODS.search(_read(place))
            if periods:
                found[place] = int(periods[1]), int(periods[2])
    return found


def _throttled(before: _Counted, now: _Counted) -> List[float]:
    """Of each group whose quota had periods in this time: the share in which it was used up."""
    shares = []
    for group, (periods, throttled) in now.periods.items():
        periods_before, throttled_before = before.periods.get(group, (periods, throttled))
        if periods > periods_before:
            shares.append(max(0, throttled - throttled_before) / (periods - periods_before))
    return shares


def _read(path: str) -> bytes:
    """What a small file holds; nothing if it is not there."""
    try:
        number = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        text = b""
        while len(text) < _MOST_BYTES:
            part = os.read(number, 1 << 16)
            if not part:
                break
            text += part
        return text
    except OSError:  # a thread that ended meanwhile
        return b""
    finally:
        os.close(number)
