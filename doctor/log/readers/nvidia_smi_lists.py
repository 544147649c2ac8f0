"""`nvidia-smi -L`, the same with the NVLinks of each GPU (`nvidia-smi nvlink -s`), and what nvidia-smi says if it fails."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tfgpu_doctor.log.readers.smi import ADDRESS, SmiDocument, error_code
from tfgpu_doctor.model.facts.health import GpuHealth, GpuTrouble, MigDevice, NvLink
from tfgpu_doctor.model.facts.nvidia import NvmlGpu

_GPU = re.compile(r"\s*GPU (\d{1,4}): (\S[^()]{0,80}?) \(UUID: ([\w-]{4,80})\)\s*")
_SLICE = re.compile(r"\s+MIG (\S{1,40})\s+Device\s+\d{1,3}:\s+\(UUID: (MIG-[\w/-]{4,100})\)\s*")
_LINK = re.compile(r"\s+Link (\d{1,3}): (<inactive>|[\d.]{1,10} GB/s)\s*", re.IGNORECASE)
_NO_HANDLE = re.compile(
    rf"\s*Unable to determine the device handle for GPU ?(?:(?P<place>{ADDRESS})|(?P<index>\d{{1,3}}):? ?(?P<at>{ADDRESS})?)"
    r": (?P<error>.{1,200})"
)
_NO_NVML = re.compile(r"\s*Failed to initialize NVML: (\S.{0,100})")
_NO_DRIVER = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver"
_NO_LIBRARY = "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system"
_NO_GPU = "No devices were found"


class _List:
    """A list of GPUs while its lines are read."""

    def __init__(self, line: int) -> None:
        self.line = line
        self.gpus: dict[int, re.Match[str]] = {}
        self.slices: dict[int, list[MigDevice]] = {}
        self.links: dict[int, dict[int, NvLink]] = {}
        self.last = 0

    def read(self, line: str) -> bool:
        """Whether the line is a part of the list."""
        gpu = _GPU.fullmatch(line)
        if gpu and int(gpu[1]) not in self.gpus:
            self.last = int(gpu[1])
            self.gpus[self.last] = gpu
            return True
        if found := _SLICE.fullmatch(line):
            self.slices.setdefault(self.last, []).append(MigDevice(uuid=found[2], profile=found[1]))
        elif found := _LINK.fullmatch(line):
            link = NvLink(index=int(found[1]), active="inactive" not in found[2].lower())
            self.links.setdefault(self.last, {})[link.index] = link
        return found is not None

    def document(self) -> SmiDocument:
        name = "nvidia-smi nvlink -s" if self.links else "nvidia-smi -L"
        return SmiDocument(name, self.line, gpus=tuple(self._gpus()), knows_indices=True)

    def _gpus(self) -> Iterator[NvmlGpu]:
        for index, gpu in self.gpus.items():
            slices = tuple(self.slices.get(index, ()))
            yield NvmlGpu(
                index=index,
                name=gpu[2],
                uuid=gpu[3],
                mig=True if slices else None,
                mig_devices=tuple(each.uuid for each in slices),
                health=GpuHealth(nvlinks=tuple(self.links.get(index, {}).values()), mig_devices=slices),
            )


def read_lists(lines: Sequence[str]) -> list[SmiDocument]:
    """Every list of GPUs in a text."""
    found: list[_List] = []
    current: _List | None = None
    for place, line in enumerate(lines):
        if current and current.read(line):
            continue
        current = None
        if "(UUID: " in line and _GPU.fullmatch(line):
            current = _List(place + 1)
            current.read(line)
            found.append(current)
    return [each.document() for each in found]


def read_failures(lines: Sequence[str]) -> list[SmiDocument]:
    """The messages with which nvidia-smi ends, or names a GPU that it cannot read."""
    return [found for place, line in enumerate(lines) if (found := _failure(place + 1, line))]


def _failure(line: int, text: str) -> SmiDocument | None:
    stripped = text.strip()
    name = "nvidia-smi (failed)"
    if found := _NO_HANDLE.match(text):
        # A negative index is replaced once the other GPUs are known.
        trouble = GpuTrouble(
            index=int(found["index"]) if found["index"] else -1,
            pci_address=(found["place"] or found["at"] or "").lower(),
            call="nvmlDeviceGetHandleByIndex",
            error_code=error_code(found["error"]),
            error_text=found["error"].partition("  ")[0].strip().rstrip("."),
        )
        return SmiDocument(name, line, troubles=(trouble,))
    if found := _NO_NVML.fullmatch(text):
        return SmiDocument(name, line, error_code=error_code(found[1]), error_text=found[1].strip())
    if stripped.startswith(_NO_DRIVER):
        return SmiDocument(name, line, error_code=error_code("driver not loaded"), error_text="Driver Not Loaded")
    if stripped.startswith(_NO_LIBRARY):
        return SmiDocument(name, line, library_error=stripped[:200])
    return SmiDocument(name, line, count=0) if stripped == _NO_GPU else None
