"""The PCI bus, as sysfs shows it."""

from __future__ import annotations

import os
import re

import msgspec

from tfgpu_doctor.collect.probe import Unavailable, probe
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts.machine import NVIDIA, Pci, PciDevice, PciLink

_FOLDER = "/sys/bus/pci/devices"
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_ASLEEP = ("suspended", "suspending", "resuming", "error")  # Documentation/ABI/testing/sysfs-devices-power
_REMOVABLE = {"removable": True, "fixed": False}  # Documentation/ABI/testing/sysfs-devices-removable, Linux 5.14
_ERRORS = {"correctable": "TOTAL_ERR_COR", "nonfatal": "TOTAL_ERR_NONFATAL", "fatal": "TOTAL_ERR_FATAL"}


@probe(waits_for="the PCI bus")
def pci(host: Host) -> Pci:
    """Read vendor, device, class and driver of each device; of NVIDIA's that are awake also how they are connected."""
    try:
        addresses = host.files.list_folder(_FOLDER)
    except OSError as error:
        raise Unavailable(f"{_FOLDER} cannot be read ({error.strerror})") from error
    devices = [device for address in addresses if (device := _read(host, address))]
    shown = [device for device in devices if device.vendor == NVIDIA or device.class_code.startswith("03")]
    return Pci(
        devices=tuple(_connected(host, each) if each.is_nvidia_gpu or each.is_nvswitch else each for each in shown),
        device_count=len(devices),
    )


def _read(host: Host, address: str) -> PciDevice | None:
    folder = f"{_FOLDER}/{address}"
    try:
        vendor, device, class_code = (
            host.files.read_text(f"{folder}/{name}").strip().removeprefix("0x")
            for name in ("vendor", "device", "class")
        )
    except OSError:
        return None  # removed between listing and reading
    return PciDevice(
        address=address, vendor=vendor, device=device, class_code=class_code, driver=_linked(host, f"{folder}/driver")
    )


def _connected(host: Host, device: PciDevice) -> PciDevice:
    """The device with its place on the bus. Its link is not read while it sleeps: reading would wake it up."""
    folder = f"{_FOLDER}/{device.address}"
    power = host.files.text_if_any(f"{folder}/power/runtime_status").strip()
    port = _port(host, device.address)
    group = _linked(host, f"{folder}/iommu_group")
    awake = power not in _ASLEEP
    return msgspec.structs.replace(
        device,
        power=power,
        link=_link(host, device.address) if awake else None,
        port=port,
        port_link=_link(host, port) if awake and port else None,
        numa_node=_natural(host.files.text_if_any(f"{folder}/numa_node")),
        iommu_group=group,
        iommu_type=host.files.text_if_any(f"/sys/kernel/iommu_groups/{group}/type").strip() if group else "",
        errors=_errors(host, device.address),
        port_errors=_errors(host, port) if port else {},
        physical_function=_linked(host, f"{folder}/physfn"),
        removable=_REMOVABLE.get(host.files.text_if_any(f"{folder}/removable").strip()),
    )


def _port(host: Host, address: str) -> str:
    """The bridge above a device: /sys/devices nests the folder of each device in that of the bridge that leads to it."""
    try:
        above = os.path.basename(os.path.dirname(host.files.real_path(f"{_FOLDER}/{address}")))
    except OSError:
        return ""
    return above if _ADDRESS.fullmatch(above) else ""


def _link(host: Host, address: str) -> PciLink | None:
    """The link below a bridge or above a device; None if it has none, or does not respond."""
    texts = {
        name: host.files.text_if_any(f"{_FOLDER}/{address}/{name}")
        for name in ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")
    }
    link = PciLink(
        speed_gt_per_s=_speed(texts["current_link_speed"]),
        width=_width(texts["current_link_width"]),
        max_speed_gt_per_s=_speed(texts["max_link_speed"]),
        max_width=_width(texts["max_link_width"]),
    )
    return link if link != PciLink() else None


def _errors(host: Host, address: str) -> dict[str, int]:
    """Totals of Advanced Error Reporting, which the kernel counts; empty if it does not."""
    found = {}
    for kind, total in _ERRORS.items():
        text = host.files.text_if_any(f"{_FOLDER}/{address}/aer_dev_{kind}")
        counted = re.search(rf"^{total} (\d+)$", text, re.MULTILINE)
        if counted:
            found[kind] = int(counted.group(1))
    return found


def _linked(host: Host, path: str) -> str:
    """The last name in a link's target; empty if there is no link."""
    try:
        return os.path.basename(host.files.link_target(path))
    except OSError:
        return ""


def _speed(text: str) -> float | None:
    """The number in `16.0 GT/s PCIe`; older kernels write `8 GT/s`, or `Unknown speed`."""
    found = re.match(r"(\d+(?:\.\d+)?) GT/s", text)
    return float(found.group(1)) if found else None


def _width(text: str) -> int | None:
    """The number of lanes; 0 and 63, all bits of the field, are the values of a device that does not respond."""
    lanes = _natural(text)
    return lanes if lanes and lanes <= 32 else None


def _natural(text: str) -> int | None:
    """A number from 0 on; None for others: a NUMA node of -1 means no node."""
    return int(text) if text.strip().isdecimal() else None
