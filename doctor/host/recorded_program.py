"""A program of the user's that records profiles of itself when asked: through a thread that starts with its Python."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfgpu_doctor.host.watched import start_watched

if TYPE_CHECKING:
    from typing_extensions import Self

SOCKET_VARIABLE = "TFGPU_DOCTOR_TRACE_SOCKET"
_GRACE_S = 10.0  # for the program to end after SIGTERM
_ANSWER_S = 60.0  # for TensorFlow to write a profile
_TICK_S = 0.2
_LONGEST_PATH = 100  # of a Unix socket: 108 bytes on Linux, 104 on macOS


class ProgramLost(Exception):
    """The program ended, or stopped responding; the message says which."""


class Talk:
    """The connection to the recording thread of one process."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._read = b""
        self.pid, self.tensorflow = 0, ""

    def ready(self) -> bool:
        """Whether the process has imported TensorFlow; looks without waiting. ProgramLost if it is gone."""
        if not self.pid and (told := self._line(0.0)):
            self.pid, self.tensorflow = int(told["pid"]), str(told["tensorflow"])
        return bool(self.pid)

    def ask(self, **request: object) -> dict[str, Any]:
        """Send a request, and return its answer. ProgramLost."""
        try:
            self._connection.settimeout(_ANSWER_S)
            self._connection.sendall(json.dumps(request).encode() + b"\n")
        except OSError as error:
            raise ProgramLost("the program has ended") from error
        answer = self._line(_ANSWER_S)
        if answer is None:
            raise ProgramLost(f"the program has not answered for {_ANSWER_S:.0f} s")
        return answer

    def close(self) -> None:
        """End the connection: the process stops what it records."""
        self._connection.close()

    def _line(self, wait_s: float) -> dict[str, Any] | None:
        end = time.monotonic() + wait_s
        while b"\n" not in self._read:
            try:
                self._connection.settimeout(max(0.001, end - time.monotonic()))
                got = self._connection.recv(1 << 16)
            except TimeoutError:
                return None
            except OSError as error:
                raise ProgramLost("the program has ended") from error
            if not got:
                raise ProgramLost("the program has ended")
            self._read += got
        line, _, self._read = self._read.partition(b"\n")
        answer = json.loads(line)
        return answer if isinstance(answer, dict) else None


class RecordedProgram:
    """A running command with the start-up module on its PYTHONPATH; a context manager, which ends the command."""

    def __init__(self, argv: Sequence[str], *, environment: Mapping[str, str], startup: str) -> None:
        """Start the command in the current folder. Raises OSError if that is not possible."""
        folder = tempfile.mkdtemp(prefix="tfgpu-")
        if len(folder) > _LONGEST_PATH:
            os.rmdir(folder)
            folder = tempfile.mkdtemp(prefix="tfgpu-", dir="/tmp")
        self._folder, self._path = folder, os.path.join(folder, "s")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.talks: list[Talk] = []
        try:
            self._listener.bind(self._path)
            self._listener.listen(16)
            path = os.pathsep.join(filter(None, (startup, environment.get("PYTHONPATH", ""))))
            variables = {**environment, "PYTHONPATH": path, SOCKET_VARIABLE: self._path}
            self._process: subprocess.Popen[bytes] = start_watched(argv, environment=variables, folder=os.getcwd())
        except OSError:
            self._remove()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.poll()

    def wait(self, seconds: float) -> None:
        """Wait, at most until the program ends; meanwhile its processes connect."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and self.exit_code is None:
            self._listener.settimeout(min(left, _TICK_S))
            try:
                self.talks.append(Talk(self._listener.accept()[0]))
            except TimeoutError:
                continue

    def ready(self) -> list[Talk]:
        """The processes that have imported TensorFlow and still run."""
        found = []
        for talk in list(self.talks):
            try:
                if talk.ready():
                    found.append(talk)
            except ProgramLost:
                talk.close()
                self.talks.remove(talk)
        return found

    def end(self) -> None:
        """End the program by SIGTERM, kill what is left of it after some seconds, and remove the socket."""
        for talk in self.talks:
            if talk.pid and self.exit_code is None:
                _terminate(talk.pid)
        until = time.monotonic() + (_GRACE_S if self.talks else 0.0)
        while self.exit_code is None and time.monotonic() < until:
            time.sleep(_TICK_S)
        for talk in self.talks:
            talk.close()
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._remove()

    def _remove(self) -> None:
        self._listener.close()
        if os.path.exists(self._path):
            os.unlink(self._path)
        os.rmdir(self._folder)


def _terminate(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGTERM)
    except (ProcessLookupError, PermissionError):
        pass
