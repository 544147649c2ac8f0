"""What the outputs of nvidia-smi have in common: their parts, and their combination into one report of NVML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.health import GpuTrouble, MigDevice
from tfgpu_doctor.model.facts.nvidia import Nvml, NvmlGpu

ADDRESS = r"(?:[0-9A-Fa-f]{4}){1,2}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]"
UNKNOWN_ERROR = 999
# What nvmlErrorString says of each code: https://docs.nvidia.com/deploy/nvml-api/ (read 2026-11-21).
_ERRORS = {
    "success": 0, "uninitialized": 1, "invalid argument": 2, "not supported": 3, "insufficient permissions": 4,
    "not found": 6, "insufficient size": 7, "insufficient external power": 8, "driver not loaded": 9, "timeout": 10,
    "interrupt request issue": 11, "nvml shared library not found": 12, "function not found": 13, "corrupted inforom": 14,
    "gpu is lost": 15, "gpu requires reset": 16, "gpu access blocked by the operating system": 17,
    "the operating system has blocked the request": 17, "driver/library version mismatch": 18,
    "in use by another client": 19, "insufficient memory": 20, "no data": 21, "unknown error": UNKNOWN_ERROR,
}  # fmt: skip
_COMPUTE_MODES = {
    "default": "default",
    "exclusive_thread": "exclusive_thread",
    "e. thread": "exclusive_thread",
    "prohibited": "prohibited",
    "exclusive_process": "exclusive_process",
    "e. process": "exclusive_process",
}
_VERSION = re.compile(r"\d{1,5}(?:\.\d{1,5}){0,3}")
_ANSWERED = Attempt(outcome="answered")
FactType = TypeVar("FactType", bound=msgspec.Struct)


@dataclass(frozen=True)
class SmiDocument:
    """One output of nvidia-smi: where it begins (the line, from 1), and what it says."""

    name: str  # "nvidia-smi", "nvidia-smi -q", ...
    line: int
    driver_version: str = ""
    driver_cuda: str = ""
    count: int | None = None
    gpus: tuple[NvmlGpu, ...] = ()
    troubles: tuple[GpuTrouble, ...] = ()
    library_error: str = ""
    error_code: int = 0
    error_text: str = ""
    knows_indices: bool = False  # whether it shows the index of each GPU, instead of only their order


def error_code(text: str) -> int:
    """The code of an error that NVML words this way; that of an unknown error if it is none of them."""
    lowered = text.strip().lower()
    return next((code for words, code in _ERRORS.items() if lowered.startswith(words)), UNKNOWN_ERROR)


def compute_mode(text: str) -> str:
    """`E. Process`, `Exclusive_Process`: the name that the facts use."""
    return _COMPUTE_MODES.get(text.strip().lower(), "")


def version_in(text: str) -> str:
    """The version at the start of a value; empty if there is none: `N/A`."""
    found = _VERSION.match(text.strip())
    return found.group() if found else ""


def combine(documents: Sequence[SmiDocument]) -> Nvml | None:
    """One report of NVML from all outputs, the most detailed first; None if they say nothing about a GPU.

    Outputs of another driver version are of another machine, and are left out.
    """
    if not documents:
        return None
    read = [each for each in documents if each.gpus]
    first = next((each for each in read if each.driver_version), read[0] if read else documents[0])
    same = (
        [each for each in read if each.driver_version in ("", first.driver_version)] if first.driver_version else read
    )
    gpus = _gpus(same)
    troubles = tuple(
        {trouble.pci_address or trouble.index: trouble for each in documents for trouble in each.troubles}.values()
    )
    if gpus or troubles:
        return Nvml(
            attempt=_ANSWERED,
            driver_version=first.driver_version,
            count=max((each.count for each in same if each.count is not None), default=None),
            gpus=gpus,
            troubles=_placed(troubles, gpus),
        )
    failed = next((each for each in documents if each.error_code or each.library_error), None)
    if failed:
        return Nvml(
            attempt=_ANSWERED,
            library_error=failed.library_error,
            error_code=failed.error_code,
            error_text=failed.error_text,
        )
    return Nvml(attempt=_ANSWERED, count=0) if any(each.count == 0 for each in documents) else None


def _gpus(documents: Sequence[SmiDocument]) -> tuple[NvmlGpu, ...]:
    """The GPUs of all outputs, each once."""
    found: list[NvmlGpu] = []
    sure: set[int] = set()  # the places in the list whose index is certain
    for document in documents:
        known = len(found)
        for gpu in document.gpus:
            place = _place_of(gpu, found[:known])
            if place is None and (not known or gpu.pci_address):
                found.append(gpu)
                place = len(found) - 1
            elif place is not None:
                found[place] = _together(found[place], gpu)
            if place is not None and document.knows_indices and place not in sure:
                found[place] = msgspec.structs.replace(found[place], index=gpu.index)
                sure.add(place)
    indices = {gpu.index for gpu in found}
    if len(indices) < len(found):  # two outputs that only show the order of some GPUs
        found = [msgspec.structs.replace(gpu, index=place) for place, gpu in enumerate(found)]
    return tuple(sorted(found, key=lambda gpu: gpu.index))


def _place_of(gpu: NvmlGpu, known: Sequence[NvmlGpu]) -> int | None:
    """The place of the same GPU in a list: the one with its address; without addresses, with its index or UUID."""
    alike = [place for place, each in enumerate(known) if _may_be_same(each, gpu)]
    by_index = [place for place in alike if known[place].index == gpu.index]
    by_identity = [place for place in alike if _is_same(known[place], gpu)]
    return next(iter([place for place in by_identity if place in by_index] or by_identity or by_index), None)


def _may_be_same(one: NvmlGpu, other: NvmlGpu) -> bool:
    pairs = ((_place(one.pci_address), _place(other.pci_address)), (one.uuid, other.uuid))
    return _same_name(one.name, other.name) and all(mine == theirs for mine, theirs in pairs if mine and theirs)


def _is_same(one: NvmlGpu, other: NvmlGpu) -> bool:
    by_address = one.pci_address and _place(one.pci_address) == _place(other.pci_address)
    return bool(by_address or (one.uuid and one.uuid == other.uuid))


def _same_name(one: str, other: str) -> bool:
    """Whether two names are of one model: the table cuts long names, and drivers before 465 omit `NVIDIA`."""
    shorter, longer = sorted((each.removeprefix("NVIDIA ").removesuffix("...") for each in (one, other)), key=len)
    return longer.startswith(shorter)


def _place(address: str) -> str:
    return address.lower().lstrip("0")


def _together(one: NvmlGpu, other: NvmlGpu) -> NvmlGpu:
    """A GPU with what only the other output shows; processes belong to the same moment as the memory."""
    slices, more = one.health.mig_devices, other.health.mig_devices
    both = filled(one, other)
    if one.memory_total_bytes is not None:
        both = msgspec.structs.replace(both, processes=one.processes, memory_free_bytes=one.memory_free_bytes)
    if len(slices) == len(more) and slices and not any(each.uuid for each in slices):
        named = tuple(filled(*pair) for pair in zip(slices, more, strict=True))
        return with_slices(both, named)
    return both


def with_slices(gpu: NvmlGpu, slices: tuple[MigDevice, ...]) -> NvmlGpu:
    """A GPU with its MIG devices: outputs other than -L do not show their UUIDs."""
    health = msgspec.structs.replace(gpu.health, mig_devices=slices)
    return msgspec.structs.replace(gpu, health=health, mig_devices=tuple(each.uuid for each in slices))


def filled(one: FactType, other: FactType) -> FactType:
    """A fact whose missing values (None and empty) are those of another."""
    changes = {}
    for each in msgspec.structs.fields(one):
        mine, theirs = getattr(one, each.name), getattr(other, each.name)
        if isinstance(mine, msgspec.Struct) and isinstance(theirs, type(mine)):
            changes[each.name] = filled(mine, theirs)
        elif mine is None or (
            mine in ("", ()) and each.default is not None
        ):  # where None is missing, empty is an answer
            changes[each.name] = theirs
    return msgspec.structs.replace(one, **changes)


def _placed(troubles: Sequence[GpuTrouble], gpus: Sequence[NvmlGpu]) -> tuple[GpuTrouble, ...]:
    """The troubles, each with an index: a message that only names the address gets one that no GPU has."""
    at = {_place(gpu.pci_address): gpu.index for gpu in gpus if gpu.pci_address}
    taken = {gpu.index for gpu in gpus} | {each.index for each in troubles if each.index >= 0}
    found = []
    for each in troubles:
        index = each.index
        if index < 0:
            free = next(place for place in range(len(taken) + 1) if place not in taken)
            index = at.get(_place(each.pci_address), free)
            taken.add(index)
        found.append(msgspec.structs.replace(each, index=index))
    return tuple(found)
