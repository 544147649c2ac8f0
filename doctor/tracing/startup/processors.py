"""What the program gets of its CPUs while a profile is recorded, and what others take of them.

It may use the standard library alone, of any Python from 3.8 on.
"""

from __future__ import annotations

import os
import re
import time
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

_HERTZ = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_MOST_THREADS = 512  # each has a file to read
_MOST_GROUPS = 16
_MOST_BYTES = 1 << 20  # of /proc/stat: a line for each CPU, and a number for each interrupt
# user, nice, system, idle, waiting for a disk, hard and soft interrupts: https://man7.org/linux/man-pages/man5/proc_stat.5.html
_CPU_ROW = re.compile(rb"^cpu(\d{1,9})((?: +\d{1,18}){7})\b", re.MULTILINE)
# Behind the name in https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html: the program's own ticks, and those of children
# that have ended.
_OWN, _OF_CHILDREN = slice(11, 13), slice(13, 15)
_PERIODS = re.compile(rb"^nr_periods (\d{1,18})\nnr_throttled (\d{1,18})$", re.MULTILINE)


class _Counted(NamedTuple):
    at_s: float
    alone: bool  # the program has no child now
    own: int  # ticks
    ended: int  # ticks of children that have ended
    cpus: Dict[
        int, Tuple[int, int]
    ]  # of each that it may run on: the ticks of programs and the kernel, and those of interrupts
    queued_ns: Dict[int, int]  # by thread: how long it could run, and waited for a CPU
    periods: Dict[str, Tuple[int, int]]  # by control group: those of a quota, and those in which it was used up


def counted(proc: str = "/proc/self", machine: str = "/proc", groups: str = "/sys/fs/cgroup") -> Optional[_Counted]:
    """The counters now; None where they cannot be read. `proc` is the folder of the process in /proc, `machine` that of all."""
    try:
        words = _read(os.path.join(proc, "stat")).rpartition(b")")[2].split()
        if len(words) < _OF_CHILDREN.stop:
            return None
        at_s, rows = time.monotonic(), _read(os.path.join(machine, "stat"))
        own, ended = (sum(map(int, words[each])) for each in (_OWN, _OF_CHILDREN))
        cpus = _cpus(rows, os.sched_getaffinity(os.getpid()))
        return _Counted(at_s, not _has_child(), own, ended, cpus, _waits(proc), _quota_periods(proc, groups))
    except Exception:  # noqa: BLE001 - the program is another's; what an odd /proc holds is not known
        return None


def between(before: Optional[_Counted], now: Optional[_Counted]) -> Dict[str, Any]:
    """CPUs used on average by the program (`own`) and by `others`, of the `allowed` ones that it may run on.

    `interrupts`: CPUs that the kernel needed for them. `queued`: threads of the program that waited for a CPU, on average.
    `throttled`: the share of the periods in which a quota was used up. What is not known is left out: all of it where the program
    has other processes, since only its own can be told from those of others.
    """
    if before is None or now is None or not now.at_s > before.at_s:
        return {}
    seconds = now.at_s - before.at_s
    found: Dict[str, Any] = {}
    shares = _throttled(before, now)
    if shares:
        found["throttled"] = max(shares)
    alone = before.alone and now.alone and before.ended == now.ended
    if not alone or not now.cpus or before.cpus.keys() != now.cpus.keys() or not before.queued_ns or not now.queued_ns:
        return found
    own = (now.own - before.own) / _HERTZ / seconds
    busy, interrupts = (
        sum(now.cpus[cpu][place] - before.cpus[cpu][place] for cpu in now.cpus) / _HERTZ / seconds for place in (0, 1)
    )
    waited_ns = sum(max(0, each - before.queued_ns.get(thread, 0)) for thread, each in now.queued_ns.items())
    found.update(
        allowed=len(now.cpus),
        own=own,
        others=max(0.0, busy - own),
        interrupts=interrupts,
        queued=waited_ns / 1e9 / seconds,
    )
    return found


def _cpus(rows: bytes, allowed: Set[int]) -> Dict[int, Tuple[int, int]]:
    """By CPU; neither idle nor waiting for a disk, nor stolen by other virtual machines; `user` and `nice` include guests.

    Empty if one is not named: lxcfs gives the CPUs of a container new numbers.
    """
    found = {}
    for number, ticks in _CPU_ROW.findall(rows):
        user, nice, system, _, _, hard, soft = map(int, ticks.split())
        found[int(number)] = user + nice + system, hard + soft
    return {cpu: found[cpu] for cpu in allowed} if allowed <= found.keys() else {}


def _has_child() -> bool:
    """Whether any process that this one started is there, without waiting for it."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _waits(proc: str) -> Dict[int, int]:
    """By thread, in ns: https://docs.kernel.org/scheduler/sched-stats.html. Empty for many, or if none is counted."""
    threads = os.listdir(os.path.join(proc, "task"))
    found, ran = {}, False
    for thread in threads if len(threads) <= _MOST_THREADS else ():
        words = _read(os.path.join(proc, "task", thread, "schedstat")).split()
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
