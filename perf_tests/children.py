"""Child processes that work on request, for settings that TensorFlow reads only once, at its start."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any, TypeVar

import tfgpu_doctor.perf_tests.programs
from tfgpu_doctor.perf_tests.notes import alive
from tfgpu_doctor.perf_tests.variables import COMPILES_VARIABLE

_FOLDER = os.path.dirname(os.path.abspath(tfgpu_doctor.perf_tests.programs.__file__))
START_S, ANSWER_S = 150.0, 150.0  # less than what the doctor waits for a sign of life of the test that waits
COMPILES_S = 3400.0  # likewise, where the driver compiles the kernels of a GPU first
_Result = TypeVar("_Result")
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
        self._late_s: float | None = None  # it was ended because it did not answer for so long
        self._answering = threading.Lock()  # it either has answered or is late

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
        allowed_s = max(deadline_s, COMPILES_S) if compiles else deadline_s
        answered = threading.Event()
        alarm = threading.Timer(allowed_s, self._end_late, (allowed_s, answered))
        alarm.start()
        try:
            line = self._process.stdout.readline(_MOST_CHARACTERS)
        finally:
            with self._answering:
                answered.set()
            alarm.cancel()  # it may have gone off already
        if not line or self._late_s is not None:
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

    def _end_late(self, deadline_s: float, answered: threading.Event) -> None:
        with self._answering:
            if not answered.is_set():
                self._late_s = deadline_s
                self._process.kill()

    def _last_words(self) -> str:
        code = self._process.wait()
        self._errors.seek(0)
        lines = [line.strip() for line in self._errors if line.strip()]
        ended = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        if self._late_s is not None:
            ended = f"did not answer within {self._late_s:g} s, and was ended"
        return f"the child process {ended}" + (f": {lines[-1][:300]}" if lines else "")

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
        all_of(started, lambda child: child.wait(start_s))
        yield started
    finally:
        for child in started:
            child.end()


def all_of(started: Sequence[Child], work: Callable[[Child], _Result]) -> list[_Result]:
    """Have all children work at the same time. Raises ChildDied for the first that fails; the others are killed: they may
    wait for it.
    """
    with ThreadPoolExecutor(len(started)) as pool:
        answers = [pool.submit(work, child) for child in started]
        for answer in as_completed(answers):
            if answer.exception():
                for child in started:
                    child.kill()
                answer.result()
        return [answer.result() for answer in answers]
