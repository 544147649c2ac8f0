"""What the rows of the tables of codes and of CUDA's compatibility look like; `knowledge` reads them."""

from __future__ import annotations

from typing import Literal

import msgspec


class ErrorCode(msgspec.Struct, frozen=True):
    """A CUresult or nvmlReturn_t code; `cause` (a label) and `action` are empty where the code alone does not tell."""

    code: int
    name: str
    meaning: str
    source: str
    checked: str
    cause: str = ""
    action: str = ""


class DriverRange(msgspec.Struct, frozen=True):
    """The first and the last driver of which a row is true; empty where it is not known or there is none."""

    since: str = ""
    until: str = ""


class Xid(msgspec.Struct, frozen=True):
    """A code that the driver writes to the kernel log; see the table's own words for what the fields mean."""

    code: int
    kind: Literal["xid", "sxid"]
    name: str
    meaning: str
    likely: tuple[str, ...]  # "application", "driver", "hardware", ..., the likeliest first
    cause: str  # a label, "undetermined", or empty where it is no fault
    action: str
    severity: Literal["info", "warning", "error"]
    fatal: bool  # the program that used the GPU ends
    source: str
    checked: str
    drivers: DriverRange = DriverRange()


class CompatibilityRule(msgspec.Struct, frozen=True):
    """A way for a driver to run programs of a newer CUDA than its own; see the table's own words for the fields."""

    rule: str
    since: str  # the CUDA release that it came with
    os: tuple[str, ...]  # as `platform.system()` names them
    lines: tuple[str, ...]  # lines of GPUs; none where it holds for all
    table: str  # the table with its figures
    about: str
    source: str
    checked: str


class CompatPackage(msgspec.Struct, frozen=True):
    """A forward-compatibility package: the CUDA that it brings, and the driver branches it runs on."""

    cuda: str
    package: str
    driver_branches: tuple[str, ...]
    source: str
    checked: str


class PciGeneration(msgspec.Struct, frozen=True):
    """A range of PCI device ids, and which of the driver's two kernel modules drives the GPUs that bear them."""

    first: str  # "2900"
    last: str
    generation: str  # "Blackwell"
    modules: Literal["open", "proprietary", "either"]
    source: str
    checked: str


class BatchSystem(msgspec.Struct, frozen=True):
    """A batch system's variables; see the table's own words for what the fields mean."""

    kind: str
    job: str
    also: tuple[str, ...]
    grants: tuple[str, ...]
    nothing: tuple[str, ...]
    step: str
    step_grants: tuple[str, ...]
    cpus: tuple[str, ...]
    ask: str
    source: str
    checked: str


class HostedService(msgspec.Struct, frozen=True):
    """A service that runs notebooks for others; see the table's own words for what the fields mean."""

    name: str
    variables: tuple[str, ...]
    files: tuple[str, ...]
    gpu: str
    source: str
    checked: str
