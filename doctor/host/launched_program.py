"""A program that runs as if the doctor were not there: the same terminal, output, signals and exit code."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tfgpu_doctor.host.adoption import ADOPTION
from tfgpu_doctor.host.janitor import DONE, descendants, send, start_time
from tfgpu_doctor.host.listening import Listener
from tfgpu_doctor.host.scratch import end_run, run_folder

if TYPE_CHECKING:
    from typing_extensions import Self

_JANITOR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "janitor.py")
_FORWARDED = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
    if hasattr(signal, name)
)
_STOP = {signal.SIGTSTP} if hasattr(signal, "SIGTSTP") else set()  # Ctrl-Z
_FROM_A_PROCESS = (
    0  # si_code of kill(2) and less; the terminal's own signals, which reach the program too, are SI_KERNEL
)
_GRACE_S = 10.0


class LaunchedProgram:
    """A running command with the doctor's standard input, output and error; a context manager, which cleans up.

    While it runs, signals wait: `wait` passes on those that a process sent to the doctor. Use it from the main thread,
    before other threads start.
    """

    def __init__(
        self, argv: Sequence[str], *, environment: Mapping[str, str], startup: str, before_stop: Callable[[], None],
    ) -> None:  # fmt: skip
        """Start the command in the current folder. Raises OSError if that is not possible.

        `before_stop` is called when Ctrl-Z is about to stop the doctor as well.
        """
        ADOPTION.forbid()  # daemons of the program are its own affair
        self.listener, self._before_stop = Listener(), before_stop
        self._waiting = {*_FORWARDED, *_STOP, signal.SIGCHLD}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, self._waiting)
        self._mask = before
        try:
            self._janitor = subprocess.Popen(
                [sys.executable, "-B", "-I", _JANITOR, self.listener.folder, run_folder()],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        except OSError:
            self._restore()
            self.listener.close()
            raise
        assert self._janitor.stdin is not None
        told = self._janitor.stdin.fileno()

        def begin() -> None:
            # The program itself says who it is: a doctor that is killed right after its start has not said it yet.
            with contextlib.suppress(OSError):  # a janitor that has died keeps no program from starting
                os.write(told, b"%d\n" % os.getpid())
            # There is one thread yet; a program that starts with blocked signals could not be interrupted.
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

        try:
            self._process = subprocess.Popen(
                argv, env=self.listener.variables(environment, startup), preexec_fn=begin,  # noqa: PLW1509
            )  # fmt: skip
        except (OSError, ValueError, subprocess.SubprocessError):
            self._dismiss()
            self._restore()
            self.listener.close()
            raise
        self.pid, self._was_ended = self._process.pid, False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def wait(self, seconds: float) -> None:
        """Wait, at most until the program ends; meanwhile its processes connect, and signals are passed on."""
        end = time.monotonic() + seconds
        while self.exit_code is None:
            self.listener.accept()
            left = end - time.monotonic()
            told = signal.sigtimedwait(self._waiting, max(0.0, left))
            if told is not None and told.si_signo != signal.SIGCHLD:
                self._pass_on(told.si_signo, is_ours_alone=told.si_code <= _FROM_A_PROCESS)
            if left <= 0:
                return

    def _pass_on(self, number: int, *, is_ours_alone: bool) -> None:
        if is_ours_alone:
            self._process.send_signal(number)
        if number in _STOP:
            self._stop()
            if is_ours_alone:  # and so was the signal that continued this process
                self._process.send_signal(signal.SIGCONT)

    def _stop(self) -> None:
        """Stop as the program does, until this process is continued."""
        self._before_stop()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP)
        os.kill(os.getpid(), signal.SIGTSTP)  # by default: a process that no shell waits for is not stopped
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)

    def end(self) -> str:
        """End the program and its descendants in order; return the signal that did it, empty if it had ended."""
        if self.exit_code is not None or self._was_ended:
            return ""
        self._was_ended = True
        family = [(each, start_time(each)) for each in (self.pid, *descendants(self.pid))]
        ended_by = ""
        for number in (signal.SIGTERM, signal.SIGKILL):
            ended_by = number.name
            self._process.send_signal(number)
            send(family, signal.SIGCONT)  # a stopped process gets no other signal
            self.wait(_GRACE_S)
            if self._process.returncode is not None:
                break
        send(family, signal.SIGKILL)
        return ended_by

    def close(self) -> None:
        """Remove the socket and its folder; the program must have ended, or it is ended."""
        self.end()
        self.listener.close()
        self._dismiss()
        while signal.sigtimedwait(_FORWARDED, 0) is not None:
            pass  # it was for the program, which has ended
        self._restore()

    def _dismiss(self) -> None:
        """Tell the janitor that nothing is left to do."""
        assert self._janitor.stdin is not None
        try:
            self._janitor.stdin.write(DONE)
            self._janitor.stdin.close()
        except OSError:
            pass
        self._janitor.wait()

    def _restore(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)


def die_like(exit_code: int) -> int:
    """Return the exit code of a program; if a signal ended it, die of the same, without a second core file."""
    if exit_code >= 0:
        return exit_code
    import resource

    end_run()
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    number = -exit_code
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # it was closed from the start
            with contextlib.suppress(OSError, ValueError):  # it has no reader, or is closed
                stream.flush()
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number
