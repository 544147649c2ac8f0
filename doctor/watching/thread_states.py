"""What each thread of a process does at this moment: for a program that makes no progress.

Sources: proc(5), proc_pid_stat(5), proc_pid_syscall(5): https://man7.org/linux/man-pages/man5/proc.5.html
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable

import msgspec

from tfgpu_doctor.host import Files, Host

HERTZ = 100  # clock ticks per second in /proc (USER_HZ): 100 on x86_64 and aarch64, whatever the kernel's own clock
_MOST_BYTES = 4 << 10  # of a file about one thread
# Numbers of system calls. x86_64: https://git.kernel.org/torvalds/c/v6.12/arch/x86/entry/syscalls/syscall_64.tbl
# aarch64: https://git.kernel.org/torvalds/c/v6.12/include/uapi/asm-generic/unistd.h (it has no poll, epoll_wait, select)
SYSCALLS = {
    "x86_64": {
        0: "read", 1: "write", 7: "poll", 16: "ioctl", 17: "pread64", 23: "select", 35: "nanosleep", 45: "recvfrom",
        47: "recvmsg", 61: "wait4", 73: "flock", 74: "fsync", 202: "futex", 219: "restart_syscall",
        230: "clock_nanosleep", 232: "epoll_wait", 257: "openat", 270: "pselect6", 271: "ppoll", 281: "epoll_pwait",
    },
    "aarch64": {
        22: "epoll_pwait", 29: "ioctl", 32: "flock", 56: "openat", 63: "read", 64: "write", 67: "pread64",
        72: "pselect6", 73: "ppoll", 82: "fsync", 98: "futex", 101: "nanosleep", 115: "clock_nanosleep",
        128: "restart_syscall", 207: "recvfrom", 212: "recvmsg", 260: "wait4",
    },
}  # fmt: skip
# TensorFlow puts tf_ before a pool's name, and the kernel cuts it at 15 characters: "Device_Event_Manager", "GPU_Event_Manager".
# https://github.com/tensorflow/tensorflow/blob/v2.16.1/tensorflow/core/common_runtime/device/device_event_mgr.cc,
# https://github.com/NVIDIA/nccl/blob/v2.21.5-1/src/proxy.cc ("NCCL Progress%2d", "NCCL Service %2d")
_POLLS = re.compile(r"(tf_)?(Device|GPU)_Event|NCCL (Progress|Service)")
_ON_A_FILE = {"read", "write", "pread64", "recvfrom", "recvmsg", "ioctl", "flock", "fsync"}  # the first argument


class ProcessStat(msgspec.Struct, frozen=True, kw_only=True):
    """The file `stat` of a process or thread, as far as it is needed. Times in ticks of 1/100 s."""

    name: str
    state: str  # R, S, D (waits for a disk or a driver), T, t, Z, X, I
    parent: int
    faults: int  # major page faults, with those of the children that were waited for
    own_ticks: int  # CPU time; of a process: of all its threads, also of those that ended
    children_ticks: int  # of the children that ended and were waited for
    threads: int
    started: int  # ticks since the machine booted: with the number, it identifies a process
    resident_pages: int

    @property
    def has_ended(self) -> bool:
        """Whether only its exit code remains; threads may outlive the first one, which is then a zombie."""
        return self.state in "ZX" and self.threads <= 1


class ThreadState(msgspec.Struct, frozen=True, kw_only=True):
    """One thread of a process; empty texts where the kernel does not say (other user, hidepid, ptrace_scope)."""

    tid: int
    name: str = ""
    state: str = ""
    wchan: str = ""  # the kernel's function in which it waits
    syscall: str = ""  # "read", "syscall 12", "running"; "none" if it is blocked outside of any call
    file: str = ""  # that it reads, locks or controls: a path, "socket:[1]", "pipe:[1]"
    cpu_s: float = 0.0  # used since its start


def thread_states(host: Host, pid: int) -> list[ThreadState]:
    """The threads of a process, by number; none if it has ended or /proc hides it."""
    files = host.files
    found: list[ThreadState] = []
    for tid in sorted(int(name) for name in files.names_if_any(f"/proc/{pid}/task") if name.isdecimal()):
        place = f"/proc/{pid}/task/{tid}"
        stat = read_stat(files, place)
        if stat is None:
            continue  # it ended just now
        wchan = files.text_if_any(f"{place}/wchan").strip()
        syscall, file = _call(files, pid, files.text_if_any(f"{place}/syscall").split())
        found.append(
            ThreadState(
                tid=tid,
                name=stat.name,
                state=stat.state,
                wchan="" if wchan == "0" else wchan,  # it does not wait, or this user may not know where
                syscall=syscall,
                file=file,
                cpu_s=stat.own_ticks / HERTZ,
            )
        )
    return found


def polling_threads(files: Files, pid: int) -> list[int]:
    """The threads of a process that poll a GPU or a network all the time, and use a CPU also while nothing goes on."""
    found = (int(name) for name in files.names_if_any(f"/proc/{pid}/task") if name.isdecimal())
    return [tid for tid in found if _POLLS.match(files.text_if_any(f"/proc/{pid}/task/{tid}/comm"))]


def wanted_cpu_s(files: Files, pid: int, tids: Iterable[int]) -> float:
    """The time in which these threads have run, or waited for a CPU, since their start; 0 where the kernel does not count."""
    rows = (read_now(files, f"/proc/{pid}/task/{tid}/schedstat").split() for tid in tids)
    return (
        sum(int(row[0]) + int(row[1]) for row in rows if len(row) > 1 and row[0].isdigit() and row[1].isdigit()) / 1e9
    )


def main_progress(host: Host, pid: int) -> tuple[float, int] | None:
    """CPU time (s) and context switches of the main thread, since its start: they stand still in one that is blocked.

    None if the process has ended, or if /proc does not show it.
    """
    place = f"/proc/{pid}/task/{pid}"
    stat = read_stat(host.files, place)
    if stat is None or stat.state in "ZX":
        return None
    rows = (line.partition(":") for line in host.files.text_if_any(f"{place}/status").splitlines())
    switches = (value.strip() for name, _, value in rows if name.endswith("voluntary_ctxt_switches"))
    return stat.own_ticks / HERTZ, sum(int(value) for value in switches if value.isdecimal())


def read_stat(files: Files, place: str) -> ProcessStat | None:
    """The file `stat` in the folder of a process or thread; None if it is gone or unreadable."""
    text = read_now(files, f"{place}/stat")
    before, parenthesis, after = text.rpartition(b")")  # the name may contain parentheses and spaces
    words = after.split()
    if not parenthesis or len(words) < 22:
        return None
    try:
        return ProcessStat(
            name=before.partition(b"(")[2].decode("utf-8", "replace"),
            state=words[0].decode("ascii", "replace"),
            parent=int(words[1]),
            faults=int(words[9]) + int(words[10]),
            own_ticks=int(words[11]) + int(words[12]),
            children_ticks=int(words[13]) + int(words[14]),
            threads=int(words[17]),
            started=int(words[19]),
            resident_pages=int(words[21]),
        )
    except ValueError:
        return None


def read_state(files: Files, place: str) -> str:
    """The state alone, for hundreds of threads; empty if it is gone or unreadable."""
    return read_now(files, f"{place}/stat").rpartition(b") ")[2][:1].decode("ascii", "replace")


def read_now(files: Files, path: str, limit: int = _MOST_BYTES) -> bytes:
    """The bytes of a file of /proc, at most `limit`; none if it is gone or unreadable."""
    try:
        return files.read_bytes(path, limit)
    except OSError:
        return b""


def _call(files: Files, pid: int, words: list[str]) -> tuple[str, str]:
    """The system call, and the file that it works on, from the file `syscall`: number, arguments, two addresses."""
    if not words:
        return "", ""
    if words[0] == "-1":
        return "none", ""
    if not words[0].isdecimal():
        return words[0], ""
    number = int(words[0])
    name = SYSCALLS.get(_architecture(), {}).get(number, f"syscall {number}")
    if name not in _ON_A_FILE or len(words) < 2:
        return name, ""
    try:
        return name, files.link_target(f"/proc/{pid}/fd/{int(words[1], 16)}")
    except (OSError, ValueError):
        return name, ""


def _architecture() -> str:
    machine = platform.machine()
    return {"AMD64": "x86_64", "arm64": "aarch64"}.get(machine, machine)
