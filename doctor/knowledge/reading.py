"""The tables shipped as data under checks/data, read on first use, and typed."""

from __future__ import annotations

import functools
import importlib.util
import os
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from tfgpu_doctor.host import Files
from tfgpu_doctor.knowledge.references import Reference
from tfgpu_doctor.knowledge.schema import (
    BatchSystem,
    Boundary,
    Cause,
    CompatibilityRule,
    CompatPackage,
    CudaDriverRow,
    ErrorCode,
    GpuModel,
    GpuSeries,
    HostedService,
    LogMessage,
    LogRelease,
    LogRule,
    LogSignature,
    LogSymptom,
    OlderRelease,
    OpenedLibrary,
    PciGeneration,
    PtxasTarget,
    TensorFlowRelease,
    TraceEvent,
    TraceVerdict,
    Variable,
    WatchRule,
    WatchWord,
    Xid,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packaging.version import Version

Row = TypeVar("Row")


_MOST_BYTES = 64 << 20  # per table


class _Table(msgspec.Struct, Generic[Row], frozen=True):
    about: str
    rows: tuple[Row, ...]


class Knowledge:
    """All tables. Each is read from its file on first use."""

    @functools.cached_property
    def causes(self) -> dict[str, Cause]:
        """Map label to row."""
        return {row.label: row for row in _read("causes", Cause)}

    @functools.cached_property
    def variables(self) -> dict[str, Variable]:
        """Map name to row."""
        return {row.name: row for row in _read("variables", Variable)}

    @functools.cached_property
    def cuda_errors(self) -> dict[int, ErrorCode]:
        """Map CUresult code to row."""
        return {row.code: row for row in _read("cuda_errors", ErrorCode)}

    @functools.cached_property
    def nvml_errors(self) -> dict[int, ErrorCode]:
        """Map nvmlReturn_t code to row."""
        return {row.code: row for row in _read("nvml_errors", ErrorCode)}

    @functools.cached_property
    def xids(self) -> dict[tuple[str, int], Xid]:
        """Map ("xid" or "sxid", code) to row."""
        return {(row.kind, row.code): row for row in _read("xids", Xid)}

    @functools.cached_property
    def cuda_toolkits(self) -> tuple[CudaDriverRow, ...]:
        """The driver that each toolkit was shipped with, oldest first."""
        return _read("cuda_toolkits", CudaDriverRow)

    @functools.cached_property
    def cuda_minimum_drivers(self) -> tuple[CudaDriverRow, ...]:
        """The oldest driver on which each CUDA release runs at all, oldest first."""
        return _read("cuda_minimum_drivers", CudaDriverRow)

    @functools.cached_property
    def compatibility(self) -> dict[str, CompatibilityRule]:
        """The rules under which a driver runs programs of a newer CUDA than its own: "minor-version", "forward", "ptx"."""
        return {row.rule: row for row in _read("cuda_compatibility", CompatibilityRule)}

    @functools.cached_property
    def compat_packages(self) -> tuple[CompatPackage, ...]:
        """The forward-compatibility packages, the oldest CUDA first."""
        return _read("cuda_compat_packages", CompatPackage)

    @functools.cached_property
    def tensorflow_releases(self) -> tuple[TensorFlowRelease, ...]:
        """Releases, oldest first."""
        return _read("tensorflow_releases", TensorFlowRelease)

    @functools.cached_property
    def older_releases(self) -> tuple[OlderRelease, ...]:
        """The first and the last release of each minor version before those of `tensorflow_releases`, oldest first."""
        return _read("tensorflow_older_releases", OlderRelease)

    def opened_libraries(self, tensorflow: str, cuda: str, cudnn: str) -> list[OpenedLibrary]:
        """The libraries that a release built with that CUDA and cuDNN opens; without CUDA's rows if they are unknown."""
        release = version(tensorflow)
        rows = [
            row for row in self._opened_libraries
            if (not row.since or version(row.since) <= release) and not (row.until and version(row.until) <= release)
        ]  # fmt: skip
        known = [row.cuda for row in rows if row.cuda and _covers(row.cuda, cuda)]
        closest = max(known, key=len, default="")
        return [
            row for row in rows if row.cuda in ("", closest) and (not row.cudnn or row.cudnn == cudnn.partition(".")[0])
        ]

    @functools.cached_property
    def _opened_libraries(self) -> tuple[OpenedLibrary, ...]:
        return _read("opened_libraries", OpenedLibrary)

    @functools.cached_property
    def gpus(self) -> tuple[GpuModel, ...]:
        """Models of GPUs, the newest data-centre ones first."""
        return _read("gpus", GpuModel)

    def gpu_named(self, name: str) -> GpuModel | None:
        """The model with that NVML name, in any case and with or without the vendor name; None if there is none."""
        return self._gpus_by_name.get(_without_maker(name))

    def gpu_called(self, name: str) -> GpuModel | None:
        """The model with that NVML name or alias; for a MIG slice, the model that it is a part of."""
        name = name.partition(" MIG ")[0]
        return self.gpu_named(name) or next((row for row in self.gpus if name in row.aliases), None)

    @functools.cached_property
    def references(self) -> tuple[Reference, ...]:
        """Speeds that others reached, published or ask for."""
        return _read("references", Reference)

    def gpus_with_id(self, pci_id: str) -> tuple[GpuModel, ...]:
        """The models that have a PCI device id ("2204"): one id may be sold under several names."""
        return tuple(gpu for gpu in self.gpus if pci_id.lower() in gpu.pci_ids)

    def name_for_id(self, pci_id: str) -> str:
        """The name of a GPU with that PCI device id; empty if the table does not know it."""
        return " or ".join(gpu.name for gpu in self.gpus_with_id(pci_id))

    @functools.cached_property
    def _gpus_by_name(self) -> dict[str, GpuModel]:
        return {_without_maker(gpu.name): gpu for gpu in self.gpus}

    @functools.cached_property
    def gpu_series(self) -> dict[tuple[str, str], str]:
        """Map kind and name of the table to the compute capability."""
        return {(row.kind, row.name): row.compute_capability for row in _read("gpu_series", GpuSeries)}

    def pci_generation(self, pci_id: str) -> PciGeneration | None:
        """The generation of a PCI device id ("2b85"); None if the table does not know it."""
        return next((row for row in self._pci_generations if row.first <= pci_id.lower() <= row.last), None)

    @functools.cached_property
    def _pci_generations(self) -> tuple[PciGeneration, ...]:
        return _read("pci_generations", PciGeneration)

    @functools.cached_property
    def log_signatures(self) -> tuple[LogSignature, ...]:
        """The kinds of lines that are significant."""
        return (*_read("log_signatures", LogSignature), *(each.signature for each in self.log_messages))

    @functools.cached_property
    def log_messages(self) -> tuple[LogMessage, ...]:
        """Families of messages; `log_signatures` and `log_rules` include theirs."""
        return _read("log_messages", LogMessage)

    @functools.cached_property
    def log_symptoms(self) -> tuple[LogSymptom, ...]:
        """Statements of people in the text of a ticket."""
        return _read("log_symptoms", LogSymptom)

    @functools.cached_property
    def log_releases(self) -> dict[tuple[str, int], LogRelease]:
        """Map file and line of TensorFlow's source to row."""
        return {(row.file, row.line): row for row in _read("log_releases", LogRelease)}

    @functools.cached_property
    def log_rules(self) -> tuple[LogRule, ...]:
        """Which of the signatures indicate which cause."""
        return (*_read("log_rules", LogRule), *(rule for each in self.log_messages for rule in each.rules))

    def first_ptxas(self, compute_capability: str) -> PtxasTarget | None:
        """The row for a compute capability; None if the table does not know it."""
        return next((row for row in self._ptxas_targets if row.compute_capability == compute_capability), None)

    @functools.cached_property
    def _ptxas_targets(self) -> tuple[PtxasTarget, ...]:
        return _read("ptxas_targets", PtxasTarget)

    @functools.cached_property
    def trace_events(self) -> tuple[TraceEvent, ...]:
        """What the names of events in a profile mean; the first that matches decides."""
        return _read("trace_events", TraceEvent)

    @functools.cached_property
    def trace_verdicts(self) -> dict[str, TraceVerdict]:
        """Map verdict to row."""
        return {row.verdict: row for row in _read("trace_verdicts", TraceVerdict)}

    @functools.cached_property
    def watch_words(self) -> dict[str, WatchWord]:
        """Map word to row."""
        return {row.word: row for row in _read("watch_words", WatchWord)}

    @functools.cached_property
    def watch_rules(self) -> dict[str, WatchRule]:
        """Map name to row."""
        return {row.rule: row for row in _read("watch_rules", WatchRule)}

    @functools.cached_property
    def boundaries(self) -> dict[str, Boundary]:
        """Map name to row."""
        return {row.name: row for row in _read("boundaries", Boundary)}

    @functools.cached_property
    def batch_systems(self) -> dict[str, BatchSystem]:
        """Map kind to row."""
        return {row.kind: row for row in _read("schedulers", BatchSystem)}

    @functools.cached_property
    def hosted_services(self) -> dict[str, HostedService]:
        """Map name to row."""
        return {row.name: row for row in _read("hosted_services", HostedService)}

    def minimum_driver(self, cuda: str, os: str) -> CudaDriverRow | None:
        """The row for a CUDA release like "12.5.1"; None if the table does not know it."""
        return next((row for row in self.cuda_minimum_drivers if _covers(row.cuda, cuda) and row.driver(os)), None)

    def compat_package(self, cuda: str, driver: str, gpus: Sequence[str]) -> CompatPackage | None:
        """The forward-compatibility package for a CUDA release with that Linux driver; None if there is none, if one of
        the GPUs is not certain to be of a line that may use it, or if one has no driver as new as the package."""
        models = [self.gpu_named(name) for name in gpus]
        toolkit = next((row for row in self.cuda_toolkits if _covers(row.cuda, cuda)), None)
        if not models or toolkit is None:
            return None
        for model in models:
            if model is None or model.line not in self.compatibility["forward"].lines:
                return None
            last = self.boundaries.get(f"last_driver_of_{model.architecture.lower()}")
            if last and _branch(toolkit.linux) > int(last.value):
                return None
        rows = (row for row in self.compat_packages if _covers(row.cuda, cuda))
        return next((row for row in rows if driver.partition(".")[0] in row.driver_branches), None)

    def ptx_driver(self, cuda: str, os: str) -> CudaDriverRow | None:
        """The driver needed to compile PTX from a CUDA toolkit: older drivers have no compiler that knows it."""
        return next((row for row in self.cuda_toolkits if _covers(row.cuda, cuda) and row.driver(os)), None)


@functools.cache
def read_knowledge() -> Knowledge:
    """The tables, one object for the whole process."""
    return Knowledge()


def version(text: str) -> Version:
    """A version for comparisons; a text that is not a version counts as older than any."""
    from packaging.version import InvalidVersion, Version

    try:
        return Version(text)
    except InvalidVersion:
        return Version("0")


def _without_maker(name: str) -> str:
    return name.lower().removeprefix("nvidia ")


def _branch(driver: str) -> int:
    return int(driver.partition(".")[0])


def _covers(release: str, cuda: str) -> bool:
    """Whether "12" or "12.5" covers "12.5.1"."""
    parts = release.split(".")
    return cuda.split(".")[: len(parts)] == parts


def _read(name: str, row: type[Row]) -> tuple[Row, ...]:
    # The folder is located without importing the checks, which themselves import this module.
    found = importlib.util.find_spec("tfgpu_doctor.checks")
    assert found is not None and found.submodule_search_locations
    path = os.path.join(found.submodule_search_locations[0], "data", f"{name}.json")
    return msgspec.json.decode(Files().read_bytes(path, _MOST_BYTES), type=_Table[row]).rows  # type: ignore[valid-type]
