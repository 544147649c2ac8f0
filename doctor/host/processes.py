"""Commands run with a deadline: nothing that they do can hang or crash the caller."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO

_MOST_OUTPUT_BYTES = 8 << 20
_MOST_ERROR_BYTES = 256 << 10
_GRACE_S = 1.0  # after SIGKILL; a process that survives is blocked in the kernel, where no signal reaches it


@dataclass(frozen=True)
class Completed:
    """How a command ended: `exit_code` is None if it never started or was killed at the deadline."""

    stdout: bytes
    stderr: str
    seconds: float
    exit_code: int | None = None
    signal: str = ""
    timed_out: bool = False
    stuck: bool = False  # not even SIGKILL ended it: it is blocked in the kernel
    not_started: str = ""


class Processes:
    """The commands that one host runs, so that all of them can be stopped."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
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
    ) -> Completed:
        """Run a command to its end or its deadline (seconds), then kill what remains of its process group.

        With `until`, the command's standard input stays open until that is set, or this process exits.
        """
        started = time.monotonic()
        try:
            process = self._start(argv, environment, subprocess.DEVNULL if until is None else subprocess.PIPE)
        except (OSError, ValueError, IndexError) as error:
            return Completed(b"", "", time.monotonic() - started, not_started=_reason(error))
        assert process.stdout is not None and process.stderr is not None
        output = _Reader(process.stdout, _MOST_OUTPUT_BYTES)
        errors = _Reader(process.stderr, _MOST_ERROR_BYTES)
        timed_out = not _ended(process, (output, errors), started + deadline_s, until)
        if timed_out:
            kill_group(process)
        try:
            code = process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            code = None
        kill_group(process)  # children that it left behind
        _drain((output, errors))
        if process.stdin is not None:
            process.stdin.close()
        with self._lock:
            self._running.discard(process)
        return Completed(
            output.content,
            errors.content.decode("utf-8", "replace"),
            time.monotonic() - started,
            exit_code=None if timed_out else code,
            signal=signal_name(code) if not timed_out else "",
            timed_out=timed_out,
            stuck=code is None,
        )

    def stop(self) -> None:
        """Kill every running command, and start no more."""
        with self._lock:
            self._stopped = True
            running = list(self._running)
        for process in running:
            kill_group(process)

    def _start(self, argv: Sequence[str], environment: Mapping[str, str], stdin: int) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._stopped:
                raise OSError("interrupted")
            process = subprocess.Popen(
                list(argv),
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(environment),
                start_new_session=True,
            )
            self._running.add(process)
            return process


class _Reader:
    """Reads a pipe on a separate thread; keeps the beginning and the end if there is too much."""

    def __init__(self, pipe: IO[bytes], limit_bytes: int) -> None:
        self._pipe, self._half = pipe, limit_bytes // 2
        self._head, self._tail = bytearray(), bytearray()
        self._dropped = 0
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def join(self, timeout_s: float) -> None:
        self._thread.join(max(0.0, timeout_s))

    @property
    def is_reading(self) -> bool:
        return self._thread.is_alive()

    @property
    def content(self) -> bytes:
        gap = b"\n... %d bytes left out ...\n" % self._dropped if self._dropped else b""
        return bytes(self._head) + gap + bytes(self._tail)

    def _read(self) -> None:
        with self._pipe:
            while chunk := os.read(self._pipe.fileno(), 1 << 16):
                room = self._half - len(self._head)
                self._head += chunk[:room] if room > 0 else b""
                self._tail += chunk[max(0, room) :]
                surplus = len(self._tail) - self._half
                if surplus > 0:
                    del self._tail[:surplus]
                    self._dropped += surplus


def _drain(readers: Sequence[_Reader]) -> None:
    """Wait a moment for data that is still in the pipes."""
    for reader in readers:
        reader.join(_GRACE_S)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all its children."""
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    except (ProcessLookupError, PermissionError):
        pass  # it has already ended


def _ended(
    process: subprocess.Popen[bytes], readers: Sequence[_Reader], deadline: float, until: threading.Event | None
) -> bool:
    """Wait for the process to end, or for the deadline; close its standard input when `until` is set.

    Its pipes close when it ends, and that wakes this up at once; `Popen.wait` alone polls only every 50 ms.
    """
    for reader in readers:
        while reader.is_reading and process.poll() is None:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return False
            if process.stdin is not None and until is not None and until.is_set():
                process.stdin.close()
            reader.join(min(remaining, 0.1))
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return False
    return True


def signal_name(code: int | None) -> str:
    """The name of the signal that ended a process, from its exit code; empty if none did."""
    if code is None or code >= 0:
        return ""
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)) or type(error).__name__
