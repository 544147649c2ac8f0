"""CNT008: pods of Kubernetes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from built_ground import POD
from built_machines import DOCKER, several, variables
from healthy import broken

from tfgpu_doctor.checks.container.access import container_has_gpu, shared_memory_suffices
from tfgpu_doctor.checks.container.kubernetes import pod_has_its_own_gpus

if TYPE_CHECKING:
    from checks.conftest import Judge

UUID = "GPU-3f6f3a5e-0000-0000-0000-000000000000"
MIG = "MIG-1f2e3d4c-0000-0000-0000-000000000000"


def test_other_containers_are_not_judged(judge: Judge) -> None:
    assert judge.skips(pod_has_its_own_gpus, container=DOCKER) == "this is not a Kubernetes pod"


@pytest.mark.parametrize("visible", [UUID, MIG, f"{UUID},{MIG}", "nvidia.com/gpu=0"])
def test_what_the_device_plugin_names_was_given(judge: Judge, visible: str) -> None:
    said = judge.passes(pod_has_its_own_gpus, container=POD, environment=variables(NVIDIA_VISIBLE_DEVICES=visible))
    assert visible.replace(",", ", ") in said


def test_a_device_plugin_that_mounts_names_them_too(judge: Judge) -> None:
    mounted = msgspec.structs.replace(POD, device_mounts=(UUID,))
    environment = variables(NVIDIA_VISIBLE_DEVICES="/var/run/nvidia-container-devices")
    assert UUID in judge.passes(pod_has_its_own_gpus, container=mounted, environment=environment)


def test_a_pod_that_sees_all_gpus_by_its_image(judge: Judge) -> None:
    machine = broken(**several(8), container=POD, environment=variables(NVIDIA_VISIBLE_DEVICES="all"))
    [finding] = judge.findings(pod_has_its_own_gpus, machine)
    assert finding.severity == "info"
    assert "8 GPUs" in finding.message
    assert finding.fix and "nvidia.com/gpu" in finding.fix.text


@pytest.mark.parametrize("visible", ["all", "", "void"])
def test_one_gpu_is_no_sign_of_anything(judge: Judge, visible: str) -> None:
    assert judge.passes(pod_has_its_own_gpus, container=POD, environment=variables(NVIDIA_VISIBLE_DEVICES=visible))


def test_a_pod_gets_shared_memory_by_a_volume(judge: Judge) -> None:
    finding = judge.finding(shared_memory_suffices, broken(**several(2), container=POD))
    assert finding.cause == "docker_shm_too_small"
    assert finding.fix and "emptyDir" in finding.fix.text


def test_a_pod_that_asked_for_no_gpu(judge: Judge) -> None:
    from built_machines import without_gpu_in

    machine = without_gpu_in(POD, environment=variables(NVIDIA_VISIBLE_DEVICES="void"))
    finding = judge.finding(container_has_gpu, machine)
    assert finding.cause == "container_started_without_gpu"
    assert "this value requests no GPU" in finding.evidence
