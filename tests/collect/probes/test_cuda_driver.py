"""The probe of the CUDA driver library, with recorded answers; see tests/collect/workers for those of a real library."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from tfgpu_doctor.collect.probe import Request
from tfgpu_doctor.collect.probes.cuda_driver import cuda_driver
from tfgpu_doctor.collect.probes.device_nodes import device_nodes
from tfgpu_doctor.collect.probes.nvml import nvml
from tfgpu_doctor.host import Completed
from tfgpu_doctor.model.facts.nvidia import CudaGpu

if TYPE_CHECKING:
    from collect.probes.conftest import Machine

LIBRARY = "/usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15"
OPENING = {"phase": "opening libcuda.so.1"}
OPENED = {"library": LIBRARY, "phase": "cuInit"}
GPU: dict[str, Any] = {
    "index": 0, "name": "NVIDIA A100-SXM4-80GB", "compute_capability": "8.0", "memory_bytes": 85_100_000_000,
    "multiprocessors": 108, "pci_address": "0000:07:00.0",
}  # fmt: skip


def lines(*rows: dict[str, Any]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def initialised(code: int, name: str) -> dict[str, Any]:
    return {"init_code": code, "init_name": name, "phase": "reading the driver's version"}


def test_a_driver_that_works(machine: Machine) -> None:
    output = lines(
        OPENING, OPENED, initialised(0, "CUDA_SUCCESS"), {"cuda_version": "12.4"}, {"phase": "listing the GPUs"}, {"gpus": [GPU]}
    )  # fmt: skip
    found = machine.ask(cuda_driver, done=Completed(output, "", 0.3, exit_code=0))
    assert found.works
    assert found.attempt.phase == ""
    assert (found.library, found.cuda_version, found.init_name) == (LIBRARY, "12.4", "CUDA_SUCCESS")
    assert found.gpus == (CudaGpu(**GPU),)


def test_a_library_that_is_not_there(machine: Machine) -> None:
    error = "libcuda.so.1: cannot open shared object file: No such file or directory"
    found = machine.ask(cuda_driver, done=Completed(lines(OPENING, {"library_error": error}), "", 0.1, exit_code=0))
    assert found.attempt.answered
    assert not found.works
    assert (found.library_error, found.init_code, found.library) == (error, None, "")


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (100, "CUDA_ERROR_NO_DEVICE"),
        (803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
        (999, "CUDA_ERROR_UNKNOWN"),
        (4711, ""),
    ],
)
def test_a_driver_that_refuses(machine: Machine, code: int, name: str) -> None:
    output = lines(OPENING, OPENED, initialised(code, name), {"cuda_version": "12.4"})
    found = machine.ask(cuda_driver, done=Completed(output, "", 0.1, exit_code=0))
    assert not found.works
    assert (found.init_code, found.init_name, found.cuda_version, found.gpus) == (code, name, "12.4", ())


def test_a_driver_that_is_too_slow(machine: Machine) -> None:
    found = machine.ask(cuda_driver, done=Completed(lines(OPENING, OPENED), "", 15.0, timed_out=True))
    assert not found.works
    assert found.attempt.ending == "did not respond within 15 s during 'cuInit'"
    assert (found.library, found.init_code) == (LIBRARY, None)


def test_a_driver_that_crashes(machine: Machine) -> None:
    done = Completed(lines(OPENING, OPENED), "", 0.1, exit_code=-11, signal="SIGSEGV")
    found = machine.ask(cuda_driver, done=done)
    assert not found.works
    assert found.attempt.ending == "was killed by SIGSEGV during 'cuInit'"


def test_a_driver_that_hangs_after_cuinit_does_not_work(machine: Machine) -> None:
    output = lines(
        OPENING, OPENED, initialised(0, "CUDA_SUCCESS"), {"cuda_version": "12.4"}, {"phase": "listing the GPUs"}
    )
    found = machine.ask(cuda_driver, done=Completed(output, "", 15.0, timed_out=True))
    assert not found.works
    assert (found.init_code, found.attempt.phase) == (0, "listing the GPUs")


@pytest.mark.parametrize(
    "output", [b"", b"junk", lines({"gpus": "many"}), lines({"init_code": None, "gpus": [{"x": 1}]})]
)
def test_an_answer_that_cannot_be_understood(machine: Machine, output: bytes) -> None:
    found = machine.ask(cuda_driver, done=Completed(output, "", 0.1, exit_code=0))
    assert found.attempt.outcome == "unparsable"
    assert not found.works
    assert (found.init_code, found.gpus) == (None, ())


def test_the_targets_interpreter_is_asked_and_within_the_users_patience(machine: Machine) -> None:
    done = Completed(b"", "", 0.0)
    machine.ask(cuda_driver, done=done, request=Request(python="/venv/bin/python", deadline_s=600))
    machine.ask(cuda_driver, done=done, request=Request(python="/venv/bin/python", deadline_s=3))
    patient, hasty = machine.asked
    assert patient.argv[0] == "/venv/bin/python"
    assert os.path.basename(patient.argv[-1]) == "open_libcuda.py"
    assert 60 <= patient.deadline_s <= 120
    assert hasty.deadline_s <= 3


@pytest.mark.parametrize("found_as", ["/dev/nvidia{}", "/sys/bus/pci/devices/0000:{:02x}:00.0"])
@pytest.mark.parametrize(("gpus", "least_s"), [(1, 15), (8, 30), (16, 56)])  # 30 s were seen on a server with eight
def test_many_gpus_without_persistence_mode_have_the_time_to_start(
    machine: Machine, found_as: str, gpus: int, least_s: float
) -> None:
    for index in range(gpus):
        place = found_as.format(index)
        if place.startswith("/dev"):
            machine.file(place)
        else:
            machine.file(f"{place}/vendor", "0x10de\n")
            machine.file(f"{place}/class", "0x030200\n")
    machine.file("/sys/bus/pci/devices/0000:00:02.0/vendor", "0x8086\n")
    machine.file("/sys/bus/pci/devices/0000:00:02.0/class", "0x030000\n")
    for each in (cuda_driver, nvml, device_nodes):
        if each is not device_nodes or found_as.startswith("/dev"):
            machine.ask(each, done=Completed(b"", "", 0.0))
    assert machine.asked[0].deadline_s >= least_s
    assert all(24 <= asked.deadline_s <= 75 for asked in machine.asked) or gpus == 1
    assert all(each.limit_s(Request(python="")) >= machine.asked[0].deadline_s for each in (cuda_driver, nvml))


def test_virtual_functions_on_the_bus_do_not_lengthen_it_without_end(machine: Machine) -> None:
    for index in range(160):
        machine.file(f"/sys/bus/pci/devices/0000:{index:02x}:00.1/vendor", "0x10de\n")
        machine.file(f"/sys/bus/pci/devices/0000:{index:02x}:00.1/class", "0x030200\n")
    machine.ask(cuda_driver, done=Completed(b"", "", 0.0))
    assert machine.asked[0].deadline_s <= 75
