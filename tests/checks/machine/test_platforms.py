"""PLT001, and what GPU001 says of services and clouds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from built_ground_broken import broken_ground
from built_machines import several
from healthy import broken

from tfgpu_doctor.checks.gpu.hardware import gpu_is_in_machine
from tfgpu_doctor.checks.machine.platforms import gpus_work_together
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model.facts.hosting import Hosting

if TYPE_CHECKING:
    from checks.conftest import Judge

WITHOUT_GPU = broken_ground()["cloud-vm-of-a-type-without-gpu"]


@pytest.mark.parametrize("quick", [False, True])
def test_several_gpus_on_windows(judge: Judge, quick: bool) -> None:
    machine = broken(broken(**several(2)), system={"os": "Windows"})
    [finding] = judge.findings(gpus_work_together, broken(machine, runtime=None) if quick else machine)
    assert (finding.cause, finding.severity) == ("nccl_not_available_on_windows", "info")
    assert finding.fix and "HierarchicalCopyAllReduce" in finding.fix.text


@pytest.mark.parametrize(("os", "count"), [("Windows", 1), ("Linux", 2), ("Linux", 8)])
def test_where_nccl_is_not_missed(judge: Judge, os: str, count: int) -> None:
    assert judge.skips(gpus_work_together, broken(broken(**several(count)), system={"os": os}))


@pytest.mark.parametrize("row", read_knowledge().hosted_services.values(), ids=lambda row: row.name)
def test_each_service_is_told_how_to_get_a_gpu(judge: Judge, row: object) -> None:
    service = read_knowledge().hosted_services[row.name]  # type: ignore[attr-defined]
    found = Hosting(service=service.name, evidence=("a mark",))
    finding = judge.finding(gpu_is_in_machine, WITHOUT_GPU, hosting=found)
    assert finding.cause == "no_gpu_in_machine"
    assert f"this is {service.name}: a mark" in finding.evidence
    assert finding.fix
    assert (service.gpu or f"{service.name} offers no GPUs") in finding.fix.text


def test_colab_is_told_to_change_the_runtime(judge: Judge) -> None:
    finding = judge.finding(gpu_is_in_machine, broken_ground()["colab-without-gpu"])
    assert finding.fix and "Runtime > Change runtime type" in finding.fix.text


def test_the_type_of_a_clouds_machine_is_evidence(judge: Judge) -> None:
    finding = judge.finding(gpu_is_in_machine, WITHOUT_GPU)
    assert "the firmware names the machine Amazon EC2, t3.large" in finding.evidence
    assert finding.fix and "instance type" in finding.fix.text


@pytest.mark.parametrize("hosting", [None, Hosting(), Hosting(service="a service of later days")])
def test_a_machine_of_nobody_known_gets_the_general_advice(judge: Judge, hosting: Hosting | None) -> None:
    finding = judge.finding(gpu_is_in_machine, WITHOUT_GPU, hosting=hosting)
    assert finding.fix and "GPU passthrough" in finding.fix.text
