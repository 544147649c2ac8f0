"""BUS: errors, lanes, and what stands between GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from built_kernel import OFF_THE_BUS, _connected, log, message, xid
from built_machines import several
from healthy import broken, nvml_gpu

from tfgpu_doctor.checks.machine.pci_bus import bus_reports_no_errors, iommu_lets_gpus_talk, link_uses_all_lanes
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts.health import GpuHealth, Pcie
from tfgpu_doctor.model.facts.kernel import KernelMessage
from tfgpu_doctor.model.facts.machine import Pci, PciDevice, PciLink

if TYPE_CHECKING:
    from checks.conftest import Judge

DAY = 86400.0
FATAL = "pcieport 0000:00:01.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Receiver ID)"


def plugged(**changes: Any) -> dict[str, Any]:
    return {"pci": Pci(devices=(_connected(16, 16, **changes),), device_count=40)}


def fatal(address: str = "0000:00:01.0", age_s: float = 60.0) -> KernelMessage:
    return message("pci_fatal", FATAL, age_s, pci_address=address)


# BUS001


def test_a_bus_without_errors_passes(judge: Judge) -> None:
    assert judge.passes(bus_reports_no_errors, **plugged()) == "0000:01:00.0: none since boot"


def test_a_few_corrected_errors_are_what_every_bus_has(judge: Judge) -> None:
    few = {"correctable": 19, "nonfatal": 2, "fatal": 0}
    assert "19 correctable, 2 nonfatal" in judge.passes(bus_reports_no_errors, **plugged(errors=few), kernel_log=log())


def test_where_nobody_counts_nothing_is_told(judge: Judge) -> None:
    assert judge.skips(bus_reports_no_errors) == "the kernel provides no error counters for this bus"
    assert judge.skips(bus_reports_no_errors, pci=Pci()) == "no NVIDIA GPU on the PCI bus"


@pytest.mark.parametrize("end", ["errors", "port_errors"])
def test_a_bus_that_corrects_all_the_time_has_a_bad_contact(judge: Judge, end: str) -> None:
    many = {"correctable": 2 * 3601, "nonfatal": 0, "fatal": 0}
    finding = judge.finding(bus_reports_no_errors, **plugged(**{end: many}), kernel_log=log())
    assert (finding.severity, finding.cause, finding.confidence) == ("warning", "hardware_faulty_gpu", "low")
    assert judge.does_not_object(bus_reports_no_errors, **plugged(**{end: many}), kernel_log=log(uptime_s=90 * DAY))
    assert judge.does_not_object(bus_reports_no_errors, **plugged(**{end: many}))


@pytest.mark.parametrize("address", ["0000:00:01.0", "0000:01:00.0"])
def test_a_fatal_error_at_either_end_is_a_warning(judge: Judge, address: str) -> None:
    finding = judge.finding(bus_reports_no_errors, **plugged(), kernel_log=log(fatal(address)))
    assert (finding.severity, finding.confidence) == ("warning", "medium")
    assert f"1 minute ago: {FATAL}" in finding.evidence


@pytest.mark.parametrize(
    "rows", [(fatal("0000:00:02.0"),), (fatal(age_s=2 * DAY),), (fatal(), xid(79, OFF_THE_BUS))], ids=["another port", "old", "told"]
)  # fmt: skip
def test_a_fatal_error_that_is_old_or_told_elsewhere_is_none(judge: Judge, rows: tuple[KernelMessage, ...]) -> None:
    assert judge.does_not_object(bus_reports_no_errors, **plugged(), kernel_log=log(*rows))


def test_a_fatal_error_that_only_stands_in_the_counters_is_a_note(judge: Judge) -> None:
    finding = judge.finding(bus_reports_no_errors, **plugged(port_errors={"fatal": 1}), kernel_log=log())
    assert finding.severity == "info"


# BUS002

TOLD = nvml_gpu(health=GpuHealth(pcie=Pcie(width=4, max_width=16)))


def test_where_nvml_tells_of_the_link_it_is_judged_there(judge: Judge) -> None:
    machine = broken(pci={"devices": (_connected(4, 16),)}, nvml={"gpus": (TOLD,)})
    assert judge.skips(link_uses_all_lanes, machine) == "NVML reports the link"


def test_where_sysfs_does_not_tell_nothing_is_judged(judge: Judge) -> None:
    assert judge.skips(link_uses_all_lanes) == "sysfs does not report the link"
    assert judge.skips(link_uses_all_lanes, **plugged(link=None)) == "sysfs does not report the link"


@pytest.mark.parametrize(("width", "slot"), [(16, 16), (4, 4), (8, 8), (1, 1)])
def test_all_lanes_that_the_slot_has_are_enough(judge: Judge, width: int, slot: int) -> None:
    machine = broken(pci={"devices": (_connected(width, slot),)})
    assert judge.passes(link_uses_all_lanes, machine) == f"0000:01:00.0: {width} of {amount(slot, 'lane')}"


@pytest.mark.parametrize(("width", "severity"), [(8, "info"), (4, "warning"), (1, "warning")])
def test_a_link_that_came_up_with_fewer_lanes(judge: Judge, width: int, severity: str) -> None:
    finding = judge.finding(link_uses_all_lanes, broken(pci={"devices": (_connected(width, 16),)}))
    assert finding.severity == severity
    assert f"uses {width} of the 16 lanes" in finding.message
    assert finding.evidence[1:] == ("lane speed in sysfs: 2.5 of 16 GT/s at the GPU, 2.5 of 16 GT/s at the port",)


def test_an_external_gpu_has_the_lanes_of_its_cable(judge: Judge) -> None:
    machine = broken(pci={"devices": (_connected(4, 16, removable=True),)})
    assert judge.passes(link_uses_all_lanes, machine) == "0000:01:00.0: 4 of 16 lanes"


def test_a_lane_whose_speed_is_unknown_at_one_end(judge: Judge) -> None:
    port = PciLink(width=4, max_width=16, max_speed_gt_per_s=8.0)
    finding = judge.finding(link_uses_all_lanes, broken(pci={"devices": (_connected(4, 16, port_link=port),)}))
    assert finding.evidence[1:] == ("lane speed in sysfs: 2.5 of 16 GT/s at the GPU",)


# BUS003


def apart(iommu: str = "DMA-FQ") -> dict[str, Any]:
    machine = several(2)
    machine["pci"] = {
        "devices": tuple(
            PciDevice(
                address=f"0000:0{i + 1}:00.0", vendor="10de", device="2204", class_code="030000", driver="nvidia",
                iommu_group=str(i), iommu_type=iommu,
            )
            for i in range(2)
        )
    }  # fmt: skip
    return machine


def test_one_gpu_needs_no_way_to_another(judge: Judge) -> None:
    assert judge.skips(iommu_lets_gpus_talk) == "this applies only to several GPUs"


def test_an_iommu_that_lets_through_passes(judge: Judge) -> None:
    assert "no IOMMU fault" in judge.passes(iommu_lets_gpus_talk, broken(**apart("identity")))
    assert "is none" in judge.passes(iommu_lets_gpus_talk, broken(**several(2)))


def test_an_iommu_that_translates_is_a_note(judge: Judge) -> None:
    assert judge.finding(iommu_lets_gpus_talk, broken(**apart(), kernel_log=log())).severity == "info"


@pytest.mark.parametrize(("age_s", "severity"), [(60.0, "warning"), (2 * DAY, "info")])
def test_an_iommu_that_refused_a_gpu(judge: Judge, age_s: float, severity: str) -> None:
    fault = message(
        "iommu_fault", "DMAR: [DMA Write] Request device [02:00.0] fault addr 0", age_s, pci_address="02:00.0", count=7
    )
    finding = judge.finding(iommu_lets_gpus_talk, broken(**apart(), kernel_log=log(fault)))
    assert (finding.cause, finding.severity) == ("multi_gpu_p2p_iommu_acs", severity)


def test_a_fault_of_another_device_is_not_the_gpus(judge: Judge) -> None:
    fault = message("iommu_fault", "DMAR: [DMA Write] Request device [05:00.0] fault addr 0", pci_address="05:00.0")
    assert judge.passes(iommu_lets_gpus_talk, broken(**apart("identity"), kernel_log=log(fault)))
