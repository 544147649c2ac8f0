"""The probe of the PCI bus: how NVIDIA's devices are connected."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tfgpu_doctor.collect.probes.pci import pci
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts.machine import PciDevice, PciLink

if TYPE_CHECKING:
    from collect.probes.conftest import Machine

PORT, GPU = "0000:00:01.1", "0000:01:00.0"
PORT_FOLDER = f"/sys/devices/pci0000:00/{PORT}"
GPU_FOLDER = f"{PORT_FOLDER}/{GPU}"
# As the kernel's Documentation/ABI/testing/sysfs-bus-pci-devices-aer shows such a file.
CORRECTABLE = """\
Receiver Error 2
Bad TLP 0
Bad DLLP 0
RELAY_NUM Rollover 0
Replay Timer Timeout 17
Advisory Non-Fatal 0
Corrected Internal Error 0
Header Log Overflow 0
TOTAL_ERR_COR 19
"""
NO_FATAL = "Undefined 0\nData Link Protocol 0\nTOTAL_ERR_FATAL 0\n"


def plug_in(machine: Machine, *, class_code: str = "030000", **files: str) -> None:
    """A GPU below a port, and further files of the GPU's."""
    for folder, vendor, device, kind in (
        (PORT_FOLDER, "8086", "4c01", "060400"),
        (GPU_FOLDER, "10de", "2204", class_code),
    ):
        for name, value in (("vendor", vendor), ("device", device), ("class", kind)):
            machine.file(f"{folder}/{name}", f"0x{value}\n")
    machine.link(f"/sys/bus/pci/devices/{PORT}", f"../../../devices/pci0000:00/{PORT}")
    machine.link(f"/sys/bus/pci/devices/{GPU}", f"../../../devices/pci0000:00/{PORT}/{GPU}")
    for name, text in files.items():
        machine.file(f"{GPU_FOLDER}/{name}", text)


def link_up(machine: Machine, folder: str, speed: str, width: str, max_speed: str, max_width: str) -> None:
    """The link as one of its ends describes it."""
    texts = {"current_link_speed": speed, "current_link_width": width}
    for name, text in {**texts, "max_link_speed": max_speed, "max_link_width": max_width}.items():
        machine.file(f"{folder}/{name}", text + "\n")


def the_gpu(machine: Machine) -> PciDevice:
    return machine.ask(pci).nvidia_gpus[0]  # type: ignore[no-any-return]


def test_both_ends_of_the_link_are_read(machine: Machine) -> None:
    plug_in(machine)
    link_up(machine, GPU_FOLDER, "2.5 GT/s PCIe", "4", "16.0 GT/s PCIe", "16")
    link_up(machine, PORT_FOLDER, "2.5 GT/s PCIe", "4", "8 GT/s", "16")
    found = the_gpu(machine)
    assert found.port == PORT
    assert found.link == PciLink(speed_gt_per_s=2.5, width=4, max_speed_gt_per_s=16.0, max_width=16)
    assert found.port_link == PciLink(speed_gt_per_s=2.5, width=4, max_speed_gt_per_s=8.0, max_width=16)


@pytest.mark.parametrize("power", ["suspended", "suspending", "resuming", "error"])
def test_the_link_of_a_device_that_sleeps_is_left_alone(machine: Machine, power: str) -> None:
    plug_in(machine)
    machine.file(f"{GPU_FOLDER}/power/runtime_status", power + "\n")
    link_up(machine, PORT_FOLDER, "8.0 GT/s PCIe", "16", "8.0 GT/s PCIe", "16")
    for name in ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width"):
        os.mkfifo(machine.folder(GPU_FOLDER) / name)  # to open it would wait for ever
    found = the_gpu(machine)
    assert (found.power, found.link, found.port_link) == (power, None, None)


@pytest.mark.parametrize("power", ["active", "unsupported", ""])
def test_the_link_of_a_device_that_is_awake_is_read(machine: Machine, power: str) -> None:
    plug_in(machine)
    machine.file(f"{GPU_FOLDER}/power/runtime_status", power + "\n")
    link_up(machine, GPU_FOLDER, "16.0 GT/s PCIe", "16", "16.0 GT/s PCIe", "16")
    assert the_gpu(machine).link is not None


def test_a_device_that_does_not_answer_has_no_link(machine: Machine) -> None:
    plug_in(machine)
    link_up(machine, GPU_FOLDER, "Unknown", "63", "Unknown speed", "255")
    assert the_gpu(machine).link is None


def test_a_device_without_a_link_has_none(machine: Machine) -> None:
    plug_in(machine)
    assert (the_gpu(machine).link, the_gpu(machine).errors, the_gpu(machine).removable) == (None, {}, None)


@pytest.mark.parametrize(("text", "node"), [("0\n", 0), ("7\n", 7), ("-1\n", None), ("", None), ("all\n", None)])
def test_a_node_of_memory_is_a_number_from_0_on(machine: Machine, text: str, node: int | None) -> None:
    plug_in(machine, numa_node=text)
    assert the_gpu(machine).numa_node == node


@pytest.mark.parametrize("kind", ["DMA", "DMA-FQ", "identity"])
def test_the_group_of_the_iommu_and_its_type(machine: Machine, kind: str) -> None:
    plug_in(machine)
    machine.file("/sys/kernel/iommu_groups/14/type", kind + "\n")
    machine.link(f"{GPU_FOLDER}/iommu_group", "../../../../kernel/iommu_groups/14")
    found = the_gpu(machine)
    assert (found.iommu_group, found.iommu_type) == ("14", kind)


def test_errors_on_the_link_are_counted_at_both_ends(machine: Machine) -> None:
    plug_in(machine, aer_dev_correctable=CORRECTABLE, aer_dev_fatal=NO_FATAL)
    machine.file(f"{PORT_FOLDER}/aer_dev_nonfatal", "TOTAL_ERR_NONFATAL 3\n")
    found = the_gpu(machine)
    assert (found.errors, found.port_errors) == ({"correctable": 19, "fatal": 0}, {"nonfatal": 3})


@pytest.mark.parametrize(
    ("text", "removable"), [("removable\n", True), ("fixed\n", False), ("unknown\n", None), ("", None)]
)
def test_a_gpu_below_an_external_port_is_removable(machine: Machine, text: str, removable: bool | None) -> None:
    # https://github.com/torvalds/linux/blob/v5.14/Documentation/ABI/testing/sysfs-devices-removable
    plug_in(machine, removable=text)
    assert the_gpu(machine).removable is removable


def test_a_virtual_function_names_its_device(machine: Machine) -> None:
    plug_in(machine)
    machine.link(f"{GPU_FOLDER}/physfn", "../0000:01:00.4")
    assert the_gpu(machine).physical_function == "0000:01:00.4"


def test_a_gpu_on_the_root_itself_has_no_port(machine: Machine) -> None:
    for name, value in (("vendor", "10de"), ("device", "2204"), ("class", "030200")):
        machine.file(f"/sys/devices/pci0000:00/0000:00:05.0/{name}", f"0x{value}\n")
    machine.link("/sys/bus/pci/devices/0000:00:05.0", "../../../devices/pci0000:00/0000:00:05.0")
    assert (the_gpu(machine).port, the_gpu(machine).port_link) == ("", None)


def test_other_devices_are_not_asked_for_their_connection(machine: Machine) -> None:
    plug_in(machine, class_code="040300")
    link_up(machine, GPU_FOLDER, "2.5 GT/s PCIe", "4", "16.0 GT/s PCIe", "16")
    assert machine.ask(pci).devices[0].link is None


def test_a_ring_of_links_has_no_port(machine: Machine) -> None:
    plug_in(machine)
    link = machine.root / f"sys/bus/pci/devices/{GPU}"
    link.unlink()
    for name, value in (("vendor", "10de"), ("device", "2204"), ("class", "030000")):
        machine.file(f"/sys/bus/pci/devices/{GPU}/{name}", f"0x{value}\n")
    machine.link(f"/sys/bus/pci/devices/{GPU}/numa_node", "numa_node")
    assert (the_gpu(machine).port, the_gpu(machine).numa_node) == ("", None)


def test_this_machines_devices_are_read_without_harm() -> None:
    if not os.path.isdir("/sys/bus/pci/devices"):
        pytest.skip("there is no PCI bus here")
    for device in pci.function(host=Host()).devices:
        assert device.port in ("", *os.listdir("/sys/bus/pci/devices"))
