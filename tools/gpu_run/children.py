"""Run a command in a process group of its own, until it ends or its time does; keep what it says in files."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

MARK = "RECORD_GPU_RUN"  # in the environment of each child, so that the last of them is found
_PATIENCE_S = (
    (signal.SIGINT, 8.0),
    (signal.SIGTERM, 4.0),
    (signal.SIGKILL, 4.0),
)  # a doctor tells at SIGINT what it knows
_GONE_S = 4.0  # for killed processes to be gone
_TAIL = 4000


@dataclass(frozen=True)
class Done:
    """A command that ended, and the files with its output."""

    name: str
    argv: tuple[str, ...]
    exit_code: int | None  # None: it could not be started
    seconds: float
    ended: str  # why it was ended; empty if it ended by itself
    out: pathlib.Path
    err: pathlib.Path

    @property
    def output(self) -> str:
        """Its standard output."""
        return self.out.read_text("utf-8", "replace")

    @property
    def complaint(self) -> str:
        """Why it gave no result, in one line: the last of its standard error."""
        lines = [line.strip() for line in self.err.read_text("utf-8", "replace")[-_TAIL:].splitlines() if line.strip()]
        errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Interrupt)\b|error:", line)]
        said = (errors or lines or ["it said nothing"])[-1][:300]
        return f"{self.ended or f'exit code {self.exit_code}'}: {said}"


def run(
    name: str,
    argv: Sequence[str],
    folder: pathlib.Path,
    limit_s: float,
    variables: Mapping[str, str | None] | None = None,
) -> Done:
    """Run a command for at most `limit_s`; a variable of None is taken away."""
    folder.mkdir(parents=True, exist_ok=True)
    out, err = folder / f"{name}.out", folder / f"{name}.err"
    environment = {**os.environ, **{key: value for key, value in (variables or {}).items() if value is not None}}
    for key in [key for key, value in (variables or {}).items() if value is None]:
        environment.pop(key, None)
    began, ended, code = time.monotonic(), "", None
    with open(out, "wb") as stdout, open(err, "wb") as stderr:
        try:
            with started(argv, environment, stdout.fileno(), stderr.fileno(), folder) as process:
                try:
                    code = process.wait(max(1.0, limit_s))
                except subprocess.TimeoutExpired:
                    ended = f"ended at its deadline of {limit_s:.0f} s"
                    code = end(process)
        except OSError as error:
            stderr.write(f"error: it cannot be started: {error.strerror}\n".encode())
    return Done(name, tuple(argv), code, round(time.monotonic() - began, 2), ended, out, err)


@contextlib.contextmanager
def started(
    argv: Sequence[str], environment: Mapping[str, str], stdout: int, stderr: int, folder: pathlib.Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that leads a group of its own; the group is ended when the block is left."""
    process = subprocess.Popen(
        argv,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        cwd=folder,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> int | None:
    """End a process and its group: asked first, then killed. Return its exit code."""
    for number, patience_s in _PATIENCE_S:
        if process.poll() is not None:
            break
        signal_group(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience_s)
    began = time.monotonic()
    while signal_group(process.pid, signal.SIGKILL) and time.monotonic() - began < _GONE_S:
        time.sleep(0.02)  # what the leader has left behind: the next command is not to find it on the GPU
    return process.poll()


def signal_group(group: int, number: signal.Signals) -> bool:
    """Send a signal to all processes of a group; return whether there are any."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def end_marked(mark: str) -> int:
    """Kill what still carries the mark of this run, in whatever group; return how many processes there were."""
    wanted, count = f"{MARK}={mark}".encode(), 0
    if not mark:
        return 0
    for place in pathlib.Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if int(place.parent.name) != os.getpid() and wanted in place.read_bytes().split(b"\0"):
                os.kill(int(place.parent.name), signal.SIGKILL)
                count += 1
    return count
