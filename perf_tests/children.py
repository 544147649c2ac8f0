"""Child processes that work on request, for settings that TensorFlow reads only once, at its start."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

import tfgpu_doctor.perf_tests.programs
from tfgpu_doctor.perf_tests.notes import alive
from tfgpu_doctor.perf_tests.variables import COMPILES_VARIABLE

_FOLDER = os.path.dirname(os.path.abspath(tfgpu_doctor.perf_tests.programs.__file__))
START_S, ANSWER_S = 150.0, 150.0  # less than what the doctor waits for a sign of life of the test that waits
COMPILES_S = 3400.0  # likewise, where the driver compiles the kernels of a GPU first
_MOST_CHARACTERS = 1 << 20  # of an answer: longer lines are none


class ChildDied(Exception):
    """Raised if a child process ended or did not respond in time; the message has the last line of its output."""


@dataclass(frozen=True)
class Answer:
    """The response of a child process to a request; `devices` ran its work, such as "CPU:0"."""

    values: dict[str, Any]

    @property
    def devices(self) -> tuple[str, ...]:
        return tuple(self.values.get("devices", ()))


class Child:
    """A running child process. Its first message is in `ready`."""

    def __init__(self, program: str, order: Mapping[str, Any], variables: Mapping[str, str] | None = None) -> None:
        # TensorFlow leaves generated files there if its process ends at once.
        self._scratch = tempfile.TemporaryDirectory(prefix="tfgpu-doctor-")
        own = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), self._scratch.name)
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - closed by end
        self._process = subprocess.Popen(
            [sys.executable, os.path.join(_FOLDER, program + ".py"), json.dumps(order)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True,
            env={**os.environ, **own, "TF_CPP_MIN_LOG_LEVEL": "2", **(variables or {})},
        )  # fmt: skip
        self.ready: dict[str, Any] = {}

    def wait(self, deadline_s: float = START_S) -> None:
        """Wait until the child is ready. Raises ChildDied."""
        self.ready = self._read(deadline_s)

    def ask(self, what: str = "go") -> Answer:
        """Send one request and wait for the response. Raises ChildDied."""
        assert self._process.stdin
        try:
            self._process.stdin.write(what + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise ChildDied(self._last_words()) from None
        return Answer(self._read(ANSWER_S))

    def _read(self, deadline_s: float) -> dict[str, Any]:
        assert self._process.stdout
        compiles = bool(os.environ.get(COMPILES_VARIABLE))
        alarm = threading.Timer(max(deadline_s, COMPILES_S) if compiles else deadline_s, self._process.kill)
        alarm.start()
        try:
            line = self._process.stdout.readline(_MOST_CHARACTERS)
        finally:
            alarm.cancel()
        if not line:
            raise ChildDied(self._last_words())
        try:
            answer: Any = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise ChildDied(f"the child process printed no answer but {line[:100]!r}")
        if "error" in answer:
            raise ChildDied(answer["error"])
        alive()
        return answer

    def _last_words(self) -> str:
        code = self._process.wait()
        self._errors.seek(0)
        lines = [line.strip() for line in self._errors if line.strip()]
        return f"the child process ended with {code}" + (f": {lines[-1][:300]}" if lines else "")

    def kill(self) -> None:
        """Kill the child process immediately."""
        self._process.kill()

    def end(self) -> None:
        """Let the child process end, so that it releases its resources."""
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                pipe and pipe.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()
        self._scratch.cleanup()


@contextlib.contextmanager
def children(
    program: str, *orders: tuple[Mapping[str, Any], Mapping[str, str]], start_s: float = START_S
) -> Iterator[list[Child]]:
    """Start one child process per order and its variables, all at the same time; yield them when all are ready."""
    started: list[Child] = []
    try:
        for order, variables in orders:
            started.append(Child(program, order, variables))
        _wait_for_all(started, start_s)
        yield started
    finally:
        for child in started:
            child.end()


def _wait_for_all(started: list[Child], deadline_s: float) -> None:
    """Wait until all are ready. Raises ChildDied for the first that fails; kills the others, which may wait for it."""
    with ThreadPoolExecutor(len(started)) as pool:
        for ready in as_completed([pool.submit(child.wait, deadline_s) for child in started]):
            if ready.exception():
                for child in started:
                    child.kill()
                ready.result()
