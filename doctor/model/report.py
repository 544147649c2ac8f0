"""The report: the complete result of a diagnosis. Each output format is a rendering of it, and of nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal

import msgspec

from tfgpu_doctor.model import SEVERITIES, Confidence, Figure, Finding, Fix, Severity
from tfgpu_doctor.model.facts.stress import Level
from tfgpu_doctor.model.tags import Goal

SCHEMA = 1
IGNORED = "ignored by the configuration"  # the reason of a check that the user ignores
NOT_EXAMINED = "not examined: "  # begins the reason of a check whose fact is missing; the fact's name follows
Outcome = Literal["pass", "warn", "fail", "skip", "blocked", "crash"]
OUTCOMES: tuple[Outcome, ...] = ("pass", "warn", "fail", "blocked", "skip", "crash")


class TargetSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The Python environment that was diagnosed; empty strings if it could not be read."""

    python: str = ""
    version: str = ""
    prefix: str = ""
    tensorflow: str = ""  # "2.21.0"
    distribution: str = ""  # "tensorflow"


class MachineSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A summary of the machine."""

    system: str = ""
    driver: str = ""
    gpus: tuple[str, ...] = ()
    container: str = ""


class VersionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A version that was found, and the required one, in words; empty if it is unknown."""

    component: str  # "NVIDIA driver", "numpy"
    found: str = ""
    needed: str = ""
    needed_by: str = ""  # "CUDA 12.5.1", "TensorFlow 2.20.0"
    fits: bool | None = None  # whether it meets the requirements in the metadata; None if only the check can tell
    check: str = ""  # id of the check that judges it; empty if there is none


class LibraryCopy(msgspec.Struct, frozen=True, kw_only=True):
    """A library that TensorFlow opens, and the copy of it that the loader takes."""

    soname: str
    found: bool | None = None  # None if a copy exists, but whether the loader takes it is unknown
    needed: bool = True  # whether a GPU cannot be used without it
    version: str = ""
    origin: str = ""  # what provides it: "pip: nvidia-cusolver-cu12 11.7.1.2", "NVIDIA driver"
    path: str = ""
    found_by: str = ""  # "LD_LIBRARY_PATH", "RUNPATH", "ld.so.cache", ...
    error: str = ""  # why it cannot be loaded
    missing_chain: tuple[str, ...] = ()  # from the library to the file that is missing
    shadowed: tuple[str, ...] = ()  # copies that the loader would take if the first were gone
    elsewhere: tuple[str, ...] = ()  # copies where the loader does not look


class GpuUser(msgspec.Struct, frozen=True, kw_only=True):
    """A process on a GPU."""

    pid: int
    name: str = ""
    user: str = ""
    memory_bytes: int | None = None
    computes: bool = True  # otherwise it only draws


class GpuCard(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU: its memory, temperature, power and links when it was read; None if unknown."""

    index: int
    name: str = ""
    pci_address: str = ""
    compute_capability: str = ""
    memory_total_bytes: int | None = None
    memory_free_bytes: int | None = None
    temperature_c: int | None = None
    slowdown_c: int | None = None  # the temperature from which it slows itself down
    power_w: float | None = None
    power_limit_w: float | None = None
    utilization_percent: int | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    pcie_max_generation: int | None = None
    pcie_max_width: int | None = None
    nvlinks: int = 0
    nvlinks_up: int = 0
    chip_to_chip: bool = False  # NVLink-C2C connects it to the CPU
    slowed_by: tuple[str, ...] = ()  # NVML's words for what limits its clocks: "sw_power_cap"
    mig: bool = False
    mig_devices: tuple[str, ...] = ()  # their profiles: "1g.10gb"
    users: tuple[GpuUser, ...] = ()
    trouble: str = ""  # why it could not be read


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check."""

    id: str
    title: str
    family: str = ""
    tags: tuple[str, ...] = ()
    goal: str = ""
    outcome: Outcome
    reason: str = ""  # of a skip or a crash
    unmeasured: bool = False  # of a skip: the check applies here, but what it judges could not be measured
    blocked_by: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()  # why it passed
    findings: tuple[Finding, ...] = ()
    seconds: float = 0.0


class RootCause(msgspec.Struct, frozen=True, kw_only=True):
    """A finding that explains others. `explains` are the ids of checks that could not be evaluated because of it.

    `id`, `label` and `devices` are its key: they stay the same when it is found again, unlike `title` and `figures`.
    """

    label: str
    id: str
    title: str
    severity: Severity
    confidence: Confidence
    evidence: tuple[str, ...] = ()
    costs: str = ""  # what it costs while TensorFlow computes; empty for an error, and where it does not
    fix: Fix
    explains: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()  # the GPUs or NVSwitches: UUID, else PCI address, else number; empty for the machine
    figures: tuple[Figure, ...] = ()


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The whole result. `causes` is ranked, best first; `judged` says whether the question itself was answered.

    `healthy`: what was asked was shown, and nothing is wrong. It is asked whether TensorFlow computes on a GPU, and whether
    every GPU of the machine is fit for work; a quick examination and a rehearsal ask neither, and leave both unanswered.
    """

    page_maker: ClassVar[Callable[[Any], str] | None] = None

    schema: int = SCHEMA
    healthy: bool
    computes: bool | None = None  # does TensorFlow compute on a GPU here? None: not tried
    fit: bool | None = None  # is every GPU of this machine fit for work? None: not known
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

    def shows(self, goal: Goal) -> Result | None:
        """The result of the check that shows a goal; None if there is none."""
        return next((result for result in self.results if result.goal == goal), None)

    def tagged(self, tag: str) -> list[Result]:
        """The results of the checks that have a tag."""
        return [result for result in self.results if tag in result.tags]

    def find(self, id: str) -> Result | None:
        """The result of one check."""
        return next((result for result in self.results if result.id == id), None)

    def _repr_html_(self) -> str | None:
        """The HTML page that a notebook shows, after `tfgpu_doctor.check` has registered the renderer."""
        return Report.page_maker(self) if Report.page_maker else None


class RehearsalReport(Report, frozen=True, kw_only=True):
    """The result of a rehearsal: the machine's GPUs and driver are simulated, the target and its TensorFlow are real.

    `healthy`: TensorFlow registers every simulated GPU, and no check failed. Nothing was computed: `computes` is None.
    """

    simulated: bool = True  # tells the document from that of a real machine
    registered: int  # GPUs that TensorFlow registered
    expected: int  # GPUs that CUDA gives to a program on such a machine
    memory_growth_set: bool  # whether memory growth could be enabled for each
    cuda: str  # the newest CUDA that the driver supports

    @property
    def succeeded(self) -> bool:
        """Whether TensorFlow registered every GPU, and accepted memory growth for each."""
        return 0 < self.expected <= self.registered and self.memory_growth_set

    def exit_code(self, fail_level: Severity = "error") -> int:
        """As for every report, and 1 if a GPU was not registered for a reason that no check names."""
        code = Report.exit_code(self, fail_level)
        return 1 if code == 0 and not self.succeeded else code
