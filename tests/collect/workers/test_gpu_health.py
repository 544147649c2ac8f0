"""The health of GPUs, read for real from the simulated driver: every reading, and GPUs that give none."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from every import sampled
from simulated import GPU, Simulate

from tfgpu_doctor.collect.probe import Request
from tfgpu_doctor.collect.probes.nvml import nvml
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts.health import (
    Clocks,
    Ecc,
    Fabric,
    GpuHealth,
    MigDevice,
    NvLink,
    Pcie,
    Power,
    RemappedRows,
    RetiredPages,
    Temperature,
)
from tfgpu_doctor.model.facts.nvidia import Nvml, NvmlGpu

DEADLINE_S = 8.0  # of all GPUs; one that does not answer is given up earlier
SICK = {
    "gsp_firmware": "550.54.15",
    "virtualization": "passthrough",
    "utilization_percent": 97,
    "mig_mode": False,
    "persistence_mode": False,
    "performance_state": 2,
    "recovery_action": "gpu_reset",
    "ecc": {"pending_mode": False, "volatile_corrected": 7, "volatile_uncorrected": 1, "aggregate_corrected": 1 << 40,
            "aggregate_uncorrected": 2, "sram_threshold_exceeded": True},
    "remapped_rows": {"corrected": 3, "uncorrected": 1, "pending": True, "banks_none_spare": 2},
    "retired_pages": {"corrected": 2, "uncorrected": 1, "pending": True},
    "temperature_c": {"gpu": 91, "memory": 95, "slowdown": 89, "shutdown": 94, "gpu_max": 85, "memory_max": 96, "margin": -2},
    "power_w": {"draw": 249.5, "limit": 300, "enforced_limit": 250, "default_limit": 400, "min_limit": 100, "max_limit": 400},
    "clocks_mhz": {"sm": 210, "memory": 1215, "max_sm": 1410, "max_memory": 1215},
    "throttle_reasons": ["sw_power_cap", "hw_slowdown", "hw_thermal_slowdown"],
    "pcie": {"generation": 1, "width": 8, "max_generation": 4, "max_width": 16, "gpu_max_generation": 5, "replays": 12, "bus": "fpci"},
    "chip_to_chip": True,
    "nvlinks": [{"remote": "switch", "version": 3, "crc_data_errors": 8}, {"active": False, "replays": 5}],
    "fabric": {"state": "in_progress", "status": 27},
}  # fmt: skip
TOLD = GpuHealth(
    ecc=Ecc(enabled=True, pending=False, volatile_corrected=7, volatile_uncorrected=1, aggregate_corrected=1 << 40,
            aggregate_uncorrected=2, sram_threshold_exceeded=True),
    remapped_rows=RemappedRows(corrected=3, uncorrected=1, pending=True,
                               banks={"all": 640, "most": 0, "some": 0, "few": 0, "none": 2}),
    retired_pages=RetiredPages(corrected=2, uncorrected=1, pending=True),
    recovery_action="gpu_reset",
    temperature=Temperature(gpu_c=91, memory_c=95, max_c=85, slowdown_c=89, shutdown_c=94, memory_max_c=96, margin_c=-2),
    power=Power(draw_w=249.5, limit_w=300, enforced_limit_w=250, default_limit_w=400, min_limit_w=100, max_limit_w=400),
    clocks=Clocks(sm_mhz=210, memory_mhz=1215, max_sm_mhz=1410, max_memory_mhz=1215),
    throttle_reasons=("sw_power_cap", "hw_slowdown", "hw_thermal_slowdown"),
    performance_state=2,
    utilization_percent=97,
    pcie=Pcie(generation=1, width=8, max_generation=4, max_width=16, gpu_max_generation=5, replays=12, bus="fpci"),
    chip_to_chip=True,
    nvlinks=(NvLink(index=0, active=True, version=3, remote="switch", errors={"crc_data_errors": 8}),
             NvLink(index=1, active=False)),
    fabric=Fabric(state="in_progress", status=27),
    mig_pending=False,
    persistence_mode=False,
    gsp_firmware="550.54.15",
    virtualization="passthrough",
)  # fmt: skip
SILENT: dict[str, Any] = {  # as in WSL, or in a virtual machine with a part of a GPU
    "performance_state": None, "utilization_percent": None, "throttle_reasons": None,
    "temperature_c": {"gpu": None, "slowdown": None, "shutdown": None, "gpu_max": None},
    "power_w": dict.fromkeys(("draw", "limit", "default_limit", "min_limit", "max_limit")),
    "clocks_mhz": dict.fromkeys(("sm", "memory", "max_sm", "max_memory")),
    "pcie": dict.fromkeys(("generation", "width", "max_generation", "max_width", "replays", "bus")),
}  # fmt: skip


def ask(variables: Mapping[str, str], *, deadline_s: float = 60.0) -> Nvml:
    """What the probe makes of a machine."""
    host = Host(environment={"PATH": os.environ["PATH"], **variables})
    found: Nvml = nvml.function(host, Request(python=sys.executable, deadline_s=deadline_s))
    return found


def only(found: Nvml) -> NvmlGpu:
    assert found.works, found.attempt
    (gpu,) = found.gpus
    return gpu


def test_every_reading_is_told(simulate: Simulate) -> None:
    assert only(ask(simulate(SICK))).health == TOLD


def test_what_nvml_does_not_support_is_not_told(simulate: Simulate) -> None:
    gpu = only(ask(simulate(SILENT)))
    assert gpu.health == GpuHealth(persistence_mode=True)
    assert (gpu.name, gpu.memory_total_bytes) == (GPU, 24 << 30)


def test_ecc_that_is_off_counts_nothing(simulate: Simulate) -> None:
    assert only(ask(simulate({"ecc": {"mode": False}}))).health.ecc == Ecc(enabled=False, pending=False)


@pytest.mark.parametrize(("licence", "licensed"), [("licensed", True), ("unlicensed", False), (None, None)])
def test_the_licence_of_a_vgpu_is_told(simulate: Simulate, licence: str | None, licensed: bool | None) -> None:
    health = only(ask(simulate({"virtualization": "vgpu", "licence": licence}))).health
    assert (health.virtualization, health.licensed) == ("vgpu", licensed)


def test_mig_devices_are_told_with_profile_and_memory(simulate: Simulate) -> None:
    slices = [{"profile": "3g.20gb", "uuid": "MIG-a", "memory_bytes": 20 << 30, "memory_used_bytes": 1 << 30,
               "multiprocessors": 42}, {"profile": "1g.5gb", "uuid": "MIG-b", "memory_bytes": 5 << 30}]  # fmt: skip
    gpu = only(ask(simulate({"name": "A100 40GB", "mig_mode": True, "mig_devices": slices})))
    assert (gpu.mig, gpu.mig_devices, gpu.health.mig_pending) == (True, ("MIG-a", "MIG-b"), True)
    assert gpu.health.mig_devices == (
        MigDevice(uuid="MIG-a", profile="3g.20gb", memory_total_bytes=20 << 30, memory_free_bytes=19 << 30,
                  multiprocessors=42, gpu_instance=1, compute_instance=0),
        MigDevice(uuid="MIG-b", profile="1g.5gb", memory_total_bytes=5 << 30, memory_free_bytes=5 << 30,
                  multiprocessors=16, gpu_instance=2, compute_instance=0),
    )  # fmt: skip


def test_gpus_that_the_driver_leaves_alone_are_named(simulate: Simulate) -> None:
    found = ask(simulate(excluded_gpus=["0000:81:00.0"]))
    assert (found.count, found.excluded) == (1, ("00000000:81:00.0",))


def numbers(found: Nvml) -> list[int]:
    return [gpu.index for gpu in found.gpus]


def ask_in_time(
    variables: Mapping[str, str], silent: Sequence[int], *, deadline_s: float, locked: Sequence[int] = ()
) -> tuple[Nvml, float]:
    """What the probe makes of a machine some of whose GPUs hang, and the deadline at which it tells of each GPU.

    On a busy machine that is a later one. Never is a GPU accused that does not hang, unless it waits for one that does.
    """
    for each_s in (deadline_s, 30.0, 90.0):
        found = ask(variables, deadline_s=each_s)
        told = [trouble.index for trouble in found.troubles]
        assert set(told) <= {*silent, *locked}, found.troubles
        if told == list(silent) and len(found.gpus) + len(told) == found.count and found.attempt.seconds < each_s:
            break
    return found, each_s


@pytest.mark.parametrize(
    "call", sampled(["nvmlDeviceGetHandleByIndex", "nvmlDeviceGetTemperature", "nvmlDeviceGetNvLinkState"], 3)
)
def test_a_gpu_that_hangs_costs_its_deadline_once(simulate: Simulate, call: str) -> None:
    variables = simulate({"count": 3}, {"faults": {call: "hang"}}, {"count": 4})
    found, deadline_s = ask_in_time(variables, [3], deadline_s=DEADLINE_S)
    assert found.works
    assert (found.count, numbers(found)) == (8, [0, 1, 2, 4, 5, 6, 7])
    (trouble,) = found.troubles
    assert (trouble.index, trouble.is_silent) == (3, True)
    assert trouble.call.startswith(call)
    assert 0 < trouble.seconds < deadline_s
    assert found.attempt.seconds < deadline_s  # the child ended itself
    known = (GPU, "00000000:04:00.0")
    assert (trouble.name, trouble.pci_address) == (("", "") if "Handle" in call else known)


@pytest.mark.slow
def test_a_gpu_that_holds_the_lock_does_not_hide_the_others(simulate: Simulate) -> None:
    variables = simulate({}, {"faults": {"nvmlDeviceGetHandleByIndex": "wedge"}}, {})
    found, _ = ask_in_time(variables, [1], deadline_s=2 * DEADLINE_S, locked=[0, 2])
    assert found.works
    assert numbers(found) == [0, 2]
    assert [(trouble.index, trouble.is_silent) for trouble in found.troubles] == [(1, True)]


@pytest.mark.slow
def test_two_gpus_that_hang_are_both_named(simulate: Simulate) -> None:
    hangs = {"faults": {"nvmlDeviceGetPowerUsage": "hang"}}
    found, _ = ask_in_time(simulate({}, hangs, hangs), [1, 2], deadline_s=2 * DEADLINE_S)
    assert numbers(found) == [0]
    assert [trouble.index for trouble in found.troubles] == [1, 2]


def test_a_slow_start_of_one_gpu_after_another_is_no_hang(simulate: Simulate) -> None:
    """As long as some GPU answers, the others may still be waiting for their turn."""
    found = ask(simulate({"count": 16}))
    assert (len(found.gpus), found.troubles) == (16, ())


def test_a_lost_gpu_is_told_with_its_code(simulate: Simulate) -> None:
    found = ask(simulate({}, {"faults": {"nvmlDeviceGetHandleByIndex": 15}}))
    assert (found.works, numbers(found)) == (True, [0])
    (trouble,) = found.troubles
    assert (trouble.index, trouble.call, trouble.error_code) == (1, "nvmlDeviceGetHandleByIndex", 15)
    assert "lost" in trouble.error_text


@pytest.mark.parametrize("code", [15, 16])
def test_a_gpu_that_is_lost_while_it_is_read_is_told_with_what_is_known(simulate: Simulate, code: int) -> None:
    found = ask(simulate({"faults": {"nvmlDeviceGetPowerUsage": code}}))
    assert only(found).health.temperature.gpu_c == 41
    (trouble,) = found.troubles
    assert (trouble.index, trouble.name, trouble.error_code) == (0, GPU, code)
    assert trouble.call == "nvmlDeviceGetPowerUsage"


def test_a_code_of_another_kind_is_a_question_without_an_answer(simulate: Simulate) -> None:
    found = ask(simulate({"faults": {"nvmlDeviceGetTemperature": 999, "nvmlDeviceGetMemoryInfo": 4}}))
    gpu = only(found)
    assert (gpu.health.temperature.gpu_c, gpu.memory_total_bytes, found.troubles) == (None, None, ())


def test_a_crash_while_gpus_are_read_is_one_of_nvml(simulate: Simulate) -> None:
    found = ask(simulate({"faults": {"nvmlDeviceGetPowerUsage": "crash"}}))
    assert found.attempt.ending == "was killed by SIGSEGV during 'reading the GPUs'"
    assert not found.works
