"""The PCI bus as lspci prints it: with or without numbers (-nn), drivers (-k) and links (-vv)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tfgpu_doctor.model.facts.machine import Pci, PciDevice, PciLink

_DEVICE = re.compile(
    r"((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7]) (\S[^:\[\]]{2,60}?)(?: \[([0-9a-f]{4})\])?: (\S.{0,300})"
)
_IDS = re.compile(r"\[([0-9a-f]{4}):([0-9a-f]{4})\]")
_BARE_IDS = re.compile(r"([0-9a-f]{4}):([0-9a-f]{4})\b")  # lspci -n
_UNNAMED = re.compile(r" Device ([0-9a-f]{4})(?: \(rev |$)")  # one that is not in lspci's list of names
_DRIVER = re.compile(r"\s+Kernel driver in use: (\S{1,40})\s*")
_LINK = re.compile(r"\s+Lnk(Cap|Sta):.{0,80}?\bSpeed (\d{1,3}(?:\.\d)?)GT/s.{0,40}?, Width x(\d{1,2})\b")
_CLASSES = {
    "VGA compatible controller": "030000", "3D controller": "030200", "Display controller": "038000",
    "Audio device": "040300", "Bridge": "068000", "PCI bridge": "060400", "Host bridge": "060000",
    "USB controller": "0c0330", "Serial bus controller": "0c8000", "Infiniband controller": "020700",
}  # fmt: skip
_VENDORS = {
    "NVIDIA": "10de",
    "nVidia": "10de",
    "Advanced Micro Devices": "1002",
    "Intel": "8086",
    "Matrox": "102b",
    "ASPEED": "1a03",
}
_NVIDIA = "10de"
_FEWEST = 8  # devices of a whole bus
_GAP = 4  # lines of other text after which a list has ended; details (-vv) are indented


@dataclass
class _Row:
    address: str
    vendor: str
    device: str
    class_code: str
    driver: str = ""
    links: dict[str, tuple[float, int]] = field(default_factory=dict)

    def fact(self) -> PciDevice:
        now, most = self.links.get("Sta", (None, None)), self.links.get("Cap", (None, None))
        link = PciLink(speed_gt_per_s=now[0], width=now[1], max_speed_gt_per_s=most[0], max_width=most[1])
        return PciDevice(
            address=self.address,
            vendor=self.vendor,
            device=self.device,
            class_code=self.class_code,
            driver=self.driver,
            link=link if self.links else None,
        )


@dataclass
class _List:
    """The devices of one list, by address; the line (from 1) where it begins; the lines of other text since the last one."""

    line: int
    others: int = 0
    rows: dict[str, _Row] = field(default_factory=dict)

    def pci(self) -> Pci:
        # The functions of a GPU for sound and USB are NVIDIA's, too.
        shown = [row for row in self.rows.values() if row.vendor == _NVIDIA or row.class_code.startswith("03")]
        return Pci(devices=tuple(row.fact() for row in shown), device_count=len(self.rows))

    @property
    def is_whole(self) -> bool:
        """Whether it looks like all of a bus, and not like the lines that grep found."""
        return len(self.rows) >= _FEWEST and any(row.class_code.startswith("0600") for row in self.rows.values())


def read_pci(lines: Sequence[str]) -> tuple[int, Pci | None]:
    """The first list with a GPU of NVIDIA, otherwise the first one of a whole bus; the line (from 1) where it begins.

    An excerpt (`lspci | grep VGA`) without such a GPU says nothing: the class of many is `3D controller`.
    """
    lists = _lists(lines)
    chosen = next((each for each in lists if each.pci().nvidia_gpus), None)
    chosen = chosen or next((each for each in lists if each.is_whole), None)
    return (chosen.line, chosen.pci()) if chosen else (0, None)


def _lists(lines: Sequence[str]) -> list[_List]:
    found: list[_List] = []
    for place, line in enumerate(lines):
        device = _DEVICE.match(line.lstrip()) if ":" in line[:20] else None
        if device:
            row = _row(device)
            if not found or found[-1].others > _GAP or row.address in found[-1].rows:
                found.append(_List(place + 1))
            found[-1].rows[row.address] = row
            found[-1].others = 0
        elif found and line[:1].isspace() and found[-1].others <= _GAP:
            _detail(next(reversed(found[-1].rows.values())), line)
        elif found and line:
            found[-1].others += 1
    return found


def _row(device: re.Match[str]) -> _Row:
    address, class_name, class_code, text = device.groups()
    bare = _BARE_IDS.match(text)
    ids = bare.groups() if bare else next(iter(_IDS.findall(text)[-1:]), None)
    unnamed = _UNNAMED.search(text)
    vendor, code = ids or (_vendor(text), unnamed[1] if unnamed else "")
    number = class_code or (class_name if bare else "")
    full = address if address.count(":") == 2 else f"0000:{address}"
    return _Row(full, vendor, code, f"{number}00" if number else _CLASSES.get(class_name, ""))


def _vendor(text: str) -> str:
    return next((code for name, code in _VENDORS.items() if text.startswith(name)), "")


def _detail(row: _Row, line: str) -> None:
    if driver := _DRIVER.fullmatch(line):
        row.driver = driver[1]
    elif "GT/s" in line and (link := _LINK.match(line)):
        row.links.setdefault(link[1], (float(link[2]), int(link[3])))
