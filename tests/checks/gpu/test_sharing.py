"""SHR: MIG devices, other people's processes, licences, persistence mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from built_health import GEFORCE, NOTEBOOK, SERVER, server, slice_of_mig, workstation
from built_machines import built, cuda_that_fails, variables
from healthy import broken, nvml_gpu

from tfgpu_doctor.checks.gpu.sharing import (
    gpu_stays_initialised,
    memory_is_not_shared,
    one_mig_device_is_asked_for,
    vgpu_is_licensed,
)
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.health import GpuHealth, MigDevice
from tfgpu_doctor.model.facts.nvidia import GpuProcess

if TYPE_CHECKING:
    from checks.conftest import Judge

TWO = (
    MigDevice(uuid="MIG-1", profile="3g.40gb", memory_total_bytes=40 << 30),
    MigDevice(uuid="MIG-2", profile="1g.10gb"),
)


def divided(*parts: MigDevice, **changes: Any) -> Facts:
    """The slice of MIG, whose GPU has these devices."""
    machine = slice_of_mig()
    uuids = tuple(each.uuid for each in parts)
    gpu = nvml_gpu(mig=True, mig_devices=uuids, health=GpuHealth(mig_devices=parts, **changes))
    return broken(machine, nvml={"gpus": (gpu,)}, environment=variables())


# SHR002


def test_a_slice_of_mig_passes_with_its_size_and_its_ids(judge: Judge) -> None:
    said = "GPU 0 is divided by MIG: 2g.20gb 20.0 GiB (GI 3, CI 0)"
    assert judge.passes(one_mig_device_is_asked_for, slice_of_mig()) == said


def test_several_devices_of_which_none_is_named_are_no_fault(judge: Judge) -> None:
    assert judge.passes(one_mig_device_is_asked_for, divided(*TWO)).endswith("3g.40gb 40.0 GiB, 1g.10gb")


def test_mig_without_an_instance_is_told(judge: Judge) -> None:
    assert "MIG is on, but there is no instance" in judge.passes(one_mig_device_is_asked_for, divided())


def test_a_change_of_mig_that_waits_is_told(judge: Judge) -> None:
    assert "off after the next reset" in judge.passes(one_mig_device_is_asked_for, divided(*TWO, mig_pending=False))


def test_several_devices_that_are_named_are_more_than_a_process_gets(judge: Judge) -> None:
    environment = variables(CUDA_VISIBLE_DEVICES="MIG-1, MIG-2")
    finding = judge.finding(one_mig_device_is_asked_for, divided(*TWO), environment=environment)
    assert (finding.cause, finding.severity) == ("mig_single_instance_per_process", "warning")
    assert finding.message == "CUDA_VISIBLE_DEVICES names 2 MIG devices, but a process gets only one"
    assert finding.fix and finding.fix.commands == ("export CUDA_VISIBLE_DEVICES=MIG-1",)


def test_a_machine_without_mig_is_not_judged(judge: Judge) -> None:
    assert judge.skips(one_mig_device_is_asked_for) == "no GPU is divided by MIG"


# SHR003


def held(*processes: GpuProcess, **changes: Any) -> dict[str, Any]:
    return {"nvml": {"gpus": (nvml_gpu(processes=processes, health=GEFORCE, **changes),)}}


def test_a_gpu_of_ones_own_passes(judge: Judge) -> None:
    assert judge.passes(memory_is_not_shared) == "GPU 0: no other process computes"


@pytest.mark.parametrize(
    "process",
    [
        GpuProcess(pid=1, memory_bytes=11 << 30),
        GpuProcess(pid=1, memory_bytes=None),
        GpuProcess(pid=1, name="Xorg", computes=False, memory_bytes=20 << 30),
        GpuProcess(pid=1, name="nvidia-cuda-mps-server", memory_bytes=20 << 30),
    ],
    ids=["less than half", "not told", "a desktop", "the MPS server"],
)
def test_others_that_leave_enough_are_no_fault(judge: Judge, process: GpuProcess) -> None:
    assert judge.passes(memory_is_not_shared, **held(process))


def test_a_forgotten_notebook_is_named_with_its_owner_and_how_to_see_it(judge: Judge) -> None:
    finding = judge.finding(memory_is_not_shared, **held(NOTEBOOK))
    assert (finding.cause, finding.severity) == ("gpu_memory_held_by_other_process", "warning")
    assert finding.message == "other processes hold 14.0 GiB of the 24.0 GiB of GPU 0 (NVIDIA GeForce RTX 3090)"
    assert finding.evidence == (
        "GPU 0: /home/anna/venv/bin/python (2214, of anna) holds 14.0 GiB",
        "GPU 0 is 0 % busy",
    )
    assert finding.fix and finding.fix.commands == ("nvidia-smi", "ps -o user,pid,lstart,cmd -p 2214")


def test_a_process_is_looked_up_where_its_number_is_certain_alone(judge: Judge) -> None:
    stranger = GpuProcess(pid=77, memory_bytes=20 << 30)
    finding = judge.finding(memory_is_not_shared, **held(stranger))
    assert finding.fix and finding.fix.commands == ("nvidia-smi",)


def test_a_full_gpu_is_one_cause() -> None:
    report = diagnose(built()["notebook-holds-memory"])
    assert [cause.id for cause in report.causes] == ["MEM001"]
    assert "SHR003" in report.causes[0].explains


def test_the_memory_of_a_gpu_that_is_divided_is_not_judged(judge: Judge) -> None:
    assert "no whole GPU" in judge.skips(memory_is_not_shared, slice_of_mig())


# SHR004


def test_a_licensed_vgpu_passes(judge: Judge) -> None:
    licensed = workstation(GpuHealth(virtualization="vgpu", licensed=True))
    assert judge.passes(vgpu_is_licensed, licensed) == "GPU 0: a licensed vGPU"


@pytest.mark.parametrize("health", [GEFORCE, SERVER, GpuHealth(virtualization="host_vgpu")])
def test_a_gpu_that_needs_no_licence_is_not_judged(judge: Judge, health: GpuHealth) -> None:
    assert judge.skips(vgpu_is_licensed, workstation(health)) == "no GPU needs a licence"


@pytest.mark.parametrize(("cuda", "blocks"), [({}, False), ({"cuda_driver": cuda_that_fails(100, "", gpus=())}, True)])
def test_a_vgpu_without_its_licence_is_an_error(judge: Judge, cuda: dict[str, Any], blocks: bool) -> None:
    finding = judge.finding(vgpu_is_licensed, workstation(GpuHealth(virtualization="vgpu", licensed=False)), **cuda)
    assert (finding.cause, finding.severity, finding.blocks) == ("vgpu_unlicensed", "error", blocks)


# SHR005


def test_persistence_mode_passes(judge: Judge) -> None:
    assert judge.passes(gpu_stays_initialised, server())


def test_persistence_mode_that_is_off_is_mentioned(judge: Judge) -> None:
    finding = judge.finding(gpu_stays_initialised, workstation(GEFORCE))
    assert (finding.cause, finding.severity) == ("undetermined", "info")
    assert "off for 1 of 1 GPU" in finding.message


def test_a_program_that_uses_it_keeps_the_gpu_initialised(judge: Judge) -> None:
    desktop = GpuProcess(pid=1, name="Xorg", computes=False)
    assert judge.passes(gpu_stays_initialised, **held(desktop))


def test_a_gpu_that_does_not_tell_is_not_judged(judge: Judge) -> None:
    assert judge.skips(gpu_stays_initialised)
