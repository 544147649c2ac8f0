"""libnvidia-ml of the simulated driver, read by the real nvidia-ml-py."""

from __future__ import annotations

import pathlib
import signal
import subprocess
import sys
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from rehearse.children import nvml_says, run
from simulated import Simulate

from tfgpu_doctor.rehearse.machine import known_calls

NOT_SUPPORTED = -3
MIB = 1 << 20
SICK = {
    "name": "A100",
    "serial": "1320123456789",
    "vbios": "92.00.45.00.03",
    "part_number": "900-21001-0000-000",
    "memory_used_bytes": 1000 * MIB,
    "utilization_percent": 97,
    "memory_utilization_percent": 40,
    "fan_percent": 30,
    "mig_mode": False,
    "persistence_mode": False,
    "performance_state": 2,
    "compute_mode": "exclusive_process",
    "ecc": {"volatile_corrected": 7, "volatile_uncorrected": 1, "aggregate_corrected": 1 << 40, "aggregate_uncorrected": 2},
    "remapped_rows": {"corrected": 3, "uncorrected": 1, "pending": True, "failed": False},
    "retired_pages": {"corrected": 2, "uncorrected": 1, "pending": True},
    "temperature_c": {"gpu": 91, "memory": 95, "slowdown": 89, "shutdown": 94, "gpu_max": 85, "memory_max": 95},
    "power_w": {"draw": 399.5, "limit": 400, "default_limit": 400, "min_limit": 100, "max_limit": 400},
    "clocks_mhz": {"graphics": 210, "sm": 210, "memory": 1215, "video": 585, "max_graphics": 1410, "max_sm": 1410, "max_memory": 1215, "max_video": 1290},
    "throttle_reasons": ["hw_slowdown", "hw_thermal_slowdown"],
    "pcie": {"generation": 1, "width": 8, "max_generation": 4, "max_width": 16, "replays": 12},
    "nvlinks": [{}, {"active": False, "replays": 5, "recoveries": 6, "crc_flit_errors": 7, "crc_data_errors": 8}],
    "processes": [
        {"pid": 900, "name": "/usr/lib/xorg/Xorg", "kind": "graphics", "memory_bytes": 4 * MIB},
        {"pid": 1234, "name": "python", "memory_bytes": 900 * MIB},
        {"pid": 1235, "name": "python"},
    ],
}  # fmt: skip
READINGS = {
    "Name": "NVIDIA A100-SXM4-80GB",
    "Serial": "1320123456789",
    "VbiosVersion": "92.00.45.00.03",
    "BoardPartNumber": "900-21001-0000-000",
    "Index": 0,
    "MinorNumber": 0,
    "CudaComputeCapability": [8, 0],
    "Architecture": 7,
    "MemoryInfo": {"total": 81920 * MIB, "free": 80920 * MIB, "used": 1000 * MIB},
    "UtilizationRates": {"gpu": 97, "memory": 40},
    "FanSpeed": 30,
    "MigMode": [0, 0],
    "PersistenceMode": 0,
    "PerformanceState": 2,
    "ComputeMode": 3,
    "EccMode": [1, 1],
    "TotalEccErrors, 0, 0": 7,
    "TotalEccErrors, 1, 0": 1,
    "TotalEccErrors, 0, 1": 1 << 40,
    "TotalEccErrors, 1, 1": 2,
    "MemoryErrorCounter, 1, 0, 2": 1,
    "MemoryErrorCounter, 1, 0, 0": 0,
    "RemappedRows": [3, 1, 1, 0],
    "RetiredPages, 0": [0x1000, 0x2000],
    "RetiredPages_v2, 1": [{"address": 0x1000, "timestamp": 0}],
    "RetiredPagesPendingStatus": 1,
    "Temperature, 0": 91,
    "TemperatureV, 0": 91,
    "TemperatureThreshold, 0": 94,
    "TemperatureThreshold, 1": 89,
    "TemperatureThreshold, 2": 95,
    "TemperatureThreshold, 3": 85,
    "TemperatureThreshold, 4": NOT_SUPPORTED,
    "PowerUsage": 399500,
    "PowerManagementLimit": 400000,
    "EnforcedPowerLimit": 400000,
    "PowerManagementDefaultLimit": 400000,
    "PowerManagementLimitConstraints": [100000, 400000],
    "ClockInfo, 0": 210,
    "ClockInfo, 2": 1215,
    "MaxClockInfo, 1": 1410,
    "MaxClockInfo, 3": 1290,
    "CurrentClocksThrottleReasons": 0x48,
    "CurrentClocksEventReasons": 0x48,
    "SupportedClocksEventReasons": 0x7FF,
    "CurrPcieLinkGeneration": 1,
    "CurrPcieLinkWidth": 8,
    "MaxPcieLinkGeneration": 4,
    "MaxPcieLinkWidth": 16,
    "PcieReplayCounter": 12,
    "NvLinkState, 0": 1,
    "NvLinkState, 1": 0,
    "NvLinkState, 2": -2,
    "NvLinkErrorCounter, 1, 0": 5,
    "NvLinkErrorCounter, 1, 3": 8,
}
NOTHING: dict[str, Any] = {
    "performance_state": None, "utilization_percent": None, "throttle_reasons": None,
    "temperature_c": {"gpu": None}, "power_w": {"draw": None}, "clocks_mhz": {"sm": None}, "pcie": {"generation": None},
}  # fmt: skip


def test_every_reading_is_read(simulate: Simulate) -> None:
    (found,) = nvml_says(simulate(SICK), *READINGS)["gpus"]
    assert found == READINGS


def test_processes_are_those_of_their_kind(simulate: Simulate) -> None:
    (found,) = nvml_says(
        simulate(SICK), "ComputeRunningProcesses", "GraphicsRunningProcesses", "MPSComputeRunningProcesses"
    )["gpus"]
    compute = [(row["pid"], row["usedGpuMemory"]) for row in found["ComputeRunningProcesses"]]
    assert compute == [(1234, 900 * MIB), (1235, None)]
    assert [row["pid"] for row in found["GraphicsRunningProcesses"]] == [900]
    assert found["MPSComputeRunningProcesses"] == []


def test_fields_are_read(simulate: Simulate) -> None:
    code = (
        "import pynvml as n; n.nvmlInit(); h = n.nvmlDeviceGetHandleByIndex(0)\n"
        "print([(v.nvmlReturn, v.value.ullVal) for v in n.nvmlDeviceGetFieldValues(h, [1, 4, 31, 82, 94, 144, 999])])"
    )
    assert run(code, simulate(SICK)).stdout == "[(0, 1), (0, 1), (0, 1), (0, 95), (0, 12), (0, 1), (3, 0)]\n"


def test_a_field_has_the_type_that_tensorflow_expects(simulate: Simulate) -> None:
    """From 2.22 on it logs an error for a number of links that is no unsigned int."""
    code = (
        "import pynvml as n; n.nvmlInit(); h = n.nvmlDeviceGetHandleByIndex(0)\n"
        "print([(v.valueType, v.value.uiVal) for v in n.nvmlDeviceGetFieldValues(h, [91, 94])])"
    )
    assert run(code, simulate(SICK)).stdout == "[(1, 2), (3, 12)]\n"


@pytest.mark.parametrize(
    "question",
    ["PerformanceState", "UtilizationRates", "CurrentClocksThrottleReasons", "Temperature, 0", "PowerUsage", "ClockInfo, 1",
     "CurrPcieLinkGeneration", "MigMode", "EccMode", "TotalEccErrors, 0, 0", "RemappedRows", "RetiredPages, 0", "NvLinkState, 0",
     "Serial", "FanSpeed", "GpuFabricInfo"],
)  # fmt: skip
def test_what_the_machine_does_not_say_is_not_supported(simulate: Simulate, question: str) -> None:
    if question == "GpuFabricInfo":
        code = (
            "import pynvml as n; n.nvmlInit(); h = n.nvmlDeviceGetHandleByIndex(0)\n"
            "try: n.nvmlDeviceGetGpuFabricInfoV(h, n.byref(n.c_nvmlGpuFabricInfo_v2_t()))\nexcept n.NVMLError as e: print(-e.value)"
        )
        assert run(code, simulate(NOTHING)).stdout == "-3\n"
    else:
        assert nvml_says(simulate(NOTHING), question)["gpus"] == [{question: NOT_SUPPORTED}]


def test_ecc_that_is_off_counts_nothing(simulate: Simulate) -> None:
    (found,) = nvml_says(simulate({"ecc": {"mode": False}}), "EccMode", "TotalEccErrors, 0, 0")["gpus"]
    assert found == {"EccMode": [0, 0], "TotalEccErrors, 0, 0": NOT_SUPPORTED}


@pytest.mark.parametrize("address", ["0000:3b:00.0", "00000000:3B:00.0", "3B:00.0"])
def test_a_gpu_is_found_by_its_address(simulate: Simulate, address: str) -> None:
    code = (
        "import pynvml as n, sys; n.nvmlInit(); h = n.nvmlDeviceGetHandleByPciBusId(sys.argv[1].encode())\n"
        "p = n.nvmlDeviceGetPciInfo(h); print(n.nvmlDeviceGetIndex(h), p.bus, p.busId, p.busIdLegacy, hex(p.pciDeviceId))"
    ).replace("sys.argv[1]", repr(address))
    done = run(code, simulate({}, {"pci_address": "0000:3b:00.0", "pci_device": "2204"}))
    if address.count(":") == 2:
        assert done.stdout == "1 59 00000000:3B:00.0 0000:3B:00.0 0x220410de\n", done.stderr
    else:
        assert "NotFound" in done.stderr


def test_mig_devices_are_gpus_of_their_own(simulate: Simulate) -> None:
    code = """
import pynvml as n
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(0)
m = n.nvmlDeviceGetMigDeviceHandleByIndex(h, 1)
print(n.nvmlDeviceGetMigMode(h), n.nvmlDeviceGetMaxMigDeviceCount(h), n.nvmlDeviceIsMigDeviceHandle(m).value, n.nvmlDeviceIsMigDeviceHandle(h).value)
print(n.nvmlDeviceGetName(m), n.nvmlDeviceGetUUID(m), n.nvmlDeviceGetMemoryInfo(m).total >> 30, n.nvmlDeviceGetMemoryInfo(m).used)
print(n.nvmlDeviceGetGpuInstanceId(m), n.nvmlDeviceGetComputeInstanceId(m), n.nvmlDeviceGetAttributes(m).multiprocessorCount)
print(n.nvmlDeviceGetIndex(n.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(m)))
print(n.nvmlDeviceGetName(n.nvmlDeviceGetHandleByUUID(b"MIG-two")))
try: n.nvmlDeviceGetMigDeviceHandleByIndex(h, 2)
except n.NVMLError_NotFound: print("no third")
"""
    two = {
        "profile": "3g.20gb",
        "uuid": "MIG-two",
        "memory_bytes": 20 << 30,
        "memory_used_bytes": 5,
        "multiprocessors": 42,
    }
    done = run(code, simulate({"name": "A100 40GB", "mig_mode": True, "mig_devices": [{}, two]}))
    name = "NVIDIA A100-SXM4-40GB MIG 3g.20gb"
    lines = ["[1, 1] 7 1 0", f"{name} MIG-two 20 5", "2 0 42", "0", name, "no third"]
    assert done.stdout.splitlines() == lines, done.stderr


def test_a_fault_of_one_gpu_is_no_fault_of_another(simulate: Simulate) -> None:
    gpus = nvml_says(
        simulate({}, {"faults": {"nvmlDeviceGetTemperature": 15}}, {}), "Temperature, 0", "TemperatureV, 0"
    )["gpus"]
    assert [row["Temperature, 0"] for row in gpus] == [41, -15, 41]
    assert [row["TemperatureV, 0"] for row in gpus] == [41, -15, 41]


def test_a_lost_gpu_has_no_handle(simulate: Simulate) -> None:
    gpus = nvml_says(simulate({}, {"faults": {"nvmlDeviceGetHandleByIndex": 15}}), "Name")["gpus"]
    assert gpus == [{"Name": "NVIDIA GeForce RTX 3090"}, -15]


@pytest.mark.parametrize(("fault", "meant"), [("nvmlInit", True), ("nvmlInitWithFlags", True), ("nvmlInit_v2", False)])
def test_a_call_without_its_version_is_every_version(simulate: Simulate, fault: str, meant: bool) -> None:
    assert nvml_says(simulate(faults={fault: 18}))["init"] == (-18 if meant else None)


def test_without_a_machine_no_driver_is_loaded(simulate: Simulate) -> None:
    variables = simulate()
    del variables["TFGPU_DOCTOR_MACHINE"]
    assert nvml_says(variables)["init"] == -9


def test_a_crash_is_a_real_one(simulate: Simulate) -> None:
    done = run(
        "import pynvml as n; n.nvmlInit(); n.nvmlDeviceGetCount()", simulate(faults={"nvmlDeviceGetCount": "crash"})
    )
    assert done.returncode == -signal.SIGSEGV


@pytest.mark.slow
def test_a_hang_is_a_real_one(simulate: Simulate) -> None:
    variables = simulate({"faults": {"nvmlDeviceGetTemperature": "hang"}})
    code = "import pynvml as n; n.nvmlInit(); print('before', flush=True); n.nvmlDeviceGetTemperature(n.nvmlDeviceGetHandleByIndex(0), 0)"
    with subprocess.Popen([sys.executable, "-c", code], env=variables, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == b"before\n"
            with pytest.raises(subprocess.TimeoutExpired):
                child.wait(timeout=3)
        finally:
            child.kill()


def test_the_calls_are_known_by_name(driver_folder: pathlib.Path) -> None:
    """What a machine's file may let fail is what the libraries export, and nothing else."""
    exported = set()
    for library in driver_folder.iterdir():
        with library.open("rb") as file:
            section = ELFFile(file).get_section_by_name(".dynsym")
            assert isinstance(section, SymbolTableSection)
            exported |= {each.name for each in section.iter_symbols() if each.entry.st_shndx != "SHN_UNDEF"}
    assert known_calls() == exported - {"nvmlErrorString"}
