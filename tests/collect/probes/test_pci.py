"""The probe of the PCI bus."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tfgpu_doctor.collect.probe import Unavailable
from tfgpu_doctor.collect.probes.pci import pci
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts.machine import PciDevice

if TYPE_CHECKING:
    from collect.probes.conftest import Machine


def plug_in(machine: Machine, address: str, vendor: str, device: str, class_code: str, driver: str = "") -> None:
    """Add a device as sysfs shows it: a folder under /sys/devices, a link to it, a link to its driver."""
    folder = f"/sys/devices/pci0000:00/0000:00:01.1/{address}"
    for name, value in (("vendor", vendor), ("device", device), ("class", class_code)):
        machine.file(f"{folder}/{name}", f"0x{value}\n")
    machine.link(f"/sys/bus/pci/devices/{address}", f"../../../devices/pci0000:00/0000:00:01.1/{address}")
    if driver:
        machine.folder(f"/sys/bus/pci/drivers/{driver}")
        machine.link(f"{folder}/driver", f"../../../../bus/pci/drivers/{driver}")


def test_nvidias_devices_and_every_display_are_listed(machine: Machine) -> None:
    plug_in(machine, "0000:00:02.0", "8086", "4680", "030000", "i915")
    plug_in(machine, "0000:00:1f.6", "8086", "1a1d", "020000", "e1000e")
    plug_in(machine, "0000:01:00.0", "10de", "2204", "030000", "nvidia")
    plug_in(machine, "0000:01:00.1", "10de", "1aef", "040300", "snd_hda_intel")
    found = machine.ask(pci)
    assert found.device_count == 4
    assert found.devices == (
        PciDevice(address="0000:00:02.0", vendor="8086", device="4680", class_code="030000", driver="i915"),
        PciDevice(
            address="0000:01:00.0", vendor="10de", device="2204", class_code="030000", driver="nvidia",
            port="0000:00:01.1",
        ),
        PciDevice(address="0000:01:00.1", vendor="10de", device="1aef", class_code="040300", driver="snd_hda_intel"),
    )  # fmt: skip
    assert [gpu.address for gpu in found.nvidia_gpus] == ["0000:01:00.0"]


@pytest.mark.parametrize(
    ("class_code", "is_gpu", "is_switch"),
    [
        ("030000", True, False),  # VGA
        ("030200", True, False),  # 3D controller: A100, H100
        ("038000", True, False),
        ("068000", False, True),  # NVSwitch
        ("060400", False, False),
        ("0c0330", False, False),  # the USB controller of a card with USB-C
    ],
)
def test_the_class_tells_gpu_and_switch(machine: Machine, class_code: str, is_gpu: bool, is_switch: bool) -> None:
    plug_in(machine, "0000:07:00.0", "10de", "20b0", class_code, "nvidia")
    (device,) = machine.ask(pci).devices
    assert (device.is_nvidia_gpu, device.is_nvswitch) == (is_gpu, is_switch)


def test_a_device_without_a_driver_has_none(machine: Machine) -> None:
    plug_in(machine, "0000:01:00.0", "10de", "2204", "030000")
    assert machine.ask(pci).devices[0].driver == ""


def test_a_device_held_by_another_driver_says_so(machine: Machine) -> None:
    plug_in(machine, "0000:01:00.0", "10de", "2204", "030000", "vfio-pci")
    assert machine.ask(pci).devices[0].driver == "vfio-pci"


def test_an_empty_bus_has_no_devices(machine: Machine) -> None:
    machine.folder("/sys/bus/pci/devices")
    found = machine.ask(pci)
    assert (found.devices, found.device_count) == ((), 0)


def test_a_machine_without_sysfs_has_no_answer(machine: Machine) -> None:
    with pytest.raises(Unavailable, match=r"/sys/bus/pci/devices cannot be read \(No such file"):
        machine.ask(pci)


def test_a_device_taken_out_while_reading_is_left_out(machine: Machine) -> None:
    plug_in(machine, "0000:01:00.0", "10de", "2204", "030000", "nvidia")
    machine.link("/sys/bus/pci/devices/0000:02:00.0", "../../../devices/pci0000:00/0000:02:00.0")
    machine.file("/sys/bus/pci/devices/0000:03:00.0/vendor", "0x10de\n")
    found = machine.ask(pci)
    assert found.device_count == 1
    assert [device.address for device in found.devices] == ["0000:01:00.0"]


def test_junk_in_place_of_numbers_is_no_gpu(machine: Machine) -> None:
    folder = "/sys/bus/pci/devices/0000:01:00.0"
    for name in ("vendor", "device", "class"):
        machine.file(f"{folder}/{name}", b"\xff\xfe\0 junk")
    found = machine.ask(pci)
    assert (found.device_count, found.nvidia_gpus) == (1, ())


def test_this_machine_is_read_as_it_is() -> None:
    folder = "/sys/bus/pci/devices"
    if not os.path.isdir(folder):
        with pytest.raises(Unavailable):
            pci.function(host=Host())
        return
    found = pci.function(host=Host())
    assert found.device_count == len(os.listdir(folder))
    for device in found.devices:
        link = f"{folder}/{device.address}/driver"
        assert device.driver == (os.path.basename(os.readlink(link)) if os.path.islink(link) else "")
