"""Commands run with a deadline: nothing that they do can hang or crash the caller."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tfgpu_doctor.host.adoption import ADOPTION, Started
from tfgpu_doctor.host.family import largest_bytes, most_bytes
from tfgpu_doctor.host.kept_output import Kept, Pipes
from tfgpu_doctor.host.pauses import Pauses
from tfgpu_doctor.host.signal_names import name_of

_MOST_OUTPUT_BYTES = 8 << 20
_MOST_ERROR_BYTES = 256 << 10
_TICK_S = 0.1
_WEIGH_EVERY_S = 0.5
# After SIGKILL: the driver may take seconds to let go of eight GPUs, and a read over a network to return. A process that
# survives is blocked in the kernel, where no signal reaches it.
_DIES_S = 10.0
_GRACE_S = 1.0  # for what it left behind


@dataclass(frozen=True)
class Completed:
    """How a command ended: `exit_code` is None if it never started, or was killed at the deadline or for its memory."""

    stdout: bytes
    stderr: str
    seconds: float
    exit_code: int | None = None
    signal: str = ""
    timed_out: bool = False
    stuck: bool = False  # not even SIGKILL ended it: it is blocked in the kernel
    not_started: str = ""
    excess: str = ""  # why it was killed before its deadline, in words that complete "it ..."
    left_out_bytes: int = 0  # of the middle of `stdout`

    @property
    def said_too_much(self) -> str:
        """That part of its output is missing, in words that complete "it ..."; empty if all of it is here."""
        if not self.left_out_bytes:
            return ""
        return f"printed more than {_size(_MOST_OUTPUT_BYTES)} ({_size(_MOST_OUTPUT_BYTES + self.left_out_bytes)})"


class Processes:
    """The commands that one host runs, so that all of them can be stopped."""

    def __init__(self) -> None:
        self._running: dict[int, Started] = {}
        self._lock = threading.Lock()
        self._stopped = False

    @property
    def stopped(self) -> bool:
        """Whether all commands were killed, and no more are started."""
        return self._stopped

    def run(
        self,
        argv: Sequence[str],
        *,
        deadline_s: float,
        environment: Mapping[str, str],
        until: threading.Event | None = None,
        memory_bytes: float | None = None,
        family_ends: bool = True,
    ) -> Completed:
        """Run a command to its end or its deadline (seconds), then kill what remains of its family.

        With `until`, the command's standard input stays open until that is set, or this process exits. It is killed if
        one of its processes takes more than `memory_bytes`: None is more than any healthy one needs, infinity no limit.
        Without `family_ends`, what it started in a session of its own may stay.
        """
        started = time.monotonic()
        stdin = subprocess.DEVNULL if until is None else subprocess.PIPE
        try:
            child = self._start(argv, environment, stdin, family_ends)
        except (OSError, ValueError, IndexError, subprocess.SubprocessError) as error:
            return Completed(b"", "", time.monotonic() - started, not_started=_reason(error))
        process = child.process
        assert process.stdout is not None and process.stderr is not None
        output, errors = Kept(_MOST_OUTPUT_BYTES), Kept(_MOST_ERROR_BYTES)
        pipes = Pipes([(process.stdout, output), (process.stderr, errors)])
        try:
            bound = most_bytes() if memory_bytes is None else memory_bytes
            ended, excess = _watch(process, pipes, started + deadline_s, until, bound)
        finally:
            code = self._end(child, pipes)
        return Completed(
            output.content,
            errors.content.decode("utf-8", "replace"),
            time.monotonic() - started,
            exit_code=code if ended else None,
            signal=signal_name(code) if ended else "",
            timed_out=not ended and not excess,
            stuck=code is None,
            excess=excess,
            left_out_bytes=output.left_out_bytes,
        )

    def stop(self) -> None:
        """Kill every running command with its family, and start no more."""
        with self._lock:
            self._stopped = True
            running = list(self._running.values())
        for child in running:
            kill_group(child.process)
        for child in running:
            ADOPTION.end(child, _GRACE_S)

    def _start(self, argv: Sequence[str], environment: Mapping[str, str], stdin: int, family_ends: bool) -> Started:
        def popen(marked: Mapping[str, str]) -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                list(argv),
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(marked),
                start_new_session=True,
            )

        with self._lock:
            if self._stopped:
                raise OSError("interrupted")
            child = ADOPTION.start(popen, environment, family_ends=family_ends)
            self._running[child.process.pid] = child
            return child

    def _end(self, child: Started, pipes: Pipes) -> int | None:
        """Kill what still runs of it; return its exit code, None if it is blocked in the kernel."""
        process = child.process
        code = process.poll()
        kill_group(process)  # it, or the children that it left behind
        if code is None:
            try:
                code = process.wait(_DIES_S)
            except subprocess.TimeoutExpired:
                pass
        ADOPTION.end(child, _GRACE_S)
        pipes.drain(_GRACE_S)
        if process.stdin is not None:
            _close(process)
        with self._lock:
            self._running.pop(process.pid, None)
        return code


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all its children."""
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    except (ProcessLookupError, PermissionError):
        pass  # it has already ended


def _watch(
    process: subprocess.Popen[bytes], pipes: Pipes, deadline: float, until: threading.Event | None, memory_bytes: float
) -> tuple[bool, str]:
    """Read what the process prints until it ends; return whether it did, and what it exceeded if not its deadline.

    Its pipes close when it ends, and that wakes this up at once; `Popen.wait` alone polls only every 50 ms. While this process
    stands still, the command may stand, too, or wait for a reader: the deadline is that much later.
    """
    weigh_at = time.monotonic() + _WEIGH_EVERY_S
    pauses = Pauses(_TICK_S)
    while process.poll() is None:
        deadline += pauses.passed()
        now = time.monotonic()
        if now >= deadline:
            return False, ""
        if now >= weigh_at and memory_bytes < math.inf:
            if largest_bytes(process.pid) > memory_bytes:
                return False, f"used more than {_size(memory_bytes)} of memory"
            weigh_at = time.monotonic() + _WEIGH_EVERY_S
        if process.stdin is not None and until is not None and until.is_set():
            _close(process)
        patience_s = min(deadline - now, _TICK_S)
        if not pipes.read(patience_s):
            try:
                process.wait(patience_s)
            except subprocess.TimeoutExpired:
                pass
    return True, ""


def _close(process: subprocess.Popen[bytes]) -> None:
    try:
        if process.stdin is not None:
            process.stdin.close()
    except OSError:
        pass  # the other end is closed


def _size(count: float) -> str:
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count / (1 << 20):.0f} MiB"


def signal_name(code: int | None) -> str:
    """The name of the signal that ended a process, from its exit code; empty if none did."""
    if code is None or code >= 0:
        return ""
    return name_of(-code) or f"signal {-code}"


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)) or type(error).__name__
