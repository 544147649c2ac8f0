"""Facts of the kernel: its log messages about the GPUs, the driver's module on disk, the services that should run."""

from __future__ import annotations

import re

from tfgpu_doctor.model.facts.attempt import Fact
from tfgpu_doctor.model.redaction import Count, FilePath, Number, ProcessName, Release, Text, Version

NOT_FATAL = re.compile(r"\bnon-?fatal\b", re.IGNORECASE)


class KernelMessage(Fact, frozen=True):
    """Messages of one kind in the kernel log, of one GPU if they name one.

    Ages are seconds before the recording; None if the log does not date its lines.
    """

    kind: Text  # "xid", "sxid", "off_the_bus", ...: see probes/kernel_messages.py
    text: Text  # the last of them, without the prefix of the log
    code: Count | None = None  # of an Xid or SXid
    pci_address: Text = ""  # as the message writes it, "0000:01:00"
    process: ProcessName = ""  # named in the last of them
    count: Count = 1
    first_age_s: Number | None = None
    last_age_s: Number | None = None
    boots_ago: Count = 0  # 0 since the last boot, 1 in the one before it

    @property
    def is_not_fatal(self) -> bool:
        """Whether its text says so: one code of NVLink has fatal and other messages."""
        return bool(NOT_FATAL.search(self.text))

    @property
    def is_gone(self) -> bool:
        """Whether it is from before the last boot."""
        return self.boots_ago > 0


class LogSource(Fact, frozen=True):
    """A source of kernel messages, and how far back it reaches; `error` if it could not be read."""

    name: Text  # "dmesg", "journalctl", "/var/log/kern.log"
    error: Text = ""
    oldest_age_s: Number | None = None
    newest_age_s: Number | None = None
    from_boot: bool = False  # it begins with the kernel's first message


class KernelLog(Fact, frozen=True):
    """The kernel messages that matter to a GPU, from the first source that could be read."""

    source: Text = ""  # empty if none could be read
    tried: tuple[LogSource, ...] = ()  # in the order in which they were tried
    uptime_s: Number | None = None
    messages: tuple[KernelMessage, ...] = ()
    left_out: Count = 0  # kinds of messages beyond those kept

    def of_kind(self, *kinds: str) -> tuple[KernelMessage, ...]:
        """Those of some kinds since the last boot."""
        return tuple(each for each in self.messages if each.kind in kinds and not each.is_gone)

    @property
    def reach(self) -> LogSource | None:
        """The source that was read."""
        return next((each for each in self.tried if each.name == self.source), None)

    @property
    def why_unread(self) -> str:
        """Why each source could not be read."""
        return "; ".join(f"{each.name}: {each.error}" for each in self.tried if each.error)


class ModuleFile(Fact, frozen=True):
    """NVIDIA's kernel module on disk for the running kernel; fields that modinfo does not report are empty."""

    path: FilePath = ""
    version: Version = ""  # "550.54.15"
    flavour: Text = ""  # "open" or "proprietary", from its license
    signer: Text = ""
    kernel: Release = ""  # that it was built for


class DkmsModule(Fact, frozen=True):
    """A version of NVIDIA's module that DKMS manages."""

    name: Text  # "nvidia", "nvidia-current"
    version: Version
    state: Text = "added"  # for the running kernel: "added", "built", "installed"
    failed_for: Release = ""  # the kernel of the last build, if that did not complete
    log: FilePath = ""  # of that build
    error: Text = ""  # its first line that reports an error


class ModuleFiles(Fact, frozen=True):
    """The installed files of NVIDIA's kernel module, and its DKMS builds."""

    file: ModuleFile | None = None
    dkms: tuple[DkmsModule, ...] = ()
    headers: bool | None = None  # of the running kernel; None if it has no modules either


class Services(Fact, frozen=True):
    """NVIDIA's services, among the running processes; `visible` if those of other users could be seen."""

    visible: bool = False
    running: tuple[ProcessName, ...] = ()  # "nv-fabricmanager", "nvidia-persistenced", "nvidia-cuda-mps-control", ...
    fabric_manager_version: Version = ""  # of the program that is installed
