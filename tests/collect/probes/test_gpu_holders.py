"""The probe of what the processes on a GPU do, with processes that really run."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from healthy import ANSWERED, nvml_gpu

from tfgpu_doctor.collect.probes import gpu_holders as module
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts.gpu_holders import GpuHolder, GpuHolders
from tfgpu_doctor.model.facts.nvidia import GpuProcess, Nvml

if TYPE_CHECKING:
    from collect.probes.conftest import Machine

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
LOCKED = "import threading; lock = threading.Lock(); lock.acquire(); print(flush=True); lock.acquire()"
SERVES = (
    "import socket, threading; server = socket.create_server(('127.0.0.1', 0)); lock = threading.Lock(); lock.acquire(); "
    "print(flush=True); lock.acquire()"
)
COMPUTES = "print(flush=True)\nwhile True: pass"
SLEEPS = "import select; print(flush=True); select.select([], [], [], 600)"
GENEROUS_S = 30.0  # to begin to wait; not every kernel says where


def waits(pid: int) -> bool:
    """Whether the main thread waits, and has left its CPU."""
    state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    function = pathlib.Path(f"/proc/{pid}/wchan")
    return state == "S" and (not function.exists() or function.read_text().strip("\0\n ") not in ("", "0"))


@contextmanager
def running(program: str) -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        until = time.monotonic() + GENEROUS_S
        while program != COMPUTES and not waits(process.pid) and time.monotonic() < until:
            time.sleep(0.01)
        yield process.pid
    finally:
        process.kill()
        process.communicate()


def watched(pid: int, monkeypatch: pytest.MonkeyPatch) -> GpuHolder:
    monkeypatch.setattr(module, "_WATCHED_S", 0.5)
    found: GpuHolders = module.gpu_holders.function(Host(), on_gpu(pid))
    assert [each.pid for each in found.processes] == [pid]
    if not found.processes[0].waits_for and not found.processes[0].cpu_s:
        pytest.skip("this kernel does not say where a thread waits")
    return found.processes[0]


def on_gpu(pid: int, **changes: object) -> Nvml:
    held = GpuProcess(**{"pid": pid, "name": "python", "user": "anna", **changes})  # type: ignore[arg-type]
    return Nvml(attempt=ANSWERED, gpus=(nvml_gpu(processes=(held,)),))


@pytest.mark.parametrize(("program", "stuck"), [(LOCKED, True), (SERVES, False), (COMPUTES, False), (SLEEPS, False)])
def test_a_real_process(program: str, stuck: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(program) as pid:
        found = watched(pid, monkeypatch)
    assert found.is_stuck == stuck, found
    assert found.listens == (program == SERVES)


def test_a_process_that_is_gone(machine: Machine) -> None:
    assert machine.ask(module.gpu_holders, nvml=on_gpu(4242)) == GpuHolders()


@pytest.mark.parametrize("changes", [{"user": ""}, {"computes": False}])
def test_processes_that_are_not_looked_at(changes: dict[str, object]) -> None:
    found = module.gpu_holders.function(Host(), on_gpu(os.getpid(), **changes))
    assert found == GpuHolders()


def test_files_that_may_not_be_listed(
    machine: Machine, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_WATCHED_S", 0.01)
    machine.file("/proc/4242/stat", "4242 (py) thon) S " + "0 " * 49)
    machine.file("/proc/4242/wchan", "futex_do_wait")
    [found] = machine.ask(module.gpu_holders, nvml=on_gpu(4242)).processes
    assert (found.waits_for, found.listens, found.is_stuck) == ("lock", None, False)
