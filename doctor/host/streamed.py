"""A command that tells what it sees while it runs, in lines of JSON: each is handed on as soon as it arrives."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

from tfgpu_doctor.host.adoption import ADOPTION, Started
from tfgpu_doctor.host.json_text import read_json
from tfgpu_doctor.host.processes import kill_group, signal_name

_MOST_LINE_BYTES = 4 << 20
_MOST_WORDS = 300
_TO_END_S = 0.5  # for the command to end when its standard input closes, before it is killed
_GRACE_S = 1.0  # after SIGKILL; a process that survives is blocked in the kernel, where no signal reaches it


class Streamed:
    """Runs a command on a thread, and hands each JSON object that it prints to `hear`, which is called on that thread.

    The command must end when its standard input closes: that happens at `stop`, and when the doctor exits for any
    reason. Nothing here raises; `ended` says what went wrong.
    """

    def __init__(
        self, argv: Sequence[str], *, environment: Mapping[str, str], hear: Callable[[dict[str, Any]], None]
    ) -> None:
        self._argv, self._environment, self._hear = list(argv), dict(environment), hear
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._lock = threading.Lock()
        self._child: Started | None = None
        self._told_to_end = False
        self._last_words = ""
        self._ended = ""

    @property
    def ended(self) -> str:
        """How the command ended, in words that complete "it ..."; empty as long as it runs."""
        return self._ended

    def start(self) -> None:
        """Start the command; only the first call does."""
        if self._thread.ident is None and not self._told_to_end:
            self._thread.start()

    def stop(self) -> None:
        """End the command with all its children, within about two seconds; a second call does nothing."""
        with self._lock:  # either the command is not started any more, or it is known here
            self._told_to_end = True
            process = self._child.process if self._child else None
        if self._thread.ident is None:
            return
        if process is not None:
            _close(process.stdin)
            self._thread.join(_TO_END_S)
            if self._thread.is_alive():
                kill_group(process)
        self._thread.join(2 * _GRACE_S)

    def _run(self) -> None:
        # The command is started on the thread that outlives it: "the parent dies" of PR_SET_PDEATHSIG means the
        # thread that started it (https://man7.org/linux/man-pages/man2/PR_SET_PDEATHSIG.2const.html).
        process = self._start()
        if process is None or process.stdout is None:
            return
        try:
            with process.stdout:
                self._read(process.stdout)
        finally:
            _close(process.stdin)
            self._ended = _end(process, self._last_words)
            if self._child is not None:
                ADOPTION.end(self._child, _GRACE_S)

    def _start(self) -> subprocess.Popen[bytes] | None:
        with self._lock:
            if self._told_to_end:
                return None
            try:
                self._child = ADOPTION.start(self._popen, self._environment, family_ends=True)
            except (OSError, ValueError, IndexError) as error:
                self._ended = f"did not start: {getattr(error, 'strerror', None) or error}"
        return self._child.process if self._child else None

    def _popen(self, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,  # for its last words
            env=dict(environment),
            start_new_session=True,
        )

    def _read(self, pipe: IO[bytes]) -> None:
        while line := pipe.readline(_MOST_LINE_BYTES):
            try:
                said = read_json(line)
            except ValueError:
                said = None
            if isinstance(said, dict):
                self._hear(said)
            elif line.strip():
                self._last_words = line.decode("utf-8", "replace").strip()[:_MOST_WORDS]


def _end(process: subprocess.Popen[bytes], last_words: str) -> str:
    """Wait until it has ended, and say how; kill what it left behind."""
    for patience in (_TO_END_S, _GRACE_S):
        try:
            code = process.wait(patience)
            break
        except subprocess.TimeoutExpired:
            kill_group(process)
    else:
        return "could not be killed: it is blocked in the kernel"
    kill_group(process)
    if code < 0:
        return f"was killed by {signal_name(code)}"
    return f"ended with exit code {code}" + (f": {last_words}" if last_words else "")


def _close(pipe: IO[bytes] | None) -> None:
    try:
        if pipe is not None:
            pipe.close()
    except OSError:
        pass  # the other end is closed
