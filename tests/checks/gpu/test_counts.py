"""SHR001: which GPUs the bus, NVML and CUDA know of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from built_health import hung, server, without
from built_machines import DOCKER, several, variables
from healthy import broken, cuda_gpu, node, nvml_gpu

from tfgpu_doctor.checks.gpu.counts import all_know_the_same_gpus
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.machine import Pci, PciDevice, Scheduler

if TYPE_CHECKING:
    from checks.conftest import Judge

ONE: dict[str, Any] = {
    "nvml": {"gpus": (nvml_gpu(),), "count": 1}, "cuda_driver": {"gpus": (cuda_gpu(),)}, "runtime": None,
}  # fmt: skip


def two_on_the_bus(second: dict[str, Any], **sections: Any) -> Facts:
    """Two GPUs on the bus of which NVML and CUDA list the first."""
    machine = several(2)
    fields = {"address": "0000:02:00.0", "vendor": "10de", "device": "2204", "class_code": "030000", "driver": "nvidia"}
    devices = (machine["pci"]["devices"][0], PciDevice(**{**fields, **second}))
    return broken(**{**machine, **ONE, "pci": {"devices": devices}, **sections})


def test_all_that_agree_pass(judge: Judge) -> None:
    counts = "GPUs: 8 on the PCI bus, 8 by NVML, 8 under /dev, 8 by CUDA, 8 by TensorFlow"
    assert judge.passes(all_know_the_same_gpus, server()) == counts


@pytest.mark.parametrize(
    ("machine", "reason"),
    [
        (two_on_the_bus({"driver": "vfio-pci"}), "bound to vfio-pci"),
        (two_on_the_bus({"driver": "nouveau"}), "bound to nouveau"),
        (two_on_the_bus({"driver": ""}), "bound to no driver"),
        (two_on_the_bus({"physical_function": "0000:01:00.0"}), "a virtual function of another GPU"),
        (two_on_the_bus({}, container=DOCKER), "this docker container was not given it"),
        (two_on_the_bus({}, scheduler=Scheduler(kind="slurm", job="1")), "slurm did not give it to this job"),
        (two_on_the_bus({}, nvml={**ONE["nvml"], "excluded": ("00000000:02:00.0",)}), "NVreg_ExcludedGpus"),
        (two_on_the_bus({}, device_nodes={"nodes": (node("/dev/nvidia0"), node("/dev/nvidia1", error="EPERM"))}),
         "may not open its device node"),
    ],
)  # fmt: skip
def test_a_gpu_that_nvml_does_not_list_for_a_reason_is_no_fault(judge: Judge, machine: Facts, reason: str) -> None:
    lines = judge.passes(all_know_the_same_gpus, machine)
    assert "GPUs: 2 on the PCI bus, 1 by NVML" in lines
    assert "the GPU at 0000:02:00.0 is not in NVML" in lines
    assert reason in lines


def test_a_gpu_that_failed_to_start_is_named(judge: Judge) -> None:
    finding = judge.finding(all_know_the_same_gpus, two_on_the_bus({}))
    assert (finding.cause, finding.severity) == ("undetermined", "warning")
    assert finding.message.startswith("the GPU at 0000:02:00.0 is bound to the driver, but NVML does not list it")


def test_a_gpu_in_trouble_is_named_elsewhere(judge: Judge) -> None:
    assert "GPU 3 has a problem: see HLT001" in judge.passes(all_know_the_same_gpus, without(3, hung()))
    nameless = hung(name="", uuid="", pci_address="")
    assert judge.passes(all_know_the_same_gpus, without(3, nameless))


@pytest.mark.parametrize(
    ("gpu", "sections", "reason"),
    [
        ({}, {"environment": variables(CUDA_VISIBLE_DEVICES="0")}, "CUDA_VISIBLE_DEVICES=0 hides it"),
        ({"mig": True, "mig_devices": ("MIG-1", "MIG-2")}, {}, "divided by MIG, into 2 instances"),
        ({"compute_mode": "prohibited"}, {}, "compute mode is prohibited"),
        ({}, {"scheduler": Scheduler(kind="slurm", job="1")}, "slurm did not give it"),
    ],
)
def test_a_gpu_that_cuda_does_not_list_for_a_reason_is_no_fault(
    judge: Judge, gpu: dict[str, Any], sections: dict[str, Any], reason: str
) -> None:
    machine = {**several(2), **ONE, "nvml": {"gpus": (nvml_gpu(0), nvml_gpu(1, **gpu))}, **sections}
    assert reason in judge.passes(all_know_the_same_gpus, broken(**machine))


def test_a_gpu_that_cuda_leaves_out_is_named(judge: Judge) -> None:
    machine = {**several(2), **ONE, "nvml": {"gpus": (nvml_gpu(0), nvml_gpu(1))}}
    finding = judge.finding(all_know_the_same_gpus, broken(**machine))
    assert (finding.cause, finding.severity, finding.confidence) == ("undetermined", "warning", "low")
    assert finding.message.startswith("NVML lists GPU 1")


def test_one_mig_device_beside_whole_gpus_is_cudas_choice(judge: Judge) -> None:
    machine = {**several(2), **ONE, "nvml": {"gpus": (nvml_gpu(0, mig=True, mig_devices=("MIG-1",)), nvml_gpu(1))}}
    assert "either whole GPUs or one MIG device" in judge.passes(all_know_the_same_gpus, broken(**machine))


def test_addresses_that_cannot_be_compared_tell_nothing(judge: Judge) -> None:
    elsewhere = cuda_gpu(pci_address="0001:00:00.0")
    assert judge.passes(all_know_the_same_gpus, cuda_driver={"gpus": (elsewhere,)}, pci=Pci())


@pytest.mark.parametrize("sections", [{"nvml": {"gpus": ()}}, {"cuda_driver": {"init_code": 999}}])
def test_without_an_answer_of_both_there_is_nothing_to_compare(judge: Judge, sections: dict[str, Any]) -> None:
    assert judge.skips(all_know_the_same_gpus, **sections) == "NVML or CUDA lists no GPU"
