"""Time in which the doctor itself stands still (Ctrl-Z, a suspended job) is no fault of what it waits for; real processes."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from tfgpu_doctor.host.pauses import Pauses

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGSTOP")

SCALES = (1, 4, 16)  # until the start of a Python is short beside the deadline
CHILD = """
import os, sys, time
with open("new", "w") as file:
    file.write(str(os.getpid()))
os.rename("new", "child")
time.sleep(2)
print("x" * 200_000)
"""
RUN = f"""
import os, sys
from tfgpu_doctor.host import Processes
done = Processes().run([sys.executable, "-c", {CHILD!r}], deadline_s=float(sys.argv[1]), environment=dict(os.environ))
print(done.exit_code, len(done.stdout))
"""
EXAMINE = f"""
import os, sys
from tfgpu_doctor.collect import examination
from tfgpu_doctor.collect.probe import Request, probe
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts.machine import Pci
examination._MARGIN_S = float(sys.argv[1])
@probe(waits_for="the bus", deadline_s=0.1)
def pci(host: Host) -> Pci:
    host.run([sys.executable, "-c", {CHILD!r}], deadline_s=600.0)
    return Pci()
found = examination._Examination(Host(environment=dict(os.environ)), Request(python=sys.executable), [pci])
found.run(None)
print(found.facts().pci is not None, found.facts().unknown)
"""


def printed(program: str, folder: pathlib.Path, deadline_s: float, *, with_child: bool) -> str:
    """What a program prints that is stopped, with its child or without, for longer than the deadline."""
    argv = [sys.executable, "-c", program, str(deadline_s)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=folder) as process:
        while not (folder / "child").exists():
            if process.poll() is not None:
                return process.communicate()[0]
            time.sleep(0.01)
        stopped = [process.pid, *([int((folder / "child").read_text())] if with_child else [])]
        try:
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
            time.sleep(deadline_s + 3)
        except ProcessLookupError:
            return "this machine was too slow: the child had ended"
        finally:
            for pid in reversed(stopped):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        return process.communicate(timeout=300)[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "with_child", "right"),
    [(RUN, True, "0 200001\n"), (RUN, False, "0 200001\n"), (EXAMINE, False, "True {}\n")],
    ids=["a suspended job", "a full pipe", "an examination"],
)
def test_a_pause_is_no_hang(tmp_path: pathlib.Path, program: str, with_child: bool, right: str) -> None:
    for scale in SCALES:
        folder = tmp_path / str(scale)
        folder.mkdir()
        if (said := printed(program, folder, 4.0 * scale, with_child=with_child)) == right:
            break
    assert said == right


@pytest.mark.parametrize(("turns", "found"), [((0.1, 0.3, 1.9), [0.0, 0.0, 0.0]), ((0.1, 9.1, 0.1), [0.0, 9.0, 0.0])])
def test_only_long_turns_count(turns: tuple[float, ...], found: list[float]) -> None:
    now = 50.0
    clock: Callable[[], float] = lambda: now  # noqa: E731
    pauses = Pauses(0.1, clock)
    passed = []
    for turn in turns:
        now += turn
        passed.append(pauses.passed())
    assert passed == pytest.approx(found)
