"""All GPUs looked at several times a second: through the simulated driver's NVML."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from simulated import Simulate

import tfgpu_doctor.collect.workers
from tfgpu_doctor.collect.probes.stress_samples import Sampling, readings, sample
from tfgpu_doctor.host import Host

PROGRAM = pathlib.Path(tfgpu_doctor.collect.workers.__file__).parent / "sample_nvml.py"
TENANT = {"pid": 4711, "name": "python", "memory_bytes": 3 << 30}


def host(variables: dict[str, str]) -> Host:
    return Host(environment={"PATH": os.environ["PATH"], **variables})


def looked(variables: dict[str, str], *, seconds: float = 0.5, with_tenants: bool = False) -> Sampling:
    return sample(host(variables), seconds=seconds, every_s=0.1, with_tenants=with_tenants)


def test_gpus_are_described_and_looked_at_again_and_again(simulate: Simulate) -> None:
    found = looked(
        simulate({"count": 2, "temperature_c": {"gpu": 71, "slowdown": 90}, "clocks_mhz": {"sm": 1695, "max_sm": 2100}})
    )
    assert found.attempt.answered
    assert found.trouble == ""
    assert set(found.gpus) == {"0", "1"}
    assert (found.gpus["1"].max_sm_mhz, found.gpus["1"].slowdown_c) == (2100, 90)
    assert found.gpus["0"].uuid.startswith("GPU-")
    assert len(found.samples) >= 2
    for looks in found.samples.values():
        assert (looks["0"].sm_mhz, looks["0"].temperature_c) == (1695, 71)


def test_the_looks_in_a_few_figures(simulate: Simulate) -> None:
    found = looked(
        simulate(
            {
                "throttle_reasons": ["sw_power_cap", "sw_thermal_slowdown"],
                "power_w": {"draw": 340.5},
                "utilization_percent": 98,
            }
        )
    )
    told = readings(found.looks("0", [(0.0, float("inf"))]))
    assert told.samples == len(found.samples)
    assert told.reasons == {"sw_power_cap": 1.0, "sw_thermal_slowdown": 1.0}
    assert (told.power_w, told.utilization_percent) == (340.5, 98.0)


def test_idle_is_no_reason(simulate: Simulate) -> None:
    found = looked(simulate({"throttle_reasons": ["gpu_idle"]}))
    assert readings(found.looks("0", [(0.0, float("inf"))])).reasons == {}


def test_the_link_is_told(simulate: Simulate) -> None:
    (look, *_) = looked(simulate({"pcie": {"generation": 5, "width": 8}})).looks("0", [(0.0, float("inf"))])
    assert (look.pcie_generation, look.pcie_width) == (5, 8)


def test_who_uses_a_gpu_is_told_where_it_is_asked_for(simulate: Simulate) -> None:
    drawing = {"pid": 900, "name": "Xorg", "kind": "graphics", "memory_bytes": 1 << 30}
    variables = simulate({"processes": [TENANT, drawing], "memory_used_bytes": 5 << 30, "utilization_percent": 40})
    for look in looked(variables, with_tenants=True).looks("0", [(0.0, float("inf"))]):
        assert [(each.pid, each.name, each.memory_bytes) for each in look.tenants] == [(4711, "python", 3 << 30)]
        assert (look.used_bytes, look.drawing_bytes, look.utilization_percent) == (5 << 30, 1 << 30, 40)
    assert all(look.tenants == () for look in looked(variables).looks("0", [(0.0, float("inf"))]))


@pytest.mark.parametrize("pid", [0, 0xFFFFFFFF])
def test_processes_of_another_structure_than_was_read_are_nobody(pid: int) -> None:
    spec = importlib.util.spec_from_file_location("sample_nvml_of_test", PROGRAM)
    assert spec
    assert spec.loader
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    rows = [SimpleNamespace(pid=4194999, usedGpuMemory=1), SimpleNamespace(pid=pid, usedGpuMemory=2)]
    nvml = SimpleNamespace(NVMLError=OSError, nvmlDeviceGetComputeRunningProcesses=lambda handle: rows)
    assert program.tenants(nvml, None) == []
    rows[1].pid = 4194998
    assert [each["pid"] for each in program.tenants(nvml, None)] == [4194999, 4194998]


def test_what_nvml_does_not_support_is_none(simulate: Simulate) -> None:
    silent = {
        "throttle_reasons": None,
        "utilization_percent": None,
        "temperature_c": {"gpu": None},
        "pcie": {"generation": None},
    }
    (look, *_) = looked(simulate(silent)).looks("0", [(0.0, float("inf"))])
    assert (look.reasons, look.temperature_c, look.pcie_generation) == (None, None, None)


def test_a_machine_without_nvml_says_so(tmp_path: pathlib.Path) -> None:
    found = looked({"LD_LIBRARY_PATH": str(tmp_path)})
    assert found.attempt.answered
    assert found.samples == {}
    assert found.trouble


def test_nvml_that_does_not_initialise_says_so(simulate: Simulate) -> None:
    found = looked(simulate(faults={"nvmlInit": 18}))
    assert found.samples == {}
    assert "mismatch" in found.trouble.lower()


@pytest.mark.slow
def test_a_gpu_that_hangs_keeps_what_was_known(simulate: Simulate, monkeypatch: pytest.MonkeyPatch) -> None:
    variables = simulate({}, {"faults": {"nvmlDeviceGetTemperature": "hang"}})
    for start_s in (3.0, 20.0, 60.0):  # on a busy machine it gets as far as that later
        monkeypatch.setattr("tfgpu_doctor.collect.probes.stress_samples._START_S", start_s)
        found = looked(variables)
        assert found.attempt.outcome == "timed_out"
        if found.attempt.phase == "reading GPU 1":
            break
    assert found.attempt.phase == "reading GPU 1"
    assert set(found.gpus) == {"0", "1"}


def test_it_ends_when_it_is_told_to(simulate: Simulate) -> None:
    over = threading.Event()
    timer = threading.Timer(1.0, over.set)
    timer.start()
    found = sample(host(simulate()), seconds=500.0, every_s=0.1, until=over)
    timer.cancel()
    assert found.attempt.answered
    assert found.samples


def start(variables: dict[str, str]) -> subprocess.Popen[str]:
    """The program, whose standard input is held open by whoever started it."""
    argv = [
        sys.executable,
        "-E",
        "-S",
        str(PROGRAM),
        json.dumps(sys.path),
        json.dumps({"seconds": 500.0, "every_s": 0.1, "with_tenants": False}),
    ]
    process = subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={"PATH": os.environ["PATH"], **variables}
    )
    assert process.stdout is not None
    while "samples" not in process.stdout.readline():
        assert process.poll() is None
    return process


@pytest.mark.parametrize(
    "end",
    [lambda process: process.stdin.close(), lambda process: process.send_signal(signal.SIGTERM)],
    ids=["gone", "term"],
)
def test_it_ends_with_the_one_who_reads(simulate: Simulate, end: Callable[[subprocess.Popen[str]], None]) -> None:
    with start(simulate()) as process:
        end(process)
        until = time.monotonic() + 60
        assert process.stdout is not None
        while process.poll() is None and time.monotonic() < until:
            process.stdout.readline()
        ended = process.poll() is not None
        process.kill()
    assert ended
