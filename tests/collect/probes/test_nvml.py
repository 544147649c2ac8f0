"""The probe of NVML, with recorded answers; see tests/collect/workers for those of a real library."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tfgpu_doctor.collect.probe import Request
from tfgpu_doctor.collect.probes.nvml import nvml
from tfgpu_doctor.host import Completed
from tfgpu_doctor.model.facts.health import Ecc, GpuTrouble, NvLink
from tfgpu_doctor.model.facts.nvidia import GpuProcess

if TYPE_CHECKING:
    from collect.probes.conftest import Machine

OPENING, INIT = {"phase": "opening libnvidia-ml.so.1"}, {"phase": "nvmlInit"}
VERSION = {"driver_version": "550.54.15", "count": 2, "excluded": []}
FINISHED = {"finished": True}


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
    output = lines(
        OPENING, INIT, VERSION, {"gpus": {"1": gpu(1, processes=tenants, mig=True)}}, {"gpus": {"0": gpu(0)}}, FINISHED
    )
    found = machine.ask(nvml, done=Completed(output, "", 0.2, exit_code=0))
    assert found.works
    assert (found.driver_version, found.count) == ("550.54.15", 2)
    assert [each.index for each in found.gpus] == [0, 1]
    assert found.gpus[0].memory_total_bytes == 80 << 30
    assert found.gpus[1].mig is True
    assert found.gpus[1].processes == (
        GpuProcess(pid=1234, name="python", memory_bytes=1 << 30),
        GpuProcess(pid=900, name="Xorg", computes=False),
    )


def test_a_gpu_that_does_not_say_much_is_still_there(machine: Machine) -> None:
    silent = gpu(0, memory_total_bytes=None, memory_free_bytes=None, mig=None, compute_mode="", name="")
    found = machine.ask(nvml, done=Completed(lines(VERSION, {"gpus": {"0": silent}}), "", 0.2, exit_code=0))
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


HUNG = {
    "index": 1,
    "name": "NVIDIA A100",
    "pci_address": "00000000:01:00.0",
    "call": "nvmlDeviceGetPowerUsage",
    "seconds": 8.0,
}


def test_a_gpu_that_does_not_answer_is_a_fact_of_its_own(machine: Machine) -> None:
    output = lines(VERSION, {"gpus": {"0": gpu(0)}}, {"troubles": {"1": HUNG}}, FINISHED)
    found = machine.ask(nvml, done=Completed(output, "", 8.2, exit_code=0))
    assert found.works
    assert [each.index for each in found.gpus] == [0]
    (trouble,) = found.troubles
    assert trouble.is_silent
    assert (trouble.index, trouble.call, trouble.seconds) == (1, "nvmlDeviceGetPowerUsage", 8.0)
    assert len(machine.asked) == 1


def test_a_child_that_a_gpu_keeps_from_its_end_has_answered(machine: Machine) -> None:
    output = lines(
        INIT, VERSION, {"phase": "reading the GPUs"}, {"gpus": {"0": gpu(0)}}, {"troubles": {"1": HUNG}}, FINISHED
    )
    found = machine.ask(nvml, done=Completed(output, "", 20.0, timed_out=True, stuck=True))
    assert found.works
    assert (found.attempt.stuck, found.attempt.phase) == (True, "")


def test_a_child_that_is_killed_before_its_end_has_told_of_some(machine: Machine) -> None:
    output = lines(INIT, VERSION, {"phase": "reading the GPUs"}, {"gpus": {"0": gpu(0)}})
    found = machine.ask(nvml, done=Completed(output, "", 20.0, timed_out=True))
    assert not found.works
    assert found.attempt.ending == "did not respond within 20 s during 'reading the GPUs'"
    assert (found.count, [each.index for each in found.gpus]) == (2, [0])


def test_one_gpu_that_is_lost_leaves_the_others(machine: Machine) -> None:
    lost = {"index": 0, "call": "nvmlDeviceGetHandleByIndex", "error_code": 15, "error_text": "GPU is lost"}
    output = lines(VERSION, {"troubles": {"0": lost}}, {"gpus": {"1": gpu(1)}}, FINISHED)
    found = machine.ask(nvml, done=Completed(output, "", 0.1, exit_code=0))
    assert found.works
    assert [each.index for each in found.gpus] == [1]
    assert found.troubles == (
        GpuTrouble(index=0, call="nvmlDeviceGetHandleByIndex", error_code=15, error_text="GPU is lost"),
    )
    assert not found.troubles[0].is_silent


def test_health_is_read(machine: Machine) -> None:
    health = {
        "ecc": {"enabled": True, "pending": True, "volatile_uncorrected": 1},
        "temperature": {"gpu_c": 91, "slowdown_c": None},
        "throttle_reasons": ["hw_slowdown"],
        "nvlinks": [
            {"index": 0, "active": True, "remote": "switch", "errors": {"replays": 3}},
            {"index": 1, "active": False},
        ],
        "performance_state": None,
    }
    output = lines(VERSION, {"gpus": {"0": gpu(0, health=health)}}, FINISHED)
    (found,) = machine.ask(nvml, done=Completed(output, "", 0.1, exit_code=0)).gpus
    assert found.health.ecc == Ecc(enabled=True, pending=True, volatile_uncorrected=1)
    assert (found.health.temperature.gpu_c, found.health.temperature.slowdown_c) == (91, None)
    assert found.health.throttle_reasons == ("hw_slowdown",)
    assert found.health.nvlinks[0] == NvLink(index=0, active=True, remote="switch", errors={"replays": 3})
    assert not found.health.nvlinks[1].active
    assert (found.health.fabric, found.health.performance_state) == (None, None)


def test_a_library_that_crashes(machine: Machine) -> None:
    done = Completed(lines(OPENING, INIT), "", 0.1, exit_code=-11, signal="SIGSEGV")
    found = machine.ask(nvml, done=done)
    assert found.attempt.ending == "was killed by SIGSEGV during 'nvmlInit'"
    assert not found.works


@pytest.mark.parametrize(
    "output", [b"", b"junk", lines({"gpus": {"0": {"name": "no index"}}}), lines({"error_code": "18"})]
)
def test_an_answer_that_cannot_be_understood(machine: Machine, output: bytes) -> None:
    found = machine.ask(nvml, done=Completed(output, "", 0.1, exit_code=0))
    assert found.attempt.outcome == "unparsable"
    assert not found.works
    assert found.gpus == ()


def test_the_doctors_own_interpreter_is_asked_with_its_search_path(machine: Machine) -> None:
    machine.ask(nvml, done=Completed(b"", "", 0.0), request=Request(python="/venv/bin/python"))
    (asked,) = machine.asked
    assert asked.argv[0] == sys.executable
    assert os.path.basename(asked.argv[-4]) == "open_nvml.py"
    assert json.loads(asked.argv[-3]) == sys.path
    assert 0 < float(asked.argv[-2]) < float(asked.argv[-1]) < asked.deadline_s


TENANT = {"pid": 2214, "name": "python", "memory_bytes": 1 << 30}
FIRST, INNER = "pid:[4026531836]", "pid:[4026532713]"


@pytest.mark.parametrize(("passwd", "user"), [("anna:x:{uid}:100:Anna::\n", "anna"), ("", "{uid}")])
def test_the_user_of_a_process_is_named(machine: Machine, passwd: str, user: str) -> None:
    machine.link("/proc/self/ns/pid", FIRST)
    uid = machine.folder("/proc/2214").stat().st_uid
    machine.file("/etc/passwd", passwd.format(uid=uid))
    output = lines(VERSION, {"gpus": {"0": gpu(0, processes=[TENANT, {**TENANT, "pid": 9}])}}, FINISHED)
    (found,) = machine.ask(nvml, done=Completed(output, "", 0.1, exit_code=0)).gpus
    assert [each.user for each in found.processes] == [user.format(uid=uid), ""]


@pytest.mark.parametrize("namespace", [INNER, ""])
def test_no_user_is_named_where_numbers_of_processes_may_mean_others(machine: Machine, namespace: str) -> None:
    machine.folder("/proc/2214")
    if namespace:
        machine.link("/proc/self/ns/pid", namespace)
    output = lines(VERSION, {"gpus": {"0": gpu(0, processes=[TENANT])}}, FINISHED)
    (found,) = machine.ask(nvml, done=Completed(output, "", 0.1, exit_code=0)).gpus
    assert found.processes[0].user == ""
