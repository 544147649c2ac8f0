"""The report: everything that a diagnosis came to. Each output format is a rendering of it, and of nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal

import msgspec

from tfgpu_doctor.model import SEVERITIES, Confidence, Finding, Fix, Severity
from tfgpu_doctor.model.facts.stress import Level

SCHEMA = 1
Outcome = Literal["pass", "warn", "fail", "skip", "blocked", "crash"]
OUTCOMES: tuple[Outcome, ...] = ("pass", "warn", "fail", "blocked", "skip", "crash")


class TargetSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The Python environment that was diagnosed; empty strings where that could not be read."""

    python: str = ""
    version: str = ""
    prefix: str = ""
    tensorflow: str = ""  # "2.21.0"
    distribution: str = ""  # "tensorflow"


class MachineSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The machine in a few words."""

    system: str = ""
    driver: str = ""
    gpus: tuple[str, ...] = ()
    container: str = ""


class VersionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A version as it was found, against what is needed, in words; empty where that is not known."""

    component: str  # "NVIDIA driver", "numpy"
    found: str = ""
    needed: str = ""
    needed_by: str = ""  # "CUDA 12.5.1", "TensorFlow 2.20.0"
    fits: bool | None = None  # whether it is within what the metadata asks for; None where the check alone can tell
    check: str = ""  # id of the check that judges it; empty where none does


class LibraryCopy(msgspec.Struct, frozen=True, kw_only=True):
    """A library that TensorFlow opens, and the copy of it that the loader takes."""

    soname: str
    found: bool | None = None  # None where a copy is there, and whether the loader takes it was not told
    needed: bool = True  # whether a GPU cannot be used without it
    version: str = ""
    origin: str = ""  # who brought it: "pip: nvidia-cusolver-cu12 11.7.1.2", "NVIDIA driver"
    path: str = ""
    found_by: str = ""  # "LD_LIBRARY_PATH", "RUNPATH", "ld.so.cache", ...
    error: str = ""  # why it cannot be loaded
    missing_chain: tuple[str, ...] = ()  # from the library to the file that is really missing
    shadowed: tuple[str, ...] = ()  # copies that the loader would take if the first were gone
    elsewhere: tuple[str, ...] = ()  # copies where the loader does not look


class GpuUser(msgspec.Struct, frozen=True, kw_only=True):
    """A process on a GPU."""

    pid: int
    name: str = ""
    user: str = ""
    memory_bytes: int | None = None
    computes: bool = True  # else it only draws


class GpuCard(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU: its memory, heat, power and links when it was looked at; None where nobody tells."""

    index: int
    name: str = ""
    pci_address: str = ""
    compute_capability: str = ""
    memory_total_bytes: int | None = None
    memory_free_bytes: int | None = None
    temperature_c: int | None = None
    slowdown_c: int | None = None  # from where on it slows itself down
    power_w: float | None = None
    power_limit_w: float | None = None
    utilization_percent: int | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    pcie_max_generation: int | None = None
    pcie_max_width: int | None = None
    nvlinks: int = 0
    nvlinks_up: int = 0
    chip_to_chip: bool = False  # NVLink-C2C joins it to the processor
    slowed_by: tuple[str, ...] = ()  # NVML's words for what limits its clocks: "sw_power_cap"
    mig: bool = False
    mig_devices: tuple[str, ...] = ()  # their profiles: "1g.10gb"
    users: tuple[GpuUser, ...] = ()
    trouble: str = ""  # why it could not be read


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one check."""

    id: str
    title: str
    outcome: Outcome
    reason: str = ""  # of a skip or a crash
    blocked_by: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()  # what let it pass
    findings: tuple[Finding, ...] = ()
    seconds: float = 0.0


class RootCause(msgspec.Struct, frozen=True, kw_only=True):
    """A finding that explains others. `explains` are the ids of checks that could not be judged because of it."""

    label: str
    id: str
    title: str
    severity: Severity
    confidence: Confidence
    evidence: tuple[str, ...] = ()
    fix: Fix
    explains: tuple[str, ...] = ()


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The whole result. `causes` is ranked, best first; `judged` tells whether the question itself was answered."""

    page_maker: ClassVar[Callable[[Any], str] | None] = None

    schema: int = SCHEMA
    healthy: bool
    judged: bool
    doctor: str
    recorded: str
    quick: bool
    level: Level = "standard"  # how far the examination went
    interrupted: bool = False
    seconds: float = 0.0  # from the start to the diagnosis
    target: TargetSummary
    machine: MachineSummary
    causes: tuple[RootCause, ...]
    results: tuple[Result, ...]
    counts: dict[str, int]
    versions: tuple[VersionRow, ...] = ()
    libraries: tuple[LibraryCopy, ...] = ()
    gpus: tuple[GpuCard, ...] = ()

    def exit_code(self, fail_level: Severity = "error") -> int:
        """0 nothing at or above the level · 1 findings at or above it · 3 nothing could be judged · 130 interrupted."""
        if self.interrupted:
            return 130
        threshold = SEVERITIES.index(fail_level)
        findings = (finding for result in self.results for finding in result.findings)
        if any(SEVERITIES.index(finding.severity) >= threshold for finding in findings):
            return 1
        return 3 if self.counts["crash"] or not self.judged else 0

    def find(self, id: str) -> Result | None:
        """The result of one check."""
        return next((result for result in self.results if result.id == id), None)

    def _repr_html_(self) -> str | None:
        """What a notebook shows of it: the page, once `tfgpu_doctor.check` has said who makes it."""
        return Report.page_maker(self) if Report.page_maker else None


class RehearsalReport(Report, frozen=True, kw_only=True):
    """The result of a rehearsal: the machine's GPUs and driver are simulated, the target and its TensorFlow are real."""

    registered: int  # GPUs that TensorFlow registered
    expected: int  # GPUs that CUDA gives to a program on such a machine
    memory_growth_set: bool  # whether memory growth could be switched on for each
    cuda: str  # the newest CUDA that the driver supports

    @property
    def succeeded(self) -> bool:
        """Whether TensorFlow registered every GPU, and took memory growth for each."""
        return 0 < self.expected <= self.registered and self.memory_growth_set

    def exit_code(self, fail_level: Severity = "error") -> int:
        """As of every report, and 1 where a GPU was not registered for a reason that no check names."""
        code = Report.exit_code(self, fail_level)
        return 1 if code == 0 and not self.succeeded else code
