"""A program that has the doctor imported, and runs commands in processes forked from it: one line of JSON each.

A process of its own costs a third of a second for the imports alone; forked, it takes hundredths.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import resource
import signal
import sys
import time
from typing import Any


def _become(order: dict[str, Any]) -> None:
    """In the forked process: the command, as `main` runs it."""
    os.setsid()
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["variables"])
    for number, path in enumerate((os.devnull, order["out"], order["said"])):
        place = os.open(path, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(place, number)
        os.close(place)
    for number in order["closed"]:
        os.close(number)
    for name, value in order["limits"].items():
        resource.setrlimit(getattr(resource, name), (value, value))
    sys.argv[1:] = order["command"]
    main.main()


def _wait(pid: int, longest_s: float) -> tuple[int | None, int]:
    """The exit code, None if it does not end, and the most memory, bytes, of it or a child of its."""
    ends = time.monotonic() + longest_s
    while time.monotonic() < ends:
        found, status, used = os.wait4(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status), used.ru_maxrss << 10
        time.sleep(0.005)
    os.killpg(pid, signal.SIGKILL)
    return None, os.wait4(pid, 0)[2].ru_maxrss << 10


# What commands import when they need it, but for DuckDB, which starts a thread on some Pythons. NumPy need not start any.
_NEEDED = ("checks", "collect.examination", "diagnose.engine", "diagnose.plugins", "host.toml_text", "cli.configuration",
           "cli.recorded", "cli.waiting", "render.text", "render.json_document", "fix.page", "fleet.merge", "fleet.page",
           "fleet.outliers", "fleet.history_read", "fleet.history_page", "fleet.store_write")  # fmt: skip


if __name__ == "__main__":
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    from tfgpu_doctor.cli import main

    if importlib.util.find_spec("numpy"):
        importlib.import_module("numpy")
    for name in (*_NEEDED, *(module for module, _ in main._COMMANDS.values())):
        importlib.import_module(f"tfgpu_doctor.{name}")
    importlib.import_module("elftools.elf.elffile")
    if sys.platform == "linux":  # a process that is forked from one with threads can wait for ever
        assert len(os.listdir("/proc/self/task")) == 1, "an import started a thread"

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        given = json.loads(line)
        child = os.fork()
        if not child:
            try:
                _become(given)
            finally:
                os._exit(70)
        code, most = _wait(child, given["longest_s"])
        sys.stdout.write(json.dumps({"pid": child, "code": code, "bytes": most}) + "\n")
        sys.stdout.flush()
