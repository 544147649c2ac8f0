"""A program of the user's that records profiles of itself when asked: through a thread that starts with its Python."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tfgpu_doctor.host.adoption import ADOPTION
from tfgpu_doctor.host.listening import Listener
from tfgpu_doctor.host.talk import Talk
from tfgpu_doctor.host.watched import start_watched

if TYPE_CHECKING:
    from typing_extensions import Self

_GRACE_S = 10.0  # for the program to end after SIGTERM
_TICK_S = 0.2


class RecordedProgram:
    """A running command with the start-up module on its PYTHONPATH; a context manager, which ends the command."""

    def __init__(self, argv: Sequence[str], *, environment: Mapping[str, str], startup: str) -> None:
        """Start the command in the current folder. Raises OSError if that is not possible."""
        ADOPTION.forbid()  # daemons of the program are its own affair
        self._listener = Listener()
        try:
            self._process: subprocess.Popen[bytes] = start_watched(
                argv, environment=self._listener.variables(environment, startup), folder=None
            )
        except OSError:
            self._listener.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def folder(self) -> str:
        """The private folder with the socket."""
        return self._listener.folder

    @property
    def talks(self) -> list[Talk]:
        """The connections of all processes, also of those that have not imported all of TensorFlow."""
        return self._listener.talks

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.poll()

    def wait(self, seconds: float) -> None:
        """Wait, at most until the program ends; meanwhile its processes connect."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and self.exit_code is None:
            self._listener.accept(min(left, _TICK_S))

    def ready(self) -> list[Talk]:
        """The processes that have imported TensorFlow and still run."""
        return self._listener.ready()

    def end(self) -> None:
        """End the program by SIGTERM, kill what is left of it after some seconds, and remove the socket."""
        known = [talk.pid for talk in self.talks if talk.pid and self.exit_code is None]
        for pid in known:
            _terminate(pid)
        until = time.monotonic() + (_GRACE_S if known else 0.0)
        while self.exit_code is None and time.monotonic() < until:
            time.sleep(_TICK_S)
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._listener.close()


def _terminate(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGTERM)
    except (ProcessLookupError, PermissionError):
        pass
