"""A long command of the user's, shown as it runs: it ends with the doctor, however the doctor ends."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from tfgpu_doctor.host.adoption import ADOPTION, Started

_PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run_watched.py")
_TICK_S = 1.0
_GRACE_S = 1.0


def run_watched(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: str,
    deadline_s: float,
    holding: Sequence[int] = (),
    on_tick: Callable[[], None] = lambda: None,
) -> int | None:
    """Run a command in a folder, with its output on standard error, and return its exit code; None past the deadline.

    It stops, with all that it started, when it is interrupted, past the deadline, and when the doctor is killed. `holding` are
    descriptors (of a lock) that stay open until it has ended. `on_tick` is called about every second in the meantime.
    Raises OSError if it cannot be started.
    """
    watcher = start_watched(["--with-family", *argv], environment=environment, folder=folder, holding=holding)
    assert watcher.stdin is not None
    until = time.monotonic() + deadline_s
    try:
        while time.monotonic() < until:
            on_tick()
            try:
                return watcher.wait(_TICK_S)
            except subprocess.TimeoutExpired:
                continue
        return None
    finally:
        watcher.stdin.close()
        watcher.wait()
        ADOPTION.end(Started(watcher, mark=""), _GRACE_S)


def start_watched(
    argv: Sequence[str], *, environment: Mapping[str, str], folder: str, holding: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """Start a command in a folder, with its output on standard error; it is killed when the returned standard input closes.

    `argv` may begin with the options of `run_watched.py`. Raises OSError if it cannot be started.
    """

    def popen(variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-B", "-I", _PROGRAM, *argv],
            stdin=subprocess.PIPE,  # its closing tells the watcher that the doctor has exited
            stdout=_standard_error(),
            stderr=_standard_error(),
            env=dict(variables),
            cwd=folder,
            pass_fds=tuple(holding),
            start_new_session=True,  # Ctrl-C reaches only the doctor, which then ends this in order
        )

    return ADOPTION.start(popen, environment, family_ends=False).process


def _standard_error() -> int:
    """The destination of a command's output: standard output is reserved for the document."""
    try:
        return sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        return subprocess.DEVNULL
