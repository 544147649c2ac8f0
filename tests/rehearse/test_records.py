"""Each recorded machine with GPUs is played: the probe of NVML reads back from the simulated driver what the record says."""

from __future__ import annotations

import pathlib
from typing import Any

import msgspec
import pytest
from locations import RECORDS
from replayed import facts_of

from tfgpu_doctor.collect.examination import examine
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model.facts import Facts, encode_facts
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.health import GpuTrouble
from tfgpu_doctor.model.facts.nvidia import Nvml, NvmlGpu
from tfgpu_doctor.rehearse.gpu import MachineError
from tfgpu_doctor.rehearse.record import is_record, machine_of
from tfgpu_doctor.rehearse.stage import set_stage

PLAYED = [
    name
    for name, path in RECORDS.items()
    if path.parent.parent.name == "recorded" and (nvml := facts_of(name).nvml) is not None and nvml.gpus
]

_LAST_PID = (1 << 22) - 1  # PID_MAX_LIMIT: https://github.com/torvalds/linux/blob/master/include/linux/threads.h


def read_back(facts: Facts, driver: pathlib.Path, folder: pathlib.Path) -> Nvml:
    """What the doctor's own probe reads from the simulated driver of a record."""
    stage = set_stage(machine_of(facts, read_knowledge()), str(driver), str(folder), {})
    nvml = examine(stage=stage, only=("nvml",)).nvml
    assert nvml is not None
    return nvml


def with_pids_of_nobody(facts: Facts) -> Facts:
    """The process ids counted from the last one: the doctor leaves out its own processes, which may have recorded ids."""
    assert facts.nvml is not None
    gpus = [
        msgspec.structs.replace(
            gpu, processes=tuple(msgspec.structs.replace(each, pid=_LAST_PID - each.pid) for each in gpu.processes)
        )
        for gpu in facts.nvml.gpus
    ]
    return msgspec.structs.replace(facts, nvml=msgspec.structs.replace(facts.nvml, gpus=tuple(gpus)))


def without_made_up(read: NvmlGpu, recorded: NvmlGpu) -> NvmlGpu:
    """What was read, without what a simulated GPU must have, but the record does not state: where it sits, what CUDA needs."""
    changes: dict[str, Any] = {}
    for name in ("pci_address", "compute_capability"):
        if not getattr(recorded, name):
            changes[name] = ""
    if len(recorded.pci_address) == len("0000:81:00.0"):  # before driver 375, the domain had four digits
        changes["pci_address"] = read.pci_address.removeprefix("0000")
    ecc, known = read.health.ecc, recorded.health.ecc
    if ecc and known and known.pending is None:  # a table of nvidia-smi: NVML itself answers both at once
        ecc = msgspec.structs.replace(ecc, pending=None)
    return in_order(msgspec.structs.replace(read, **changes, health=msgspec.structs.replace(read.health, ecc=ecc)))


def in_order(gpu: NvmlGpu) -> NvmlGpu:
    """A GPU with its processes and its limits in one order; the owners of processes are not NVML's."""
    processes = [msgspec.structs.replace(each, user="") for each in gpu.processes]
    reasons = gpu.health.throttle_reasons
    health = msgspec.structs.replace(gpu.health, throttle_reasons=None if reasons is None else tuple(sorted(reasons)))
    return msgspec.structs.replace(gpu, processes=tuple(sorted(processes, key=lambda each: each.pid)), health=health)


@pytest.mark.parametrize("machine", PLAYED)
def test_a_record_is_read_back(machine: str, driver_folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    facts = with_pids_of_nobody(facts_of(machine))
    nvml = facts.nvml
    assert nvml is not None
    read = read_back(facts, driver_folder, tmp_path)
    by_index = {gpu.index: gpu for gpu in read.gpus}
    assert [without_made_up(by_index[gpu.index], gpu) for gpu in nvml.gpus] == [in_order(gpu) for gpu in nvml.gpus]
    assert nvml.driver_version in ("", read.driver_version)
    assert nvml.count in (None, read.count)
    unknown = set(range(read.count or 0)) - {gpu.index for gpu in nvml.gpus} - {each.index for each in nvml.troubles}
    assert {each.index for each in read.troubles} == unknown | {each.index for each in nvml.troubles}


def record(**nvml: Any) -> Facts:
    return Facts(nvml=Nvml(attempt=Attempt(outcome="answered"), **nvml))


def test_a_gpu_with_a_problem_has_it_again(driver_folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    lost = GpuTrouble(
        index=1, name="NVIDIA L4", call="nvmlDeviceGetPowerUsage", error_code=15, error_text="GPU is lost"
    )
    facts = record(driver_version="550.54.15", count=2, gpus=(NvmlGpu(index=0, name="NVIDIA L4"),), troubles=(lost,))
    read = read_back(facts, driver_folder, tmp_path)
    assert [(each.index, each.call, each.error_code) for each in read.troubles] == [(1, "nvmlDeviceGetPowerUsage", 15)]


def test_a_driver_older_than_the_tables_supports_no_cuda_of_theirs() -> None:
    machine = machine_of(record(driver_version="304.137", gpus=(NvmlGpu(index=0),)), read_knowledge())
    assert (machine.driver, machine.cuda) == ("304.137", "0.0")


def test_a_driver_that_does_not_start_does_not_start_again(driver_folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    read = read_back(record(error_code=18, error_text="Driver/library version mismatch"), driver_folder, tmp_path)
    assert (read.error_code, read.gpus) == (18, ())


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (Facts(), "no answer of NVML"),
        (record(), "no answer of NVML"),
        (record(count=100, gpus=(NvmlGpu(index=0),)), "at most 64"),
        (record(gpus=(NvmlGpu(index=0, name="a\nb"),)), "cannot be simulated"),
    ],
)
def test_what_cannot_be_played_is_said(facts: Facts, words: str) -> None:
    with pytest.raises(MachineError, match=words):
        machine_of(facts, read_knowledge())


@pytest.mark.parametrize(
    ("content", "expected"),
    [(encode_facts(Facts()), True), (b'{"gpus": []}', False), (b"[]", False), (b"{", False), (b"\xff", False)],
)
def test_a_record_is_told_from_a_description(content: bytes, expected: bool) -> None:
    assert is_record(content) == expected
