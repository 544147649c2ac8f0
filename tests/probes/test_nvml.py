"""The probe of NVML, with recorded answers; see tests/inside for those of a real library."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tfgpu_doctor.facts import GpuProcess
from tfgpu_doctor.host import Completed
from tfgpu_doctor.probe import Request
from tfgpu_doctor.probes.nvml import nvml

if TYPE_CHECKING:
    from probes.conftest import Machine

OPENING, INIT = {"phase": "opening libnvidia-ml.so.1"}, {"phase": "nvmlInit"}
VERSION = {"driver_version": "550.54.15"}


def gpu(index: int, **changes: Any) -> dict[str, Any]:
    row = {
        "index": index, "name": "NVIDIA A100-SXM4-80GB", "uuid": f"GPU-{index}", "pci_address": f"00000000:0{index}:00.0",
        "compute_capability": "8.0", "memory_total_bytes": 85_899_345_920, "memory_free_bytes": 85_000_000_000,
        "compute_mode": "default", "mig": False, "mig_devices": [], "processes": [],
    }  # fmt: skip
    return {**row, **changes}


def lines(*rows: dict[str, Any]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def test_gpus_are_described(machine: Machine) -> None:
    tenants = [
        {"pid": 1234, "name": "python", "computes": True, "memory_bytes": 1 << 30},
        {"pid": 900, "name": "Xorg", "computes": False, "memory_bytes": None},
    ]
    output = lines(OPENING, INIT, VERSION, {"gpus": [gpu(0)]}, {"gpus": [gpu(0), gpu(1, processes=tenants, mig=True)]})
    found = machine.ask(nvml, done=Completed(output, "", 0.2, exit_code=0))
    assert found.works
    assert (found.driver_version, len(found.gpus)) == ("550.54.15", 2)
    assert found.gpus[0].memory_total_bytes == 80 << 30
    assert found.gpus[1].mig is True
    assert found.gpus[1].processes == (
        GpuProcess(pid=1234, name="python", memory_bytes=1 << 30),
        GpuProcess(pid=900, name="Xorg", computes=False),
    )


def test_a_gpu_that_does_not_say_much_is_still_there(machine: Machine) -> None:
    silent = gpu(0, memory_total_bytes=None, memory_free_bytes=None, mig=None, compute_mode="", name="")
    found = machine.ask(nvml, done=Completed(lines(VERSION, {"gpus": [silent]}), "", 0.2, exit_code=0))
    assert found.works
    assert (found.gpus[0].memory_total_bytes, found.gpus[0].mig) == (None, None)


def test_a_library_that_is_not_there(machine: Machine) -> None:
    error = "libnvidia-ml.so.1: cannot open shared object file: No such file or directory"
    found = machine.ask(nvml, done=Completed(lines(OPENING, {"library_error": error}), "", 0.1, exit_code=0))
    assert found.attempt.answered
    assert not found.works
    assert found.library_error == error


def test_a_code_of_nvml_is_kept(machine: Machine) -> None:
    answer = {"error_code": 18, "error_text": "Driver/library version mismatch"}
    found = machine.ask(nvml, done=Completed(lines(OPENING, INIT, answer), "", 0.1, exit_code=0))
    assert not found.works
    assert (found.error_code, found.error_text, found.gpus) == (18, "Driver/library version mismatch", ())


def test_the_gpus_before_the_one_that_hangs_are_known(machine: Machine) -> None:
    output = lines(OPENING, INIT, VERSION, {"phase": "reading GPU 0"}, {"gpus": [gpu(0)]}, {"phase": "reading GPU 1"})
    found = machine.ask(nvml, done=Completed(output, "", 15.0, timed_out=True))
    assert not found.works
    assert found.attempt.ending == "gave no answer within 15 s while at 'reading GPU 1'"
    assert [each.index for each in found.gpus] == [0]


def test_one_gpu_that_fails_leaves_the_others(machine: Machine) -> None:
    lost = {"error_code": 15, "error_text": "GPU 0: GPU is lost"}
    output = lines(VERSION, lost, {"gpus": []}, {"gpus": [gpu(1)]})
    found = machine.ask(nvml, done=Completed(output, "", 0.1, exit_code=0))
    assert not found.works
    assert (found.error_code, [each.index for each in found.gpus]) == (15, [1])


def test_a_library_that_crashes(machine: Machine) -> None:
    done = Completed(lines(OPENING, INIT), "", 0.1, exit_code=-11, signal="SIGSEGV")
    found = machine.ask(nvml, done=done)
    assert found.attempt.ending == "died of SIGSEGV while at 'nvmlInit'"
    assert not found.works


@pytest.mark.parametrize("output", [b"", b"junk", lines({"gpus": [{"name": "no index"}]}), lines({"error_code": "18"})])
def test_an_answer_that_cannot_be_understood(machine: Machine, output: bytes) -> None:
    found = machine.ask(nvml, done=Completed(output, "", 0.1, exit_code=0))
    assert found.attempt.outcome == "unparsable"
    assert not found.works
    assert found.gpus == ()


def test_the_doctors_own_interpreter_is_asked_with_its_search_path(machine: Machine) -> None:
    machine.ask(nvml, done=Completed(b"", "", 0.0), request=Request(python="/venv/bin/python"))
    (asked,) = machine.asked
    assert asked.argv[0] == sys.executable
    assert os.path.basename(asked.argv[-2]) == "open_nvml.py"
    assert json.loads(asked.argv[-1]) == sys.path
