"""Which GPUs are given up: those whose threads wait for the driver, not those that wait for a CPU."""

from __future__ import annotations

import hashlib
import importlib.util
import pathlib
import sys
import threading
import time
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import tfgpu_doctor

WORKERS = pathlib.Path(tfgpu_doctor.__file__).parent / "collect/workers"
QUIET_S, LONG_S = 0.2, 120.0


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(WORKERS))
    spec = importlib.util.spec_from_file_location("open_nvml_of_test", WORKERS / "open_nvml.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def computes() -> None:
    """For about a second without Python's lock, as a call of NVML does that waits for a CPU."""
    hashlib.pbkdf2_hmac("sha256", b"x", b"y", 2_000_000)


@pytest.mark.skipif(sys.platform != "linux", reason="the states of threads are read from /proc")
@pytest.mark.parametrize("gives_up", [False, True])
def test_a_thread_that_computes_is_waited_for(
    program: ModuleType, monkeypatch: pytest.MonkeyPatch, gives_up: bool
) -> None:
    answers = threading.Event()

    def handle(index: int) -> int:
        if index == 1:
            answers.wait() if gives_up else computes()
        return index

    def told(kind: str) -> list[int]:
        return sorted(index for answer in said for index in answer.get(kind, ()))

    said: list[dict[str, Any]] = []
    monkeypatch.setattr(program, "say", lambda **answer: said.append(answer))
    nvml = SimpleNamespace(NVMLError=OSError, nvmlDeviceGetHandleByIndex=handle)
    assert program.read(nvml, [0, 1], QUIET_S, time.monotonic() + LONG_S)
    assert (told("gpus"), told("troubles")) == (([0], [1]) if gives_up else ([0, 1], []))
    answers.set()
    until = time.monotonic() + LONG_S
    while told("gpus") != [0, 1] and time.monotonic() < until:  # its thread is not to outlive the test
        time.sleep(0.01)
    assert told("gpus") == [0, 1]


@pytest.mark.parametrize("pid", [0, 0xFFFFFFFF])
def test_processes_of_another_structure_than_was_read_are_nobody(program: ModuleType, pid: int) -> None:
    def ask(call: str, *arguments: object) -> object:
        rows = [SimpleNamespace(pid=each, usedGpuMemory=1 << 30) for each in (4194999, pid)]
        return {"nvmlDeviceGetComputeRunningProcesses": rows, "nvmlSystemGetProcessName": "train"}.get(call)

    assert program.processes(ask, None) == []
    pid = 4194998
    assert [row["pid"] for row in program.processes(ask, None)] == [4194999, 4194998]


@pytest.mark.skipif(sys.platform != "linux", reason="the states of threads are read from /proc")
def test_the_cpu_of_earlier_calls_is_not_that_of_the_call_that_waits(
    program: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It computes again after an earlier call that computed for longer: it waits for nobody but a CPU."""
    called: list[float] = []
    wanted: list[bool] = []
    monkeypatch.setattr(program, "describe", lambda ask, handle, row: ask("again"))

    def again() -> None:
        called.append(time.monotonic())
        computes()

    def handle(index: int) -> int:
        computes()
        return index

    nvml = SimpleNamespace(NVMLError=OSError, nvmlDeviceGetHandleByIndex=handle, again=again)
    monkeypatch.setattr(program, "say", lambda **answer: None)
    reader = program.Reader(nvml, 0, SimpleNamespace(put=lambda reader: None))
    while not called:
        time.sleep(0.01)
    until = time.monotonic() + LONG_S
    while reader._thread.is_alive() and time.monotonic() < until:
        wanted.append(reader.wants_cpu())
        time.sleep(0.01)
    assert wanted.count(True) > len(wanted) / 2
