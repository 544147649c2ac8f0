"""What Python writes is what the C libraries read, whatever the machine; and no text makes them fall over."""

from __future__ import annotations

import pathlib
import string
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rehearse.children import cuda_says, nvml_says
from simulated import Simulate

QUESTIONS = (
    "Name", "UUID", "MemoryInfo", "CudaComputeCapability", "ComputeMode", "PersistenceMode", "MigMode", "TotalEccErrors, 1, 1",
    "Temperature, 0", "PowerUsage", "ClockInfo, 1", "CurrPcieLinkWidth", "PcieReplayCounter", "CurrentClocksThrottleReasons",
    "ComputeRunningProcesses",
)  # fmt: skip
REASONS = ("gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown", "sync_boost")
NAMES = st.text(st.characters(exclude_categories=("Cs", "Cc"), max_codepoint=0x2FFF), min_size=1, max_size=20)
COUNTS = st.integers(0, (1 << 53) - 1)
SMALL = st.none() | st.integers(0, (1 << 32) - 1)
TENANTS = st.fixed_dictionaries({"pid": st.integers(1, 1 << 21), "name": NAMES, "memory_bytes": st.none() | COUNTS})
GPUS = st.fixed_dictionaries(
    {
        "name": NAMES.map(lambda name: f"Some GPU {name}"),
        "memory_bytes": COUNTS,
        "memory_used_bytes": COUNTS,
        "compute_capability": st.tuples(st.integers(1, 19), st.integers(0, 9)).map(lambda pair: "%d.%d" % pair),
        "multiprocessors": st.integers(0, 999),
        "compute_mode": st.sampled_from(["default", "prohibited", "exclusive_process"]),
        "persistence_mode": st.booleans(),
        "mig_mode": st.none() | st.just(False),
        "ecc": st.none() | st.fixed_dictionaries({"aggregate_uncorrected": COUNTS}),
        "temperature_c": st.fixed_dictionaries({"gpu": SMALL}),
        "power_w": st.fixed_dictionaries({"draw": st.none() | st.integers(0, 999_999).map(lambda mw: mw / 1000)}),
        "clocks_mhz": st.fixed_dictionaries({"sm": SMALL}),
        "pcie": st.fixed_dictionaries({"width": SMALL, "replays": SMALL}),
        "throttle_reasons": st.none() | st.lists(st.sampled_from(REASONS), unique=True),
        "processes": st.lists(TENANTS, max_size=3, unique_by=lambda row: row["pid"]),
    }
)


def expected(gpu: dict[str, Any], uuid: str) -> dict[str, Any]:
    """What NVML is to answer to the questions, None that is not supported as its code."""

    def told(value: Any) -> Any:
        return -3 if value is None else value

    used = min(gpu["memory_used_bytes"], gpu["memory_bytes"])
    draw, reasons = gpu["power_w"]["draw"], gpu["throttle_reasons"]
    answers = (
        gpu["name"],
        uuid,
        {"total": gpu["memory_bytes"], "used": used, "free": gpu["memory_bytes"] - used},
        [int(part) for part in gpu["compute_capability"].split(".")],
        {"default": 0, "prohibited": 2, "exclusive_process": 3}[gpu["compute_mode"]],
        int(gpu["persistence_mode"]),
        -3 if gpu["mig_mode"] is None else [0, 0],
        -3 if gpu["ecc"] is None else gpu["ecc"]["aggregate_uncorrected"],
        told(gpu["temperature_c"]["gpu"]),
        -3 if draw is None else round(draw * 1000),
        told(gpu["clocks_mhz"]["sm"]),
        told(gpu["pcie"]["width"]),
        told(gpu["pcie"]["replays"]),
        -3 if reasons is None else sum(1 << REASONS.index(reason) for reason in reasons),
    )
    return dict(zip(QUESTIONS, answers, strict=False))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(GPUS, max_size=5))
def test_what_is_written_is_read(simulate: Simulate, gpus: list[dict[str, Any]]) -> None:
    found = nvml_says(simulate(gpus=gpus), *QUESTIONS)["gpus"]
    for row, gpu in zip(found, gpus, strict=True):
        tenants = [(each["pid"], each["usedGpuMemory"]) for each in row.pop("ComputeRunningProcesses")]
        assert tenants == [(each["pid"], each["memory_bytes"]) for each in gpu["processes"]]
        assert row == expected(gpu, row["UUID"])
    assert len({row["UUID"] for row in found}) == len(gpus)


def test_as_many_gpus_as_there_may_be(simulate: Simulate) -> None:
    variables = simulate({"count": 64, "processes": [{"pid": 1}] * 20})
    assert len(nvml_says(variables, "Name", "ComputeRunningProcesses")["gpus"]) == 64
    assert len(cuda_says(variables)["devices"]) == 64


LINES = st.lists(
    st.text(string.ascii_letters + string.digits + "=.#- \t\r\x00", max_size=40)
    | st.sampled_from(
        ["gpus=2", "gpus=-1", "gpus=99999999999999999999", "gpus=x", "gpus.0.name=", "gpus.0.processes=-5"]
    )
    | st.sampled_from(
        ["gpus.0.mig_mode=1", "gpus.0.mig_devices=999", "gpus.0.nvlinks=9999999", "gpus.1.pci_address=:::"]
    )
    | st.sampled_from(["gpus.0.power_w.draw=1e9", "gpus.0.compute_capability=.", "fault.cuDeviceGetName=-7", "cuda=9"]),
    max_size=30,
)


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LINES, st.sampled_from(["\n", "\r\n", "\n\n"]))
def test_no_text_breaks_the_libraries(simulate: Simulate, tmp_path: pathlib.Path, lines: list[str], end: str) -> None:
    file = tmp_path / "machine.txt"
    file.write_bytes(end.join(lines).encode())
    variables = {**simulate(), "TFGPU_DOCTOR_MACHINE": str(file)}
    cuda_says(variables)
    nvml_says(variables, *QUESTIONS)


@pytest.mark.parametrize("content", [b"", b"\n", b"=", b"gpus", b"gpus=1", b"a" * 200_000, b"gpus=1\n" * 100_000])
def test_odd_files(simulate: Simulate, tmp_path: pathlib.Path, content: bytes) -> None:
    file = tmp_path / "machine.txt"
    file.write_bytes(content)
    found = cuda_says({**simulate(), "TFGPU_DOCTOR_MACHINE": str(file)})
    assert found["init"] == (0 if content.startswith(b"gpus=1") else 100)
