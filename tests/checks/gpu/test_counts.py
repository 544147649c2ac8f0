"""SHR001: which GPUs the bus, NVML and CUDA know of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from built_health import hung, server, without
from built_kernel import UNREADABLE, log, message
from built_machines import DOCKER, several, variables
from healthy import broken, cuda_gpu, node, nvml_gpu, runtime

from tfgpu_doctor.checks.gpu.counts import all_know_the_same_gpus
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.health import GpuTrouble
from tfgpu_doctor.model.facts.machine import Pci, PciDevice, Scheduler
from tfgpu_doctor.model.facts.nvidia import GpuProcess

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


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        (
            {"container": DOCKER, "environment": variables(NVIDIA_VISIBLE_DEVICES="all")},
            "though NVIDIA_VISIBLE_DEVICES is all",
        ),
        (
            {"scheduler": Scheduler(kind="slurm", job="1", granted={"SLURM_JOB_GPUS": "0,1"})},
            "though the job was granted 2 GPUs",
        ),
    ],
    ids=["a container", "a job"],
)
def test_a_gpu_that_was_given_and_is_missing_is_not_accounted_for(
    judge: Judge, sections: dict[str, Any], words: str
) -> None:
    machine = two_on_the_bus({}, **sections)
    assert words in judge.skips(all_know_the_same_gpus, machine)
    assert diagnose(machine).fit is None


def test_a_step_may_have_fewer_gpus_than_its_job(judge: Judge) -> None:
    job = Scheduler(
        kind="slurm", job="1", granted={"SLURM_JOB_GPUS": "0,1"}, step="0", step_granted={"SLURM_STEP_GPUS": "0"}
    )
    assert "did not give it" in judge.passes(all_know_the_same_gpus, two_on_the_bus({}, scheduler=job))


@pytest.mark.parametrize(
    ("second", "cause", "confidence", "words"),
    [
        (
            {},
            "gpu_start_failed",
            "medium",
            "is bound to the driver, but the driver does not list it: it failed to start",
        ),
        ({"driver": ""}, "undetermined", "low", "is bound to no driver, while others are in use"),
    ],
)
@pytest.mark.parametrize(
    "sections", [{}, {"nvml": None}, {"nvml": {"gpus": (), "count": 0}}], ids=["", "no NVML", "empty"]
)
def test_a_gpu_that_nobody_lists_is_an_error(
    judge: Judge, sections: dict[str, Any], second: dict[str, Any], cause: str, confidence: str, words: str
) -> None:
    finding = judge.finding(all_know_the_same_gpus, two_on_the_bus(second, **sections))
    assert (finding.cause, finding.severity, finding.confidence) == (cause, "error", confidence)
    assert finding.message == f"the GPU at 0000:02:00.0 {words}"
    assert not finding.blocks


LEGACY = message("legacy_gpu", "NVRM: The NVIDIA GPU 0000:02:00.0 ... is supported through the 470.xx Legacy drivers", pci_address="0000:02:00.0")  # fmt: skip
NAMELESS = msgspec.structs.replace(LEGACY, pci_address="")
OLD = {"driver": "", "device": "1287"}  # GeForce GT 730, a Kepler
PASCAL = {"driver": "", "device": "1b06"}  # GeForce GTX 1080 Ti


@pytest.mark.parametrize("sections", [{}, {"nvml": None}], ids=["", "no NVML"])
@pytest.mark.parametrize(
    ("second", "changes", "evidence"),
    [
        ({"driver": ""}, {"kernel_log": log(LEGACY)}, LEGACY.text),
        ({"driver": ""}, {"kernel_log": log(NAMELESS)}, LEGACY.text),
        (OLD, {}, "driver branch 470 is the last one for Kepler"),
        (PASCAL, {}, "Pascal needs the proprietary kernel modules, and the open ones are loaded"),
        (OLD, {"kernel_log": UNREADABLE}, "driver branch 470 is the last one for Kepler"),
    ],
    ids=["said", "said of no address", "by its age", "by its modules", "by its age, the log unread"],
)
def test_a_gpu_that_the_driver_refuses_is_a_warning(
    judge: Judge, sections: dict[str, Any], second: dict[str, Any], changes: dict[str, Any], evidence: str
) -> None:
    finding = judge.finding(all_know_the_same_gpus, two_on_the_bus(second, **changes, **sections))
    assert (finding.cause, finding.severity) == ("driver_does_not_support_gpu", "warning")
    assert evidence in finding.evidence


@pytest.mark.parametrize(
    ("second", "changes"),
    [
        ({}, {"kernel_log": log(LEGACY)}),
        ({"driver": ""}, {"kernel_log": log(msgspec.structs.replace(LEGACY, pci_address="0000:01:00.0"))}),
        (OLD, {"driver": {"version": "470.256.02", "flavour": "proprietary"}}),
        (OLD, {"driver": None}),
    ],
    ids=["bound", "another GPU", "a driver of its time", "driver unknown"],
)
def test_a_gpu_that_the_driver_may_support_is_not_excused(
    judge: Judge, second: dict[str, Any], changes: dict[str, Any]
) -> None:
    assert judge.finding(all_know_the_same_gpus, two_on_the_bus(second, **changes)).severity == "error"


@pytest.mark.parametrize(
    ("second", "sections", "reason"),
    [
        ({"driver": "vfio-pci"}, {}, "bound to vfio-pci"),
        ({"driver": "vfio-pci"}, {"environment": variables(CUDA_VISIBLE_DEVICES="0")}, "bound to vfio-pci"),
        ({}, {"environment": variables(CUDA_VISIBLE_DEVICES="0")}, "CUDA_VISIBLE_DEVICES=0 may hide it"),
        ({}, {"container": DOCKER}, "this docker container was not given it"),
        ({}, {"cuda_driver": {"gpus": (cuda_gpu(name="NVIDIA A100-SXM4-80GB MIG 1g.10gb"),)}}, "one MIG device"),
    ],
)
def test_without_nvml_the_bus_is_compared_with_cuda(
    judge: Judge, second: dict[str, Any], sections: dict[str, Any], reason: str
) -> None:
    lines = judge.passes(all_know_the_same_gpus, two_on_the_bus(second, nvml=None, **sections))
    assert "GPUs: 2 on the PCI bus, 2 under /dev, 1 by CUDA" in lines
    assert "the GPU at 0000:02:00.0 is not in CUDA" in lines
    assert reason in lines


@pytest.mark.parametrize(
    "sections",
    [{"pci": None}, {"pci": Pci()}, {"system": {"wsl": 2}}, {"cuda_driver": {"gpus": (cuda_gpu(pci_address=""),)}}],
    ids=["no bus", "an empty bus", "WSL", "no addresses"],
)
def test_without_a_bus_to_compare_nothing_is_known_of_other_gpus(judge: Judge, sections: dict[str, Any]) -> None:
    assert "CUDA lists 1 GPU" in judge.skips(all_know_the_same_gpus, two_on_the_bus({}, nvml=None, **sections))


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
    ],
)
def test_a_gpu_that_cuda_does_not_list_for_a_reason_is_no_fault(
    judge: Judge, gpu: dict[str, Any], sections: dict[str, Any], reason: str
) -> None:
    machine = {**several(2), **ONE, "nvml": {"gpus": (nvml_gpu(0), nvml_gpu(1, **gpu))}, **sections}
    assert reason in judge.passes(all_know_the_same_gpus, broken(**machine))


def test_a_gpu_that_the_server_of_mps_was_not_given_is_no_fault(judge: Judge) -> None:
    server = GpuProcess(pid=7, name="/usr/bin/nvidia-cuda-mps-server")
    machine = {**several(2), **ONE, "nvml": {"gpus": (nvml_gpu(0, processes=(server,)), nvml_gpu(1))}}
    assert "the server of MPS does not have it" in judge.passes(all_know_the_same_gpus, broken(**machine))


def test_a_gpu_that_nvml_does_not_list_is_an_error_although_cuda_tells_no_address(judge: Judge) -> None:
    gpus = (cuda_gpu(0, pci_address=""),)
    machine = broken(**{**several(3), "nvml": {"gpus": (nvml_gpu(0), nvml_gpu(1))}, "cuda_driver": {"gpus": gpus}})
    found = judge.findings(all_know_the_same_gpus, machine)
    assert [each.cause for each in found] == ["gpu_start_failed"]


def test_a_gpu_that_cuda_leaves_out_is_an_error(judge: Judge) -> None:
    machine = {**several(2), **ONE, "nvml": {"gpus": (nvml_gpu(0), nvml_gpu(1))}}
    finding = judge.finding(all_know_the_same_gpus, broken(**machine))
    assert (finding.cause, finding.severity, finding.confidence) == ("undetermined", "error", "low")
    assert finding.message.startswith("NVML lists GPU 1")
    assert not finding.blocks


@pytest.mark.parametrize(
    "withheld", [{"container": DOCKER}, {"scheduler": Scheduler(kind="slurm", job="1")}], ids=["container", "job"]
)
def test_whether_a_gpu_that_nvml_reads_was_given_cannot_be_told(judge: Judge, withheld: dict[str, Any]) -> None:
    """NVML opens a GPU's device node, as CUDA does: nothing that is known keeps CUDA alone from it."""
    machine = broken(**{**several(2), **ONE, "nvml": {"gpus": (nvml_gpu(0), nvml_gpu(1))}, **withheld})
    reason = judge.skips(all_know_the_same_gpus, machine)
    assert reason.startswith("NVML reads GPU 1 (NVIDIA GeForce RTX 3090), but CUDA does not list it")
    report = diagnose(broken(machine, runtime=runtime()))
    assert (report.computes, report.fit) == (True, None)


def judged_with(visible: str, listed: int = 1, gpus: int = 2, order: str = "", **sections: Any) -> Facts:
    """A machine of alike GPUs of which CUDA lists the first, and the variable that names some."""
    names = {"CUDA_VISIBLE_DEVICES": visible, **({"CUDA_DEVICE_ORDER": order} if order else {})}
    machine = several(gpus)
    rows = {"cuda_driver": {"gpus": machine["cuda_driver"]["gpus"][:listed]}, "runtime": None}
    return broken(**{**machine, **rows, "environment": variables(**names), **sections})


FIRST, SECOND = (nvml_gpu(index).uuid for index in (0, 1))
ALIKE = (nvml_gpu(0, uuid="GPU-aaaa"), nvml_gpu(1, uuid="GPU-bbbb"))
UNLIKE = (nvml_gpu(0), nvml_gpu(1, name="NVIDIA T400"), nvml_gpu(2))
JOB: dict[str, Any] = {"scheduler": Scheduler(kind="slurm", job="1")}


@pytest.mark.parametrize(
    "machine",
    [
        judged_with("0,1"),
        judged_with("1, 0"),
        judged_with("0,1", **JOB),
        judged_with("0,1", container=DOCKER),
        judged_with(f"{FIRST},{SECOND}"),
        judged_with("GPU-a,GPU-b", nvml={"gpus": ALIKE}),
        judged_with("0,GPU-b", nvml={"gpus": ALIKE}),
        judged_with("0,1", gpus=3),
        judged_with("0,1", gpus=3, order="PCI_BUS_ID", nvml={"gpus": UNLIKE}),
        judged_with("0,1,2", gpus=3, listed=2, nvml={"gpus": (UNLIKE[0], UNLIKE[2], UNLIKE[1])}),
    ],
    ids=[
        "numbers", "a blank", "a job", "a container", "names", "short names", "both", "some", "by the bus", "all of unlike ones",
    ],
)  # fmt: skip
def test_a_gpu_that_the_variable_names_is_not_hidden_by_it(judge: Judge, machine: Facts) -> None:
    finding = judge.finding(all_know_the_same_gpus, machine)
    assert (finding.cause, finding.severity, finding.confidence) == ("undetermined", "error", "low")
    assert finding.message.endswith("but CUDA does not")
    value = machine.environment.get("CUDA_VISIBLE_DEVICES") if machine.environment else ""
    assert finding.evidence[-1] == f"CUDA_VISIBLE_DEVICES={value} names it, and MIG is off"


@pytest.mark.parametrize(
    "machine",
    [
        judged_with("0"),
        judged_with(FIRST),
        judged_with("0,7,1"),
        judged_with("0,-1,1"),
        judged_with("0,GPU-x,1"),
        judged_with("2,3", listed=2, gpus=4),
        judged_with("2,3", listed=2, gpus=4, **JOB),
        judged_with("0", container=DOCKER),
        judged_with("MIG-1,MIG-2"),
    ],
    ids=[
        "a number", "a name", "no such number", "the end", "no such name", "others", "others of a job", "in a container",
        "devices of MIG",
    ],
)  # fmt: skip
def test_a_gpu_that_the_variable_does_not_name_is_hidden_by_it(judge: Judge, machine: Facts) -> None:
    assert " hides it" in judge.passes(all_know_the_same_gpus, machine)


@pytest.mark.parametrize(
    ("gpus", "reason"),
    [
        ((nvml_gpu(0), nvml_gpu(1, mig=True, mig_devices=("MIG-1",))), "divided by MIG"),
        ((nvml_gpu(0), nvml_gpu(1, compute_mode="prohibited")), "compute mode is prohibited"),
    ],
)
def test_a_gpu_that_is_named_may_be_withheld_for_another_reason(judge: Judge, gpus: Any, reason: str) -> None:
    assert reason in judge.passes(all_know_the_same_gpus, judged_with("0,1", nvml={"gpus": gpus}))


def test_which_of_unlike_gpus_a_number_names_is_not_known(judge: Judge) -> None:
    reason = judge.skips(all_know_the_same_gpus, judged_with("0,1", gpus=3, nvml={"gpus": UNLIKE}))
    assert "GPU 1 (NVIDIA T400), but CUDA does not list it: perhaps CUDA_VISIBLE_DEVICES=0,1 hides it" in reason
    assert "GPU 2" in reason


def test_numbers_do_not_count_a_gpu_that_this_process_may_not_use(judge: Judge) -> None:
    """Slurm numbers the GPUs of a job from 0, and NVML those of the node."""
    refused = GpuTrouble(index=0, error_code=4, error_text="Insufficient Permissions")
    nvml = {"gpus": (nvml_gpu(1), nvml_gpu(2)), "troubles": (refused,), "count": 3}
    cuda = {"gpus": (cuda_gpu(1),)}
    machine = judged_with("0,1", gpus=3, nvml=nvml, cuda_driver=cuda, pci=Pci(), **JOB)
    assert judge.finding(all_know_the_same_gpus, machine).message.startswith("NVML lists GPU 2")


def test_without_nvml_a_gpu_that_the_variable_names_is_lost(judge: Judge) -> None:
    names = {"environment": variables(CUDA_VISIBLE_DEVICES="0,1"), "nvml": None}
    assert judge.finding(all_know_the_same_gpus, two_on_the_bus({}, **names)).cause == "gpu_start_failed"
    given = judge.passes(all_know_the_same_gpus, two_on_the_bus({}, **names, container=DOCKER))
    assert "this docker container was not given it" in given


def test_one_mig_device_beside_whole_gpus_is_cudas_choice(judge: Judge) -> None:
    machine = {**several(2), **ONE, "nvml": {"gpus": (nvml_gpu(0, mig=True, mig_devices=("MIG-1",)), nvml_gpu(1))}}
    assert "either whole GPUs or one MIG device" in judge.passes(all_know_the_same_gpus, broken(**machine))


def test_addresses_that_cannot_be_compared_tell_nothing(judge: Judge) -> None:
    elsewhere = cuda_gpu(pci_address="0001:00:00.0")
    assert judge.passes(all_know_the_same_gpus, cuda_driver={"gpus": (elsewhere,)}, pci=Pci())


@pytest.mark.parametrize("cuda", [{"gpus": ()}, {"init_code": 999}])
def test_without_a_gpu_of_cudas_there_is_nothing_to_compare(judge: Judge, cuda: dict[str, Any]) -> None:
    assert judge.skips(all_know_the_same_gpus, cuda_driver=cuda) == "CUDA lists no GPU"
