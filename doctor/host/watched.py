"""A long command of the user's, shown as it runs: it ends with the doctor, however the doctor ends."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from tfgpu_doctor.host.adoption import ADOPTION, Started
from tfgpu_doctor.host.signal_names import name_of, number_in

_PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run_watched.py")
_TELLS = "--tell"
_TICK_S = 1.0
_GRACE_S = 1.0


class CannotStart(OSError):
    """A command cannot be started; `filename` is its first word."""


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
    Raises CannotStart, an OSError, if it cannot be started.
    """
    watcher = start_watched(["--with-family", *argv], environment=environment, folder=folder, holding=holding)
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
        _end(watcher)


def start_watched(
    argv: Sequence[str], *, environment: Mapping[str, str], folder: str | None, holding: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """Start a command in a folder, with its output on standard error; it is killed when the returned standard input closes.

    `argv` may begin with the options of `run_watched.py`; without a folder it stays in this one. Raises CannotStart, an
    OSError.
    """
    told, tells = os.pipe()

    def popen(variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-B", "-I", _PROGRAM, _TELLS, str(tells), *argv],
            stdin=subprocess.PIPE,  # its closing tells the watcher that the doctor has exited
            stdout=_standard_error(),
            stderr=_standard_error(),
            env=dict(variables),
            cwd=folder,
            pass_fds=(*holding, tells),
            start_new_session=True,  # Ctrl-C reaches only the doctor, which then ends this in order
        )

    with open(told, "rb") as why:
        try:
            watcher = ADOPTION.start(popen, environment, family_ends=False).process
        finally:
            os.close(tells)
        has_started = False
        try:
            _raise_told(why.read(), argv)
            has_started = True
        finally:
            if not has_started:  # or an interrupt came
                _end(watcher)
    return watcher


def ended_by(code: int) -> str:
    """The signal that ended a watched command, in words, from its exit code; empty if none did.

    The watcher tells it as 128 and more, as a shell does, and may itself be killed: a negative code.
    """
    name = name_of(number_in(code))
    return f"{name} (the kernel sends it where memory runs out: see dmesg)" if name == "SIGKILL" else name


def _end(watcher: subprocess.Popen[bytes]) -> None:
    assert watcher.stdin is not None
    watcher.stdin.close()
    watcher.wait()
    ADOPTION.end(Started(watcher, mark=""), _GRACE_S)


def _raise_told(why: bytes, argv: Sequence[str]) -> None:
    """Raise what the watcher told: nothing where the command has started, else the number of the error."""
    if why:
        words = [word for word in argv if not word.startswith("--")]
        raise CannotStart(int(why), os.strerror(int(why)), words[0] if words else "")


def _standard_error() -> int:
    """The destination of a command's output: standard output is reserved for the document."""
    try:
        return sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        return subprocess.DEVNULL
