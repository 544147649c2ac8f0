"""The socket at which the processes of a program tell that they can be recorded."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import time
from collections.abc import Mapping

from tfgpu_doctor.host.scratch import run_folder
from tfgpu_doctor.host.talk import ProgramLost, Talk

SOCKET_VARIABLE = "TFGPU_DOCTOR_TRACE_SOCKET"
_LONGEST_PATH = 100  # of a Unix socket: 108 bytes on Linux, 104 on macOS
_WAITING = 128  # connections that nobody has accepted yet


class Listener:
    """A socket in a private folder, and the connections that came; `close` removes both."""

    def __init__(self) -> None:
        folder = tempfile.mkdtemp(prefix="s-", dir=run_folder())
        if len(folder) > _LONGEST_PATH:
            os.rmdir(folder)
            folder = tempfile.mkdtemp(prefix="tfgpu-", dir="/tmp")
        self.folder, self._path = folder, os.path.join(folder, "s")
        self.talks: list[Talk] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.bind(self._path)
            self._socket.listen(_WAITING)
        except OSError:
            self.close()
            raise

    def variables(self, environment: Mapping[str, str], startup: str) -> dict[str, str]:
        """The environment of a program that is to connect: `startup` is the folder of the start-up module."""
        path = os.pathsep.join(filter(None, (startup, environment.get("PYTHONPATH", ""))))
        return {**environment, "PYTHONPATH": path, SOCKET_VARIABLE: self._path}

    def accept(self, wait_s: float = 0.0) -> None:
        """Accept the connections that come within some time; one is enough."""
        self._socket.settimeout(max(0.0, wait_s))
        try:
            self.talks.append(Talk(self._socket.accept()[0]))
        except (TimeoutError, BlockingIOError):
            return
        except OSError:  # no more files may be opened: the program is not to end for that
            time.sleep(wait_s)

    def ready(self) -> list[Talk]:
        """The processes that have imported TensorFlow and still run."""
        found = []
        for talk in list(self.talks):
            try:
                if talk.ready():
                    found.append(talk)
            except ProgramLost:
                self.drop(talk)
        return found

    def drop(self, talk: Talk) -> None:
        """Forget a process that is gone."""
        talk.close()
        if talk in self.talks:
            self.talks.remove(talk)

    def close(self) -> None:
        """End all connections, and remove the socket with its folder."""
        for talk in self.talks:
            talk.close()
        self._socket.close()
        shutil.rmtree(self.folder, ignore_errors=True)
