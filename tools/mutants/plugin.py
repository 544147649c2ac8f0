"""A pytest plugin that collects once and then, for each fault, runs the tests that reach it in a fork until one fails.

TFGPU_MUTANT_JOB names a JSON file: `{"faults": {number: [test, ...]}, "results": FILE, "timeout_s": seconds}`.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import sys
import time
from typing import Any

import pytest

_JOB = "TFGPU_MUTANT_JOB"


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Replace the normal run of all tests."""
    job: dict[str, Any] = json.loads(pathlib.Path(os.environ[_JOB]).read_text())
    items = {item.nodeid: item for item in session.items}
    results = pathlib.Path(job["results"])
    for number, tests in job["faults"].items():
        chosen = [items[test] for test in tests if test in items]
        verdict = _in_a_fork(session, int(number), chosen, job["timeout_s"])
        with results.open("a") as file:
            file.write(json.dumps({"number": int(number), "tests": len(chosen), **verdict}) + "\n")
    return True


def _in_a_fork(session: pytest.Session, number: int, items: list[pytest.Item], timeout_s: float) -> dict[str, Any]:
    began = time.monotonic()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.close(reading)
        _run(session, number, items, writing)
    os.close(writing)
    verdict = "survived"
    failed = ""
    while not _ended(child):
        if time.monotonic() - began > timeout_s:
            verdict = "timeout"
            break
        time.sleep(0.02)
    _end_group(child)
    with os.fdopen(reading) as pipe:
        os.set_blocking(reading, False)
        said = pipe.read() if verdict != "timeout" else ""
    if said.startswith("killed "):
        verdict, failed = "killed", said.removeprefix("killed ")
    elif verdict == "survived" and said != "survived":
        verdict = "died"
    return {"verdict": verdict, "by": failed, "seconds": round(time.monotonic() - began, 2)}


def _ended(child: int) -> bool:
    return os.waitpid(child, os.WNOHANG)[0] != 0


def _end_group(child: int) -> None:
    try:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
    except (ProcessLookupError, ChildProcessError, PermissionError):
        pass


def _run(session: pytest.Session, number: int, items: list[pytest.Item], writing: int) -> None:
    """Run in the child process; never returns."""
    os.environ["TFGPU_MUTANT"] = str(number)
    import tfgpu_mutants  # type: ignore[import-not-found]

    tfgpu_mutants.chosen = number
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    watcher = _FirstFailure()
    session.config.pluginmanager.register(watcher, "first-failure")
    answer = "survived"
    for place, item in enumerate(items):
        following = items[place + 1] if place + 1 < len(items) else None
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if watcher.failed:
            answer = f"killed {watcher.failed}"
            break
    os.write(writing, answer.encode())
    os._exit(0)


class _FirstFailure:
    """Record the name of the first test that fails in any phase."""

    failed = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid


if __name__ == "__main__":
    sys.exit("this is a plugin for tools/measure_mutants.py")
