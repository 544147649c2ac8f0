"""The processes that a child leaves behind, also in a session of their own: found, and ended with it.

Each child has a mark in its environment, which what it starts inherits. On Linux, where the doctor is the process's own
program, it also adopts the orphans of its children: https://man7.org/linux/man-pages/man2/PR_SET_CHILD_SUBREAPER.2const.html
Such a child leaves no core file either, which would lie in the user's working folder.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tfgpu_doctor.host.family import carries, children_of, family_of, has_ended, is_between, is_starting
from tfgpu_doctor.host.janitor import send, start_time

MARK = "TFGPU_DOCTOR_CHILD"
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_AGAIN_S = 0.005
_LAST_S = 5.0  # a busy machine may stop a child for longer than a second between its fork and its exec
_NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class Started:
    """A child, and the mark of its family: `NAME=value`; empty if its family may stay."""

    process: subprocess.Popen[bytes]
    mark: str


class Adoption:
    """The children that this process started through it, and the orphans that they left."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[int] = set()
        self._before: frozenset[int] | None = None  # children of whoever was this process before; None: no adoption

    def allow(self) -> None:
        """Adopt orphans as long as children run: this process is the doctor's alone."""
        if sys.platform.startswith("linux"):
            self._before = frozenset(children_of(os.getpid()))

    def forbid(self) -> None:
        """Adopt nobody from now on: a program of the user's runs, whose daemons are its own affair."""
        with self._lock:
            if self._before is not None and self._running:
                _adopt(False)
            self._before = None

    def start(
        self, popen: Callable[[Mapping[str, str]], subprocess.Popen[bytes]], environment: Mapping[str, str], *,
        family_ends: bool,
    ) -> Started:  # fmt: skip
        """Start a child with a marked environment. Raises what `popen` raises."""
        value = f"{os.getpid()}-{next(_NUMBERS)}-{os.urandom(4).hex()}"
        with self._lock:
            if self._before is not None and not self._running and not _adopt(True):
                self._before = None  # its orphans are looked for among all processes
            try:
                with _no_core_files() if family_ends else contextlib.nullcontext():
                    process = popen({**environment, MARK: value} if family_ends else environment)
                self._running.add(process.pid)
            finally:
                self._rest()
        return Started(process, f"{MARK}={value}" if family_ends else "")

    def end(self, child: Started, within_s: float) -> None:
        """End what a child left that was killed or has ended, and wait for the orphans, at most for some time."""
        until = time.monotonic() + within_s
        killed: list[tuple[int, str]] = []  # with the time of its start
        while True:
            with self._lock:
                ended = has_ended(child.process.pid)  # before the search: all that it left is there by then
                strays, begins = self._strays(child) if child.mark else ([], False)
                lives = any(start_time(pid) == started for pid, started in killed)
                done = not child.mark or not (strays or begins or lives or not ended) or time.monotonic() > until
                if done:  # in one step with the search: of two that end at once, the last finds what both left
                    self._running.discard(child.process.pid)
                    self._rest()
            for pid in strays:
                found = [(each, started) for each in family_of(pid) if (started := start_time(each))]
                send(found, signal.SIGKILL)
                killed += found
                _wait_for(pid)
            if done:
                return
            time.sleep(_AGAIN_S)

    def end_unknown(self) -> None:
        """At the end of this process kill the children with a mark of its own: an interrupt came while one was started."""
        mark = f"{MARK}={os.getpid()}-"
        until = time.monotonic() + _LAST_S
        while time.monotonic() < until:
            children = children_of(os.getpid())
            # Asked before the marks are read: what has no environment yet may have its mark a moment later.
            begins = any(map(is_starting, children))
            left = [pid for pid in children if carries(pid, mark, begins=True)]
            if not left and not begins:
                return
            for pid in left:
                send([(each, start_time(each)) for each in family_of(pid)], signal.SIGKILL)
                _wait_for(pid)
            time.sleep(_AGAIN_S)

    def _rest(self) -> None:
        if self._before is not None and not self._running:
            _adopt(False)

    def _strays(self, child: Started) -> tuple[list[int], bool]:
        """The processes of its family that are not its children any more; and whether one that may be has no mark yet.

        The lock is held.
        """
        if self._before is None:
            candidates, sure = list(_born_since(child.process.pid)), False
        else:
            own, alone = children_of(os.getpid()), self._running <= {child.process.pid}
            candidates = [pid for pid in own if pid not in self._before and pid not in self._running]
            # A process can remove the mark. Whose it is then is sure if no other child runs, and nobody else's are adopted.
            sure = alone and not self._before and os.getpid() != 1
        # Asked before the marks are read: what has no environment yet may have its mark a moment later.
        begins = any(map(is_between, candidates))
        return [pid for pid in candidates if sure or carries(pid, child.mark)], begins


def _adopt(on: bool) -> bool:
    """Adopt orphans or not; return whether that is possible: a Python that was built without libffi has no ctypes."""
    try:
        import ctypes

        return bool(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


@contextlib.contextmanager
def _no_core_files() -> Iterator[None]:
    """What is started meanwhile inherits a limit of 0 for core files; `prlimit` afterwards may come too late for it."""
    try:
        import resource
    except ImportError:  # Windows
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))


def _wait_for(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass  # it is another process's, which waits for it


def _born_since(pid: int) -> list[int]:
    """The processes that are younger than this one."""
    try:
        with open("/proc/loadavg", "rb") as file:
            last = int(file.read().split()[-1])
        found = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except (OSError, ValueError):
        return []
    if last >= pid:
        return [each for each in found if pid < each <= last]
    return [each for each in found if each > pid or each <= last]  # the numbers began anew


ADOPTION = Adoption()
