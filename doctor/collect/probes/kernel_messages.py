"""The kernel messages that matter to a GPU: the kind of each, counted by kind, code and device."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

import msgspec

from tfgpu_doctor.collect.probes.kernel_lines import Line
from tfgpu_doctor.model.facts.kernel import KernelMessage

_MOST = 60
_LONGEST_TEXT = 400
_DEVICE = r"(?P<device>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
# Map kind to pattern. The driver's messages are those of github.com/NVIDIA/open-gpu-kernel-modules, tag 595.45.04:
# kernel_rc.c, common_nvswitch.h, osapi.c, osinit.c, nv.c; the kernel's those of its module/signing.c, drivers/pci/pcie/aer.c,
# drivers/pci/pcie/err.c, mm/oom_kill.c, kernel/power/suspend.c, drivers/iommu, fs/ext4, fs/xfs, and of systemd's journal-file.c.
_FORMS = {
    "xid": r"NVRM: Xid \((?:PCI:)?(?P<device>[0-9a-f:.]+)[^)]*\): (?P<code>\d+)(?:.*?pid='?[^,']+'?, name=(?P<process>[^,]+))?",
    "sxid": r"nvidia-nvswitch\d+: SXid \(PCI:(?P<device>[0-9a-f:.]+)\): (?P<code>\d+)",
    "off_the_bus": rf"NVRM: The NVIDIA GPU {_DEVICE}.*\bfallen off the bus"
                   r"|NVRM: GPU at (?:PCI:)?(?P<former>[0-9a-f:.]+) has fallen off the bus",
    "legacy_gpu": r"NVRM: The NVIDIA .* GPU installed in this system is(?: *$| supported through the NVIDIA .*Legacy drivers)",
    "unsupported_gpu": rf"NVRM: The NVIDIA GPU {_DEVICE}.*is not supported by the (?!open)",
    "open_module_cannot": rf"NVRM: The NVIDIA v?GPU {_DEVICE}.*is not supported by open nvidia\.ko",
    "open_module_needed": rf"NVRM: The NVIDIA GPU {_DEVICE}.*requires use of the NVIDIA open kernel modules",
    "init_failed": rf"NVRM: GPU {_DEVICE}: RmInitAdapter failed",
    "taken_by_another": r"NVRM: This can occur when (?:another driver was loaded and|a driver such as)",
    "api_mismatch": r"NVRM: API mismatch: the client(?: '(?P<process>[^']+)')?",
    "driver_loaded": r"NVRM: loading NVIDIA UNIX .*Kernel Module",
    "firmware_missing": rf"nvidia (?:{_DEVICE}: )?(?:Direct firmware load for |loading /lib/firmware/)nvidia/[0-9.]+/gsp\S+ "
                        r"failed|RmFetchGspRmImages: No firmware image found",
    "module_refused": r"Loading of (?:unsigned module|module with .{1,30}) is rejected|unsigned module loading is restricted",
    "module_mismatch": r"^nvidia\w*: (?:version magic '|disagrees about version of symbol)",
    "pci_unrecovered": rf"nvidia {_DEVICE}: AER: can't recover",
    "pci_fatal": rf"{_DEVICE}: (?:AER: )?PCIe Bus Error: severity=Uncorrect\w+ \(Fatal\)",
    "pci_nonfatal": rf"{_DEVICE}: (?:AER: )?PCIe Bus Error: severity=Uncorrect\w+ \(Non-Fatal\)",
    "pci_corrected": rf"{_DEVICE}: (?:AER: )?PCIe Bus Error: severity=Correct",
    "iommu_fault": r"DMAR: ?\[DMA \w+[^\]]*\] Request device \[?(?P<requester>[0-9a-f:.]+)"
                   r"|IO_PAGE_FAULT device=(?P<faulter>[0-9a-f:.]+)"
                   rf"|{_DEVICE}: AMD-Vi: Event logged \[IO_PAGE_FAULT",
    "resumed": r"^PM: (?:suspend|hibernation) exit|^PM: hibernation: hibernation exit",
    "out_of_memory": r"out of memory: Kill(?:ed)? process \d+ \((?P<process>[^)]+)\)",
    "unclean_boot": r"corrupted or uncleanly shut down|^EXT4-fs \(\S+\): recovery complete|^XFS \(\S+\): Starting recovery"
                    r"|^BTRFS .*: start tree-log replay",
}  # fmt: skip
_PLACES = ("device", "former", "requester", "faulter")
_NO_PROCESS = "<unknown>"  # what the driver writes instead of a name
RELEVANT = re.compile(
    "NVRM:|nvidia|PCIe Bus Error|is rejected|unsigned module|DMAR:|IO_PAGE_FAULT|PM: |ut of memory|uncleanly shut|"
    "EXT4-fs .*recovery|XFS .*recovery|tree-log replay"
)
_BY_PROCESS = ("out_of_memory", "api_mismatch")
# What the driver of the switches writes after a message: `Severity 1 Engine instance 12`, then numbers.
_DETAILS = re.compile(r"SXid \(PCI:[^)]*\): \d+, (?:Severity \d|Data )")
# Kinds that may occur hundreds of times, each for another device; they are dropped first.
_MANY = ("pci_corrected", "pci_nonfatal", "iommu_fault", "out_of_memory")


@functools.cache
def _patterns() -> dict[str, re.Pattern[str]]:
    """Compiled when the first message is read: a quick examination often finds no log."""
    return {kind: re.compile(form, re.IGNORECASE) for kind, form in _FORMS.items()}


def understand(line: Line) -> KernelMessage | None:
    """Parse a message; None if it is not relevant."""
    for kind, pattern in _patterns().items():
        if found := pattern.search(line.text):
            named = found.groupdict()
            return KernelMessage(
                kind=kind,
                text=line.text[:_LONGEST_TEXT],
                code=int(named["code"]) if named.get("code") else None,
                pci_address=next((named[each] for each in _PLACES if named.get(each)), "").lower(),
                process=(named.get("process") or "").strip().replace(_NO_PROCESS, ""),
                first_age_s=line.age_s,
                last_age_s=line.age_s,
                boots_ago=line.boots_ago,
            )
    return None


def gather(lines: Iterable[Line]) -> tuple[tuple[KernelMessage, ...], int]:
    """One message for each kind, code, device and boot, newest first; and the number of further ones that are dropped."""
    found: dict[tuple[object, ...], KernelMessage] = {}
    for line in lines:
        if message := understand(line):
            process = message.process if message.kind in _BY_PROCESS else ""
            mild = message.kind == "xid" and message.is_not_fatal  # such a line hides no fatal one
            key = (message.kind, message.code, message.pci_address, message.boots_ago, process, mild)
            found[key] = _together(found[key], message) if key in found else message
    rows = sorted(found.values(), key=lambda each: (each.kind in _MANY, each.boots_ago, _age(each.last_age_s)))
    return tuple(rows[:_MOST]), max(0, len(rows) - _MOST)


def _together(one: KernelMessage, other: KernelMessage) -> KernelMessage:
    """Merge two of a kind: the text of the later one that is more than details, the ages of both."""
    later = other if _age(other.last_age_s) <= _age(one.last_age_s) else one
    if _rank(other.text) != _rank(one.text):
        later = min(one, other, key=lambda each: _rank(each.text))
    firsts = [each.first_age_s for each in (one, other) if each.first_age_s is not None]
    return msgspec.structs.replace(
        later,
        count=one.count + other.count,
        first_age_s=max(firsts, default=None),
        last_age_s=min(one.last_age_s, other.last_age_s, key=_age),
        process=later.process or one.process,
    )


def _rank(text: str) -> int:
    """How little a text tells: a message 0, its severity 1, its numbers 2."""
    details = _DETAILS.search(text)
    return 0 if details is None else 2 if details.group().endswith("Data ") else 1


def _age(seconds: float | None) -> float:
    return float("inf") if seconds is None else seconds
