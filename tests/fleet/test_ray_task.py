"""What Ray runs on a node, without Ray: the doctor ends and the folder goes, however the worker ends."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from locations import TESTS

from tfgpu_doctor.collect.workers import ray_task

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Ray's workers are killed as on Linux")

PATIENCE_S = 60.0
# Starts as Ray's worker does: with the task's own file, and without the doctor on its path.
WORKER = """
import importlib.util, json, sys, time
spec = importlib.util.spec_from_file_location("ray_task", sys.argv[1])
task = importlib.util.module_from_spec(spec)
spec.loader.exec_module(task)
if sys.argv[2] == "hide":
    task.importlib.util.find_spec = lambda name: None
elif sys.argv[2] == "linger":
    task.tempfile.TemporaryDirectory.cleanup = lambda self: (print("removes", flush=True), time.sleep(600))
print(json.dumps(task.examine(["--name", "n", "--level", "quick"], {}, float(sys.argv[3]), lambda: None), default=len))
"""
# A doctor that waits: read by every Python of the test, and stops the doctor alone.
SITE = """
import os, sys, time
if "tfgpu_doctor" in sys.orig_argv and "-m" in sys.orig_argv:
    with open({started!r}, "a") as file:
        file.write(f"{{os.getpid()}} {{os.getppid()}}\\n")
    time.sleep(600)
"""


def worker(folder: pathlib.Path, how: str = "", deadline_s: float = PATIENCE_S) -> subprocess.Popen[str]:
    """Start a worker whose temporary folder and Python's own start are in this folder."""
    variables = {**os.environ, "PYTHONPATH": str(folder / "site"), "TMPDIR": str(folder / "tmp")}
    for name in ("site", "tmp"):
        (folder / name).mkdir(exist_ok=True)
    argv = [sys.executable, "-c", WORKER, ray_task.__file__, how, str(deadline_s)]
    return subprocess.Popen(argv, text=True, stdout=subprocess.PIPE, env=variables, cwd=TESTS.parent)


def answer(folder: pathlib.Path, how: str = "", deadline_s: float = PATIENCE_S) -> dict[str, str]:
    out, _ = worker(folder, how, deadline_s).communicate(timeout=PATIENCE_S)
    found: dict[str, str] = json.loads(out)
    return found


def wait_for(what: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < until
        time.sleep(0.05)


def runs(pid: int) -> bool:
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def hold(folder: pathlib.Path) -> pathlib.Path:
    """Make the doctor wait; returns the file that names it and its watcher once they run."""
    started = folder / "started"
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(SITE.format(started=str(started)))
    return started


@pytest.mark.parametrize("beside", [False, True], ids=["worker", "worker and watcher"])
def test_a_killed_worker_leaves_nothing(tmp_path: pathlib.Path, beside: bool) -> None:
    """Ray kills the direct children of a worker that ends (RAY_kill_child_processes_on_worker_exit)."""
    started = hold(tmp_path)
    process = worker(tmp_path)
    wait_for(lambda: started.exists() and started.read_text().endswith("\n"))
    doctor, watcher = map(int, started.read_text().split())
    assert len(list((tmp_path / "tmp").iterdir())) == 1
    os.kill(process.pid, signal.SIGKILL)
    if beside:
        os.kill(watcher, signal.SIGKILL)
    process.communicate(timeout=PATIENCE_S)
    wait_for(lambda: not runs(doctor) and not runs(watcher))
    wait_for(lambda: not list((tmp_path / "tmp").iterdir()))


def test_a_worker_that_is_killed_before_it_has_removed_its_folder_leaves_nothing(tmp_path: pathlib.Path) -> None:
    """Ray 2.60 sends SIGKILL about 0.1 s after SIGTERM: by then the doctor has ended, and the folder may still be there."""
    hold(tmp_path)
    process = worker(tmp_path, "linger", deadline_s=0.5)
    assert process.stdout is not None
    assert process.stdout.readline() == "removes\n"
    assert len(list((tmp_path / "tmp").iterdir())) == 1
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    wait_for(lambda: not list((tmp_path / "tmp").iterdir()))


def test_a_node_reports_and_leaves_nothing(tmp_path: pathlib.Path) -> None:
    assert set(answer(tmp_path)) == {"document"}
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_doctor_that_hangs_is_ended_and_told(tmp_path: pathlib.Path) -> None:
    started = hold(tmp_path)
    found = answer(tmp_path, deadline_s=3.0)
    assert (found["outcome"], found["why"]) == ("hung", "the doctor did not finish within 3 s on the node")
    if started.exists():
        assert not any(runs(int(word)) for word in started.read_text().split())
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize("whom", ["doctor", "watcher"])
def test_a_killed_doctor_died(tmp_path: pathlib.Path, whom: str) -> None:
    """Of a node that goes down its watcher may be killed before it: both began, so neither is "not started"."""
    started = hold(tmp_path)
    process = worker(tmp_path)
    wait_for(lambda: started.exists() and started.read_text().endswith("\n"))
    doctor, watcher = map(int, started.read_text().split())
    os.kill(watcher if whom == "watcher" else doctor, signal.SIGKILL)
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert json.loads(out) == {"outcome": "died", "why": "the doctor ended with signal 9"}
    wait_for(lambda: not runs(doctor) and not runs(watcher))
    wait_for(lambda: not list((tmp_path / "tmp").iterdir()))


def test_a_node_without_the_doctor_says_so(tmp_path: pathlib.Path) -> None:
    found = answer(tmp_path, "hide")
    assert found["outcome"] == "not started"
    assert found["why"].startswith("tfgpu-doctor is not installed in ")


def test_a_node_whose_doctor_is_broken_says_why(tmp_path: pathlib.Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "msgspec.py").write_text("raise ImportError('this one is broken')\n")
    found = answer(tmp_path)
    assert found["outcome"] == "not started"
    assert "this one is broken" in found["why"]
    assert "is not installed" not in found["why"]
    assert list((tmp_path / "tmp").iterdir()) == []
