"""The connection to the recording thread of one process of a program."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Sequence
from typing import Any

from tfgpu_doctor.host.json_text import read_json

_ANSWER_S = 60.0  # for TensorFlow to write a profile
_VISIT_S = 2.0
_MOST_BYTES = 8 << 20  # of an answer


class ProgramLost(Exception):
    """The program ended, or stopped responding; the message says which."""


class ProgramSilent(ProgramLost):
    """The program is there, and does not respond."""


def visit(pid: int, runtime_folders: Sequence[str]) -> Talk | None:
    """Connect to a process that listens, started with the start-up module on its PYTHONPATH; None if it does not.

    It listens below its own XDG_RUNTIME_DIR, or below /tmp: the first of these folders in which it answers counts.
    """
    for folder in dict.fromkeys(each or "/tmp" for each in runtime_folders):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(_VISIT_S)
        try:
            connection.connect(os.path.join(folder, f"tfgpu-doctor-{os.getuid()}", str(pid)))
        except OSError:
            connection.close()
            continue
        return Talk(connection)
    return None


class Talk:
    """The connection to the recording thread of one process; `pid` is 0 until that has imported TensorFlow."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._read = b""
        self.pid = 0

    def ready(self) -> bool:
        """Whether the process has imported TensorFlow; looks without waiting. ProgramLost if it is gone."""
        if not self.pid and (told := self._line(0.0)):
            pid = told.get("pid")
            self.pid = pid if isinstance(pid, int) else 0
        return bool(self.pid)

    def send(self, **request: object) -> None:
        """Send a request. ProgramLost."""
        try:
            self._connection.settimeout(_ANSWER_S)
            self._connection.sendall(json.dumps(request).encode() + b"\n")
        except OSError as error:
            raise ProgramLost("the program has ended") from error

    def heard(self) -> dict[str, Any] | None:
        """The next answer, None if there is none yet. ProgramLost."""
        return self._line(0.0)

    def ask(self, **request: object) -> dict[str, Any]:
        """Send a request, and return its answer. ProgramLost."""
        self.send(**request)
        answer = self._line(_ANSWER_S)
        if answer is None:
            raise ProgramSilent(f"the program has not answered for {_ANSWER_S:.0f} s")
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
            if not got or len(self._read) > _MOST_BYTES:
                raise ProgramLost("the program has ended")
            self._read += got
        line, _, self._read = self._read.partition(b"\n")
        try:
            answer = read_json(line)
        except ValueError as error:
            raise ProgramLost("the program does not answer as the doctor's own part of it would") from error
        return answer if isinstance(answer, dict) else None
