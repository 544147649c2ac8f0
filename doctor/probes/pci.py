"""The PCI bus, as sysfs shows it."""

from __future__ import annotations

import os

from tfgpu_doctor.facts import Pci, PciDevice
from tfgpu_doctor.facts.machine import NVIDIA
from tfgpu_doctor.host import Host
from tfgpu_doctor.probe import Unavailable, probe

_FOLDER = "/sys/bus/pci/devices"


@probe(waits_for="the PCI bus")
def pci(host: Host) -> Pci:
    """Read vendor, device, class and driver of each device; no device's own registers, which would wake it up."""
    try:
        addresses = host.files.list_folder(_FOLDER)
    except OSError as error:
        raise Unavailable(f"{_FOLDER} cannot be read ({error.strerror})") from error
    devices = [device for address in addresses if (device := _read(host, address))]
    shown = [device for device in devices if device.vendor == NVIDIA or device.class_code.startswith("03")]
    return Pci(devices=tuple(shown), device_count=len(devices))


def _read(host: Host, address: str) -> PciDevice | None:
    folder = f"{_FOLDER}/{address}"
    try:
        vendor, device, class_code = (
            host.files.read_text(f"{folder}/{name}").strip().removeprefix("0x")
            for name in ("vendor", "device", "class")
        )
    except OSError:
        return None  # taken out between listing and reading
    try:
        driver = os.path.basename(host.files.link_target(f"{folder}/driver"))
    except OSError:
        driver = ""
    return PciDevice(address=address, vendor=vendor, device=device, class_code=class_code, driver=driver)
