"""LNK: links to the host, to other GPUs, and the fabric of the switches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from built_health import GEFORCE, H100, SERVER, changed, in_slot_of, server, workstation
from built_machines import cuda_that_fails
from healthy import broken, nvml_gpu

from tfgpu_doctor.checks.gpu.links import fabric_is_set_up, nvlinks_are_up, pcie_link_is_full
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.health import Fabric, GpuHealth, NvLink, Pcie

if TYPE_CHECKING:
    from checks.conftest import Judge


def linked(health: GpuHealth = GEFORCE, **pcie: Any) -> GpuHealth:
    return changed(health, pcie=pcie)


# LNK001


def test_a_full_link_passes_with_its_figures(judge: Judge) -> None:
    assert (
        judge.passes(pcie_link_is_full, server(SERVER)) == "GPU 0: PCI Express x16 of x16, generation 5 of 5, 3 replays"
    )


def test_of_a_link_whose_greatest_width_is_unknown_none_is_told(judge: Judge) -> None:
    evidence = judge.passes(pcie_link_is_full, workstation(linked(width=8, max_width=None)))
    assert evidence == "GPU 0: PCI Express x8, generation 1 of 4 (idle, P8), 0 replays"
    slow = judge.finding(pcie_link_is_full, server(linked(SERVER, generation=1, max_width=None)))
    assert "highest PCI Express lanes" not in [figure.name for figure in slow.figures]


def test_an_idle_gpu_lowers_its_generation(judge: Judge) -> None:
    evidence = judge.passes(pcie_link_is_full, workstation(GEFORCE))
    assert evidence == "GPU 0: PCI Express x16 of x16, generation 1 of 4 (idle, P8), 0 replays"


@pytest.mark.parametrize(
    ("pcie", "words"),
    [
        ({"max_generation": 3}, "generation 1 of 3 (idle, P8), the GPU itself supports generation 4, 0 replays"),
        ({"max_generation": 3, "gpu_max_generation": None}, "generation 1 of 3 (idle, P8), 0 replays"),
        ({"generation": None, "max_generation": 3}, "x16 of x16, 0 replays"),
    ],
)
def test_a_slot_of_an_older_generation_is_told(judge: Judge, pcie: dict[str, Any], words: str) -> None:
    assert judge.passes(pcie_link_is_full, workstation(linked(**pcie))).endswith(words)


@pytest.mark.parametrize(
    "machine",
    [
        workstation(linked(width=8)),
        in_slot_of(8, 8),
        in_slot_of(16, 8),
        workstation(linked(width=4, max_width=4)),
        workstation(linked(width=8, max_width=8)),
        workstation(changed(GEFORCE, pcie={"generation": 1}, performance_state=0, utilization_percent=3)),
        workstation(changed(GEFORCE, pcie={"generation": 1}, performance_state=5, utilization_percent=90)),
        workstation(changed(SERVER, pcie=Pcie(width=16, max_width=16))),
        workstation(changed(GEFORCE, pcie={"width": 1}, virtualization="passthrough")),
        workstation(changed(GEFORCE, pcie={"width": 4}, virtualization="vgpu")),
        workstation(changed(GEFORCE, pcie={"width": 1}, chip_to_chip=True)),
        workstation(changed(GEFORCE, pcie={"width": 1, "bus": "fpci"})),
        workstation(nvml={"gpus": (nvml_gpu(memory_total_bytes=None, health=linked(width=1)),)}),
    ],
    ids=["x8 of x16", "a slot of 8", "x8 in a slot of 16", "a GPU with 4", "a GPU with 8", "P0 with nothing to do",
         "busy in P5", "no generation", "passed through", "vgpu", "NVLink-C2C", "another bus", "unified memory"],
)  # fmt: skip
def test_links_as_they_are_made_pass(judge: Judge, machine: Facts) -> None:
    assert judge.passes(pcie_link_is_full, machine)


@pytest.mark.parametrize("name", ["NVIDIA GeForce RTX 4050 Laptop GPU", "NVIDIA GeForce MX450"])
def test_laptops_have_few_lanes_by_design(judge: Judge, name: str) -> None:
    gpu = nvml_gpu(name=name, health=linked(width=4))
    assert "in a laptop" in judge.passes(pcie_link_is_full, nvml={"gpus": (gpu,)})


def with_removable(machine: Facts, removable: bool | None) -> Facts:
    """The machine whose GPU says whether its user can unplug it."""
    assert machine.pci
    return broken(machine, pci={"devices": (msgspec.structs.replace(machine.pci.devices[0], removable=removable),)})


def test_an_external_gpu_has_the_lanes_of_its_cable(judge: Judge) -> None:
    # "limited by 2.5 GT/s PCIe x4 link ... (capable of 126 Gb/s with 8.0 GT/s PCIe x16 link)" says the kernel of a GTX 1050
    # in an enclosure: https://wiki.archlinux.org/title/External_GPU
    busy = in_slot_of(4, 4, performance_state=0, utilization_percent=98)
    for machine in (in_slot_of(4, 4), in_slot_of(16, 1), busy):
        assert "an external GPU" in judge.passes(pcie_link_is_full, with_removable(machine, True))
        for fixed in (False, None):
            assert judge.finding(pcie_link_is_full, with_removable(machine, fixed))


@pytest.mark.parametrize(
    ("machine", "confidence", "words", "remedy"),
    [
        (in_slot_of(4, 4), "high", "its slot has x4", "to the slot"),
        (in_slot_of(16, 1), "medium", "its slot could give x16", "Reseat the card"),
        (in_slot_of(16, 1, performance_state=2), "high", "its slot could give x16", "Reseat the card"),
        (workstation(linked(width=4)), "medium", "x4 carries 25 % of what x16 would", "Reseat the card"),
    ],
)
def test_a_link_of_few_lanes_is_told(judge: Judge, machine: Facts, confidence: str, words: str, remedy: str) -> None:
    finding = judge.finding(pcie_link_is_full, machine)
    assert (finding.cause, finding.severity, finding.confidence) == ("pcie_link_degraded", "warning", confidence)
    assert "but could use x16" in finding.message
    assert words in finding.evidence
    assert finding.fix and remedy in finding.fix.text


def test_the_speed_of_a_lane_is_told_of_both_ends(judge: Judge) -> None:
    finding = judge.finding(pcie_link_is_full, in_slot_of(4, 4))
    assert "lane speed in sysfs: 2.5 of 16 GT/s at the GPU, 2.5 of 16 GT/s at the port" in finding.evidence
    busy = in_slot_of(16, 16, performance_state=0, utilization_percent=98)
    assert "lane speed in sysfs" in judge.finding(pcie_link_is_full, busy).evidence[-1]
    assert "sysfs" not in str(judge.finding(pcie_link_is_full, workstation(linked(width=4))).evidence)


def test_a_gpu_with_fewer_lanes_than_all_others_of_its_model_stands_out(judge: Judge) -> None:
    narrow = linked(SERVER, width=8)
    finding = judge.finding(pcie_link_is_full, server(SERVER, SERVER, narrow, SERVER))
    assert finding.message.startswith("GPU 2")
    assert "the 3 other GPUs of the model have more" in finding.evidence


@pytest.mark.parametrize("widths", [(16, 8), (16, 8, 16, 8), (8, 8, 8, 8)])
def test_boards_that_share_lanes_are_no_fault(judge: Judge, widths: tuple[int, ...]) -> None:
    assert judge.passes(pcie_link_is_full, server(*(linked(SERVER, width=each) for each in widths)))


def test_a_busy_gpu_at_a_low_generation_is_told(judge: Judge) -> None:
    finding = judge.finding(pcie_link_is_full, server(linked(SERVER, generation=1)))
    assert (finding.cause, finding.severity) == ("pcie_link_degraded", "warning")
    assert finding.message.endswith("is busy, but its PCI Express link runs at generation 1 of 5")


def test_a_gpu_that_tells_no_link_is_not_judged(judge: Judge) -> None:
    assert judge.skips(pcie_link_is_full) == "NVML reports no PCI Express link"


# LNK002


def links(up: int, of: int, remote: str = "switch") -> GpuHealth:
    rows = tuple(NvLink(index=i, active=i < up, remote=remote if i < up else "") for i in range(of))
    return msgspec.structs.replace(SERVER, nvlinks=rows)


def test_links_that_are_up_pass(judge: Judge) -> None:
    assert judge.passes(nvlinks_are_up, server(SERVER)) == "GPU 0: 18 of 18 NVLinks are up"


@pytest.mark.parametrize(
    "machine",
    [
        workstation(GEFORCE),
        server(links(0, 18), links(0, 18)),
        server(links(4, 12, "gpu"), links(4, 12, "gpu")),
        server(links(10, 18)),
        server(links(8, 18), links(8, 18)),
    ],
    ids=["no bridge", "all down in a virtual machine", "one bridge of three", "alone", "a model with fewer"],
)
def test_links_that_are_down_by_design_pass(judge: Judge, machine: Facts) -> None:
    assert judge.passes(nvlinks_are_up, machine)


@pytest.mark.parametrize("up", [0, 16])
def test_a_gpu_with_fewer_links_to_the_switches_than_its_like(judge: Judge, up: int) -> None:
    finding = judge.finding(nvlinks_are_up, server(SERVER, links(up, 18), SERVER))
    assert (finding.cause, finding.severity, finding.blocks) == ("nvlink_down", "error", False)
    assert finding.message == f"GPU 1 ({H100}) has {up} NVLinks up, but others of its model have 18"
    assert f"down: {', '.join(map(str, range(up, 18)))}" in finding.evidence


def test_bridges_between_cards_may_differ(judge: Judge) -> None:
    finding = judge.finding(nvlinks_are_up, server(links(12, 12, "gpu"), links(12, 12, "gpu"), links(4, 12, "gpu")))
    assert (finding.cause, finding.severity, finding.confidence) == ("nvlink_down", "info", "low")


def test_a_gpu_that_is_divided_has_no_links(judge: Judge) -> None:
    machine = server(SERVER, SERVER)
    assert machine.nvml
    divided = msgspec.structs.replace(machine.nvml.gpus[1], mig=True, health=links(0, 18))
    assert judge.passes(nvlinks_are_up, machine, nvml={"gpus": (machine.nvml.gpus[0], divided)})


def test_links_of_another_model_say_nothing(judge: Judge) -> None:
    machine = server(SERVER, links(10, 18))
    assert machine.nvml
    other = msgspec.structs.replace(machine.nvml.gpus[1], name="NVIDIA H200")
    told = judge.passes(nvlinks_are_up, machine, nvml={"gpus": (machine.nvml.gpus[0], other)})
    assert told == "GPU 0: 18 of 18 NVLinks are up\nGPU 1: 10 of 18 NVLinks are up"


def test_errors_of_links_are_evidence(judge: Judge) -> None:
    worn = changed(SERVER, nvlinks=(NvLink(index=0, active=True, remote="switch", errors={"crc_data_errors": 8}),))
    assert "link 0: crc_data_errors 8" in judge.passes(nvlinks_are_up, server(worn))


def test_a_gpu_without_nvlink_is_not_judged(judge: Judge) -> None:
    assert "no GPU has NVLink" in judge.skips(nvlinks_are_up)


# LNK003

WAITING = changed(SERVER, fabric=Fabric(state="in_progress"))
FAILED = changed(SERVER, fabric=Fabric(state="completed", status=999))
NOT_READY: dict[str, Any] = {"cuda_driver": cuda_that_fails(802, "CUDA_ERROR_SYSTEM_NOT_READY", gpus=())}


def test_gpus_of_a_fabric_pass(judge: Judge) -> None:
    assert judge.passes(fabric_is_set_up, server()) == "8 GPUs have joined the fabric"


@pytest.mark.parametrize("fabric", [None, Fabric(state="not_supported")])
def test_gpus_without_a_fabric_are_not_judged(judge: Judge, fabric: Fabric | None) -> None:
    assert "no GPU is part of a fabric" in judge.skips(fabric_is_set_up, server(changed(SERVER, fabric=fabric)))


@pytest.mark.parametrize(("health", "words"), [(WAITING, "in_progress"), (FAILED, "NVML_ERROR_UNKNOWN")])
def test_a_fabric_that_is_not_set_up_is_an_error_where_cuda_waits_for_it(
    judge: Judge, health: GpuHealth, words: str
) -> None:
    finding = judge.finding(fabric_is_set_up, server(health, health), **NOT_READY)
    assert (finding.cause, finding.severity) == ("fabric_manager_not_running", "error")
    assert (finding.confidence, finding.blocks) == ("high", True)
    assert finding.message.startswith("2 of 2 GPUs have not joined")
    assert words in finding.evidence[0]
    assert finding.fix and "systemctl enable" in finding.fix.text


@pytest.mark.parametrize(("cuda", "blocks"), [({}, False), (NOT_READY, True)])
def test_a_gpu_that_did_not_join_with_the_others_is_a_fault_of_the_fabric(
    judge: Judge, cuda: dict[str, Any], blocks: bool
) -> None:
    finding = judge.finding(fabric_is_set_up, server(SERVER, WAITING), **cuda)
    assert (finding.cause, finding.severity, finding.blocks) == ("nvswitch_fault", "error", blocks)
    assert finding.message.startswith("1 of 2 GPUs has not joined")
    assert finding.fix and "SXid" in finding.fix.text


OFF = changed(WAITING, nvlinks=tuple(NvLink(index=i, active=False) for i in range(18)))


@pytest.mark.parametrize(
    ("gpus", "cuda", "severity"),
    [
        ((WAITING,), {}, "info"),
        ((OFF, OFF), {}, "info"),
        ((WAITING, WAITING), {}, "error"),
        ((OFF, SERVER), {}, "error"),
        ((WAITING,), {"cuda_driver": None}, "error"),
        ((WAITING,), {"cuda_driver": cuda_that_fails(999, "", gpus=())}, "error"),
        ((OFF, OFF), NOT_READY, "error"),
    ],
    ids=["alone", "NVLink is off", "links are up", "off on one", "CUDA not asked", "CUDA fails", "CUDA waits"],
)
def test_gpus_that_work_each_for_itself_need_no_fabric(
    judge: Judge, gpus: tuple[GpuHealth, ...], cuda: dict[str, Any], severity: str
) -> None:
    assert judge.finding(fabric_is_set_up, server(*gpus), **cuda).severity == severity


def test_a_gpu_that_is_divided_needs_no_fabric(judge: Judge) -> None:
    machine = server(SERVER, WAITING)
    assert machine.nvml
    divided = msgspec.structs.replace(machine.nvml.gpus[1], mig=True)
    assert judge.passes(fabric_is_set_up, machine, nvml={"gpus": (machine.nvml.gpus[0], divided)})


def test_what_cuda_says_of_the_fabric_is_explained_by_it() -> None:
    report = diagnose(server(WAITING, **NOT_READY, runtime=None))
    assert [cause.id for cause in report.causes] == ["LNK003"]
    assert "DRV008" in report.causes[0].explains
