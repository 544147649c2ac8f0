"""The rows of the tables under checks/data; `knowledge` reads them."""

from __future__ import annotations

from typing import Literal

import msgspec


class ErrorCode(msgspec.Struct, frozen=True):
    """A CUresult or nvmlReturn_t code; `cause` (a label) and `action` are empty if the code alone is not conclusive."""

    code: int
    name: str
    meaning: str
    source: str
    checked: str
    cause: str = ""
    action: str = ""


class DriverRange(msgspec.Struct, frozen=True):
    """The first and the last driver that a row applies to; empty if unknown or if there is none."""

    since: str = ""
    until: str = ""


class Xid(msgspec.Struct, frozen=True):
    """A code that the driver writes to the kernel log; the table itself describes the fields."""

    code: int
    kind: Literal["xid", "sxid"]
    name: str
    meaning: str
    likely: tuple[str, ...]  # "application", "driver", "hardware", ..., the most likely first
    cause: str  # a label, "undetermined", or empty if it is not a fault
    action: str
    severity: Literal["info", "warning", "error"]
    fatal: bool  # the program that used the GPU ends
    source: str
    checked: str
    drivers: DriverRange = DriverRange()


class CompatibilityRule(msgspec.Struct, frozen=True):
    """A way for a driver to run programs of a newer CUDA than its own; the table itself describes the fields."""

    rule: str
    since: str  # the CUDA release that introduced it
    os: tuple[str, ...]  # as `platform.system()` names them
    lines: tuple[str, ...]  # lines of GPUs; empty if it applies to all
    table: str  # the table with its values
    about: str
    source: str
    checked: str


class CompatPackage(msgspec.Struct, frozen=True):
    """A forward-compatibility package: the CUDA that it provides, and the driver branches it runs on."""

    cuda: str
    package: str
    driver_branches: tuple[str, ...]
    source: str
    checked: str


class PciGeneration(msgspec.Struct, frozen=True):
    """A range of PCI device ids, and which of the driver's two kernel modules supports the GPUs that have them."""

    first: str  # "2900"
    last: str
    generation: str  # "Blackwell"
    modules: Literal["open", "proprietary", "either"]
    source: str
    checked: str


class BatchSystem(msgspec.Struct, frozen=True):
    """A batch system's variables; the table itself describes the fields."""

    kind: str
    job: str
    also: tuple[str, ...]
    grants: tuple[str, ...]
    nothing: tuple[str, ...]
    hides: tuple[str, ...]
    step: str
    step_grants: tuple[str, ...]
    cpus: tuple[str, ...]
    ask: str
    source: str
    checked: str


class HostedService(msgspec.Struct, frozen=True):
    """A service that hosts notebooks; the table itself describes the fields."""

    name: str
    variables: tuple[str, ...]
    files: tuple[str, ...]
    gpu: str
    source: str
    checked: str


class Cause(msgspec.Struct, frozen=True):
    """A label of the vocabulary of root causes: headline, meaning, and the action if nothing more is known."""

    label: str
    severity: str  # "blocker", "degrades", "feature", "none"
    title: str
    definition: str
    fix: str
    shown_by: Literal["check", "log", "advice"] = "check"  # "log": by `tfgpu-doctor log` alone; "advice": by nothing
    unfit: bool = (
        False  # an error with this label means that a GPU of the machine is not fit for work, whoever else works
    )
    costs: str = ""  # what it costs while TensorFlow computes nevertheless
    drains: bool = False  # an error with this label lies in the node's hardware or driver: no job should start there
    returns: bool = False  # an error with this label lies in a GPU or NVSwitch: its vendor may take the board back


class Variable(msgspec.Struct, frozen=True):
    """An environment variable that matters; `values` are the significant ones, empty if any value is significant."""

    name: str
    values: tuple[str, ...]
    about: str
    source: str
    checked: str


class CudaDriverRow(msgspec.Struct, frozen=True):
    """A driver for a CUDA release, on Linux and on Windows (empty if there is none)."""

    cuda: str
    linux: str
    windows: str
    source: str
    checked: str

    def driver(self, os: str) -> str:
        """The driver for an operating system as `platform.system()` names it."""
        return self.windows if os == "Windows" else self.linux


class Wheels(msgspec.Struct, frozen=True):
    """A release's wheels for one system; `cuda`, `cudnn` and `compute_capabilities` are empty if it has no CUDA."""

    os: str  # "linux", "windows", "macos"
    architecture: str  # "x86_64", "aarch64", "arm64"
    pythons: tuple[str, ...]  # "3.12"
    tags: tuple[str, ...]
    glibc: str  # the oldest that they run on; empty except on Linux
    cuda: str
    cudnn: str
    compute_capabilities: tuple[str, ...]
    stands_for: str  # the package that contains the code, if these do not


class TensorFlowRelease(msgspec.Struct, frozen=True):
    """A release of TensorFlow. Fields that are not per wheel describe Linux on x86_64, the first system."""

    version: str
    wheels: tuple[Wheels, ...]
    requires_python: str
    requires: tuple[str, ...]  # bounds of numpy, protobuf and keras
    cuda_extra: tuple[str, ...]  # the requirements of [and-cuda]; empty if there is no such extra
    runpath: tuple[str, ...]  # folders under nvidia/ in which libtensorflow_framework.so.2 looks
    source: str
    checked: str

    @property
    def pythons(self) -> tuple[str, ...]:
        """The Pythons that it has wheels for, on Linux x86_64."""
        return self.wheels[0].pythons

    def wheels_for(self, os: str, architecture: str) -> Wheels | None:
        """Its wheels for a system; None if it has none."""
        return next((each for each in self.wheels if (each.os, each.architecture) == (os, architecture)), None)


class OlderBuild(msgspec.Struct, frozen=True):
    """An older release's wheels for one system; the fields about CUDA are empty if no package has it there."""

    os: str  # "linux", "windows", "macos"
    architecture: str  # "x86_64"
    pythons: tuple[str, ...]  # "3.6"
    tags: tuple[str, ...]
    glibc: str  # the newest that the libraries require; empty except on Linux
    packages: tuple[str, ...]  # those built with CUDA: "tensorflow-gpu", "tensorflow"
    cuda: str
    cudnn: str
    compute_capabilities: tuple[str, ...]
    capabilities_from: Literal["wheel", "documentation", ""]
    minimum_capability: str  # "3.5": TensorFlow ignores a GPU below it


class OlderRelease(msgspec.Struct, frozen=True):
    """A release of TensorFlow before those of `TensorFlowRelease`: the first or the last of its minor version."""

    version: str
    minor: str  # "1.15"
    platforms: tuple[OlderBuild, ...]
    source: str
    checked: str

    def build_for(self, os: str, architecture: str) -> OlderBuild | None:
        """Its wheels for a system; None if it has none."""
        return next((each for each in self.platforms if (each.os, each.architecture) == (os, architecture)), None)


class Boundary(msgspec.Struct, frozen=True):
    """A single threshold that a check compares with."""

    name: str
    value: str
    about: str
    source: str
    checked: str


class OpenedLibrary(msgspec.Struct, frozen=True):
    """A library that TensorFlow opens by name; the table itself describes the fields."""

    soname: str
    needed: bool
    cuda: str
    cudnn: str
    asked_by: str
    since: str
    until: str
    source: str
    checked: str


class GpuModel(msgspec.Struct, frozen=True):
    """A GPU: `name` is NVML's name, `memory_bytes` as sold, `pci_ids` its device ids under vendor 10de."""

    name: str
    aliases: tuple[str, ...]
    architecture: str
    compute_capability: str
    memory_bytes: int
    multiprocessors: int
    line: Literal["data centre", "workstation", "GeForce", "TITAN", "Jetson"]
    source: str
    checked: str
    pci_ids: tuple[str, ...] = ()
    tensor_cores: bool = False
    memory_bandwidth_gb_per_s: float | None = None  # 10^9 bytes per second; None if it is not certain
    peak_teraflops: dict[str, float] = {}  # "fp64", "fp32", "tf32", "fp16"; those that are certain


class GpuSeries(msgspec.Struct, frozen=True):
    """The compute capability of the GPUs of a series or a model; the table itself describes the fields."""

    name: str
    kind: Literal["series", "model", "titan"]
    compute_capability: str
    source: str
    checked: str


class PtxasTarget(msgspec.Struct, frozen=True):
    """The CUDA releases whose ptxas knows a compute capability: from `cuda` to `last_cuda`, which is empty if the newest does."""

    compute_capability: str
    cuda: str
    last_cuda: str
    source: str
    checked: str


_FAMILY_RANK = 44


class LogSignature(msgspec.Struct, frozen=True):
    """A kind of line in logs; the table itself describes the fields."""

    name: str
    gate: str
    pattern: str
    example: str
    noise: bool
    source: str
    checked: str


class LogSymptom(msgspec.Struct, frozen=True):
    """A kind of statement of people; the table itself describes the fields."""

    name: str
    pattern: str
    example: str
    meaning: str


class TraceEvent(msgspec.Struct, frozen=True):
    """A kind of event in a profile; the table itself describes the fields."""

    kind: str
    pattern: str
    example: str
    first: str
    last: str
    source: str
    checked: str


class TraceVerdict(msgspec.Struct, frozen=True):
    """What is said of a training, and what to do; the table itself describes the fields."""

    verdict: str
    title: str
    fix: str
    code: str
    healthy: bool | None
    source: str
    checked: str


class WatchWord(msgspec.Struct, frozen=True):
    """What is said of a running training beside the verdicts of its profile; the table itself describes the fields."""

    word: str
    kind: Literal["machine", "hang", "state"]
    title: str
    fix: str
    source: str
    checked: str


class WatchRule(msgspec.Struct, frozen=True):
    """A profiler rule of Amazon SageMaker Debugger, by the name that its users know, with the defaults of its parameters."""

    rule: str
    about: str
    parameters: dict[str, float]
    source: str
    checked: str


class LogRelease(msgspec.Struct, frozen=True):
    """The release whose source has a message at that line."""

    file: str
    line: int
    tensorflow: str
    source: str
    checked: str


class LogRule(msgspec.Struct, frozen=True):
    """Which signatures indicate which cause; the table itself describes the fields."""

    label: str
    rank: int
    any: tuple[str, ...]
    all: tuple[str, ...]
    none: tuple[str, ...]
    context: tuple[str, ...]
    confidence: Literal["high", "medium", "low"]
    ask: str
    source: str
    checked: str


class LogMessage(msgspec.Struct, frozen=True):
    """A family of messages out of the programs' own texts; the table itself describes the fields."""

    name: str
    gate: str
    pattern: str
    example: str
    noise: bool
    meaning: str
    indicates: tuple[str, ...]  # labels of causes, the most likely first
    ask: str
    source: str
    checked: str

    @property
    def signature(self) -> LogSignature:
        """The signature that finds the family."""
        return LogSignature(self.name, self.gate, self.pattern, self.example, self.noise, self.source, self.checked)

    @property
    def rules(self) -> tuple[LogRule, ...]:
        """A rule for each cause; rules written for the message itself have higher ranks."""
        only = len(self.indicates) == 1
        return tuple(
            LogRule(
                label=label, rank=_FAMILY_RANK if place == 0 else _FAMILY_RANK // 2 - place, any=(self.name,), all=(), none=(),
                context=(), confidence="medium" if only else "low", ask=self.ask, source=self.source, checked=self.checked,
            )
            for place, label in enumerate(self.indicates)
        )  # fmt: skip
