"""Commands that tell what they see while they run: each line as it arrives, and no process left behind."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tfgpu_doctor.host import streamed as module
from tfgpu_doctor.host.streamed import Streamed

pytestmark = pytest.mark.timed
LONG_S = 120.0
UNTIL_TOLD = "import json, os, sys; print(json.dumps({'pid': os.getpid()}), flush=True); sys.stdin.buffer.read()"
DEAF = "import json, os, time; print(json.dumps({'pid': os.getpid()}), flush=True); time.sleep(1000)"


class Heard(list[dict[str, Any]]):
    """What was said so far, and a way to wait for more."""

    def __init__(self) -> None:
        super().__init__()
        self.said = threading.Event()

    def hear(self, row: dict[str, Any]) -> None:
        self.append(row)
        self.said.set()


Stream = Callable[..., tuple[Streamed, Heard]]


@pytest.fixture
def stream() -> Iterator[Stream]:
    """Starts a Python program that is stopped at the end of the test."""
    started: list[Streamed] = []

    def start(code: str, python: str = sys.executable) -> tuple[Streamed, Heard]:
        heard = Heard()
        started.append(Streamed([python, "-c", code], environment=dict(os.environ), hear=heard.hear))
        started[-1].start()
        return started[-1], heard

    yield start
    for each in started:
        each.stop()


def eventually(holds: Callable[[], object]) -> bool:
    ends = time.monotonic() + LONG_S
    while not holds() and time.monotonic() < ends:
        time.sleep(0.05)
    return bool(holds())


def runs(pid: int) -> bool:
    """Whether a process runs; one that ended and that nobody waited for yet does not."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_lines_arrive_while_the_command_runs(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TO_END_S", LONG_S)  # Python may take longer to exit than the patience with it
    streamed, heard = stream(UNTIL_TOLD)
    assert heard.said.wait(LONG_S)
    assert streamed.ended == ""
    (row,) = heard
    streamed.stop()
    assert streamed.ended == "ended with exit code 0"
    assert not runs(row["pid"])
    streamed.stop()
    streamed.start()


def test_one_that_does_not_listen_is_killed_with_its_children(stream: Stream) -> None:
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', " + repr(DEAF) + "])"
    streamed, heard = stream(child)
    assert heard.said.wait(LONG_S)
    streamed.stop()
    assert eventually(lambda: streamed.ended == "was killed by SIGKILL")
    assert eventually(lambda: not runs(heard[0]["pid"]))


def test_children_that_it_left_behind_are_killed(stream: Stream) -> None:
    quiet = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', " + repr(DEAF) + "], stdin=-3)"
    streamed, heard = stream(quiet + ".poll(); sys.stdin.buffer.read()")
    assert heard.said.wait(LONG_S)
    streamed.stop()
    assert eventually(lambda: streamed.ended)
    assert eventually(lambda: not runs(heard[0]["pid"]))


def test_what_is_no_object_is_left_out(stream: Stream) -> None:
    streamed, heard = stream("print('a warning\\n{\"a\": 1}\\n[1]\\n{\"b\": \\n' + '[' * 99999 + '\\n\\n{\"c\": 2}')")
    assert eventually(lambda: streamed.ended == "ended with exit code 0: " + "[" * 300)
    assert heard == [{"a": 1}, {"c": 2}]


def test_one_that_fails_says_why(stream: Stream) -> None:
    streamed, _ = stream("import nothing_of_this_name")
    assert eventually(
        lambda: streamed.ended == "ended with exit code 1: ModuleNotFoundError: No module named 'nothing_of_this_name'"
    )


def test_one_that_crashes_names_the_signal(stream: Stream) -> None:
    streamed, _ = stream("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert eventually(lambda: streamed.ended == "was killed by SIGSEGV")


def test_one_that_is_not_there_did_not_start(stream: Stream, tmp_path: pathlib.Path) -> None:
    streamed, _ = stream("", str(tmp_path / "python"))
    assert eventually(lambda: streamed.ended == "did not start: No such file or directory")


def test_one_that_is_stopped_before_it_started_never_does() -> None:
    heard = Heard()
    streamed = Streamed([sys.executable, "-c", UNTIL_TOLD], environment={}, hear=heard.hear)
    streamed.stop()
    streamed.start()
    streamed.stop()
    assert heard == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the process is looked up in /proc")
def test_it_ends_with_the_one_who_listens(tmp_path: pathlib.Path) -> None:
    listener = (
        "import os, sys, time; from tfgpu_doctor.host.streamed import Streamed\n"
        f"s = Streamed([sys.executable, '-c', {UNTIL_TOLD!r}], environment=dict(os.environ), hear=lambda row: print(row['pid'], flush=True))\n"
        "s.start(); time.sleep(1000)"
    )
    with subprocess.Popen([sys.executable, "-c", listener], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert runs(pid)
        process.send_signal(signal.SIGKILL)
    assert eventually(lambda: not runs(pid))
