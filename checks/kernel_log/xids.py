"""The codes in the kernel log about the GPUs: which are recent, and which of them explains the others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tfgpu_doctor.checks.devices import Row
from tfgpu_doctor.knowledge import Knowledge, version
from tfgpu_doctor.knowledge.schema import Xid
from tfgpu_doctor.model import SEVERITIES, UNDETERMINED, Confidence, NotMeasured, Severity
from tfgpu_doctor.model.facts.kernel import NOT_FATAL, KernelLog, KernelMessage
from tfgpu_doctor.model.facts.machine import Container, Pci, Scheduler
from tfgpu_doctor.model.facts.nvidia import CudaDriver, Driver, Nvml

IDLE_TIMEOUT = 8
OFF_THE_BUS = 79
RECOVERY_ACTION = 154
_NO_RESET = re.compile(r"\bto 0x\w+ \((?:None|Drain P2P)\b")  # an Xid 154 that asks for no reset, or no longer
# An SXid says itself whether it is fatal, in words or as a severity (NVSWITCH_ERROR_SEVERITY_FATAL is 1).
FATAL = re.compile(r"\d, (?:Fatal|Severity 1)\b")
FOLLOWS = re.compile(r"caused by previous Xid (\d+)")  # an Xid 45 that names its reason
# A fatal error of NVLink 5 needs a reset; it takes the channels of the programs with it.
_ENDS_PROGRAMS = re.compile(r"\): 1(?:4[4-9]|50), .*\bFatal\b|caused by previous Xid 1(?:4[4-9]|50)\b")
_WAITS_FOR_RESET = re.compile(r"\breset gpu to activate\b", re.IGNORECASE)  # an Xid 63
# Labels that name what failed and not why, by rank: a code with a reason explains them, and the past of a GPU that works
# is no fault of the machine.
_WITHOUT_REASON = {
    "gpu_hang": 1, "gpu_start_failed": 1, "nvswitch_fault": 1, "gpu_reset_required": 1, "gpu_kernel_fault": 2, UNDETERMINED: 3,
}  # fmt: skip
_STATED = ("gpu_lost", "gpu_hang", "gpu_reset_required")  # the driver itself says so
_ASK = "as root, run `dmesg | grep -i -e xid -e NVRM`"
_HARDWARE = (("hardware",), ("bus",), ("power",))  # causes that a reset may not fix; the driver has handled the others


@dataclass(frozen=True)
class Reported:
    """One code of one GPU or switch; `row` is None if the table has no entry for it with this driver."""

    message: KernelMessage
    code: int
    row: Xid | None
    is_news: bool

    @property
    def name(self) -> str:
        """Return `Xid 79`, with the count if it occurred more than once."""
        times = f" ({self.message.count} times)" if self.message.count > 1 else ""
        return f"{self._word} {self.code}{times}"

    @property
    def rows(self) -> tuple[Row, ...]:
        """Return the code and how often it was reported, as figures."""
        return (self._word, self.code, ""), (f"{self._word} reports", self.message.count, "")

    @property
    def _word(self) -> str:
        return "SXid" if self.message.kind == "sxid" else "Xid"


def read_log(kernel_log: KernelLog) -> KernelLog:
    """Return the log if it could be read; otherwise raise NotMeasured."""
    if not kernel_log.source:
        why = f" ({kernel_log.why_unread})" if kernel_log.why_unread else ""
        raise NotMeasured(f"the kernel log cannot be read{why}; {_ASK}")
    return kernel_log


def reach(kernel_log: KernelLog) -> str:
    """Return which log was read, and from which time on."""
    source = kernel_log.reach
    since = "the boot" if source and source.from_boot else ago(source.oldest_age_s if source else None)
    return f"{kernel_log.source}, read from {since} on"


def ago(seconds: float | None) -> str:
    """`3 minutes ago`."""
    if seconds is None:
        return "at an unknown time"
    for unit, name in ((86400.0, "day"), (3600.0, "hour"), (60.0, "minute")):
        if seconds >= unit:
            number = int(seconds // unit)
            return f"{number} {name}{'s' if number > 1 else ''} ago"
    return "less than a minute ago"


def reported(kernel_log: KernelLog, kind: str, knowledge: Knowledge, driver: Driver | None) -> list[Reported]:
    """Return the codes of one kind since boot. A code is news if it is less than a day old and newer than the driver's load."""
    found = []
    for message in kernel_log.of_kind(kind, *(("off_the_bus",) if kind == "xid" else ())):
        code = _code(message)
        row = _row(kind, code, knowledge, driver)
        anew = is_news(message, knowledge) if message.code is None else is_current(message, kernel_log, knowledge)
        found.append(Reported(message, code, row, anew))
    return found


def _code(message: KernelMessage) -> int:
    """Return the code of a message: that of its reason, if it names one."""
    reason = FOLLOWS.search(message.text) if message.kind == "xid" else None
    if reason:
        return int(reason.group(1))
    return OFF_THE_BUS if message.code is None else message.code


def is_news(message: KernelMessage, knowledge: Knowledge) -> bool:
    """Whether a message is recent enough to describe the machine's current state."""
    return message.last_age_s is not None and message.last_age_s <= float(knowledge.boundaries["xid_is_news_s"].value)


def is_current(message: KernelMessage, kernel_log: KernelLog, knowledge: Knowledge) -> bool:
    """Whether a message is recent, and the driver was not loaded anew since."""
    loads = [each.last_age_s for each in kernel_log.of_kind("driver_loaded") if each.last_age_s is not None]
    return is_news(message, knowledge) and not any((message.last_age_s or 0.0) > load for load in loads)


def _row(kind: str, code: int, knowledge: Knowledge, driver: Driver | None) -> Xid | None:
    """Return the table's entry for a code, if it applies to this driver."""
    row = knowledge.xids.get((kind, code))
    if row is None or not driver or not driver.version:
        return row
    ours = version(driver.version)
    too_old = bool(row.drivers.since) and ours < version(row.drivers.since)
    too_new = bool(row.drivers.until) and ours > version(row.drivers.until)
    return None if too_old or too_new else row


def by_device(rows: Sequence[Reported]) -> dict[str, list[Reported]]:
    """Map each address to its codes, the explaining one first: sorted by severity, then by what the cause tells, then age."""
    found: dict[str, list[Reported]] = {}
    for each in sorted(rows, key=_gravity):
        found.setdefault(each.message.pci_address.removesuffix(".0"), []).append(each)
    return found


def _gravity(each: Reported) -> tuple[bool, int, int, float]:
    faulty = is_fault(each.row, each.message.text)
    severity = SEVERITIES.index(each.row.severity) if each.row and faulty else -1
    vague = _WITHOUT_REASON.get(each.row.cause, 0) if each.row and faulty else _WITHOUT_REASON[UNDETERMINED]
    return not each.is_news, -severity, vague, -(each.message.first_age_s or 0.0)


def is_fault(row: Xid | None, text: str) -> bool:
    """Whether a line with this code reports a fault: not if a switch calls it not fatal, or no reset is asked for."""
    if row is None or not row.cause or row.severity == "info":
        return False
    if row.kind == "sxid":
        return bool(FATAL.search(text))
    return not (NOT_FATAL.search(text) or (row.code == RECOVERY_ACTION and _NO_RESET.search(text)))


def severity_of(each: Reported, *, broken: bool) -> Severity:
    """Return how severe a code is now. A past program or driver error is not a fault of a machine that works."""
    row = each.row
    if row is None or not each.is_news or not is_fault(row, each.message.text):
        return "info"
    if broken and (row.severity == "error" or _ENDS_PROGRAMS.search(each.message.text)):
        return "error"
    by_hardware = row.severity == "error" and row.likely[:1] in _HARDWARE
    return "warning" if broken or by_hardware or row.cause not in _WITHOUT_REASON else "info"


def label_of(row: Xid | None, text: str = "") -> tuple[str, Confidence]:
    """Return the cause of a code and its confidence: high if the driver states it, or the hardware is the first suspect."""
    if row is None or not row.cause:
        return UNDETERMINED, "low"
    if row.severity != "error" and _WAITS_FOR_RESET.search(text):
        return "gpu_reset_required", "high"
    certain = row.cause in _STATED or row.likely[:1] == ("hardware",)
    return row.cause, "high" if certain else "medium"


def is_ours(
    address: str,
    cuda_driver: CudaDriver | None,
    nvml: Nvml | None,
    container: Container | None,
    scheduler: Scheduler | None,
) -> bool:
    """Whether a GPU concerns this process: not if it is hidden, or belongs to another container or job."""
    seen = [gpu.pci_address for gpu in (cuda_driver.gpus if cuda_driver else ()) if gpu.pci_address]
    listed = [gpu.pci_address for gpu in (nvml.gpus if nvml else ()) if gpu.pci_address]
    if any(same_place(address, each) for each in seen):
        return True
    refused = [each.pci_address for each in (nvml.troubles if nvml else ()) if each.is_refused]
    if any(same_place(address, each) for each in (*(listed if seen else ()), *refused)):
        return False
    given = bool((container and container.kind) or (scheduler and scheduler.kind))
    return not (given and (seen or listed))


def is_bound_elsewhere(address: str, pci: Pci | None) -> bool:
    """Whether another driver has the GPU now, such as vfio-pci for a virtual machine."""
    devices = pci.devices if pci else ()
    return any(same_place(address, each.address) and each.driver not in ("", "nvidia") for each in devices)


def is_gone(address: str, cuda_driver: CudaDriver | None, nvml: Nvml | None) -> bool:
    """Whether a GPU that this process may use can no longer be used, although others can: NVML or CUDA lists only those."""
    if any(same_place(address, each.pci_address) for each in (nvml.troubles if nvml else ()) if each.pci_address):
        return True
    listed = [gpu.pci_address for gpu in (cuda_driver.gpus if cuda_driver else ()) if gpu.pci_address]
    listed = listed or [gpu.pci_address for gpu in (nvml.gpus if nvml else ()) if gpu.pci_address]
    return bool(listed) and not any(same_place(address, each) for each in listed)


def same_place(one: str, other: str) -> bool:
    """Whether two addresses name one device, with a domain of four, eight or no digits, with or without a function."""
    return _place(one) == _place(other)


def _place(address: str) -> tuple[str, ...]:
    parts = address.lower().partition(".")[0].split(":")
    domain = parts[0].lstrip("0") if len(parts) > 2 else ""
    return domain, *parts[-2:]
