"""Fill in the omitted fields of a GPU: its values from the table, its UUID and PCI address from its position."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from tfgpu_doctor.knowledge import Knowledge
from tfgpu_doctor.rehearse.gpu import MOST_GPUS, MachineError, SimulatedGpu, WrittenGpu
from tfgpu_doctor.rehearse.gpu_names import UnknownGpu, find_gpu

_FIGURES = ("memory_bytes", "compute_capability", "multiprocessors")
_FOLLOWING = (  # a part, a field of it, and the field that provides its default
    ("power_w", "enforced_limit", "limit"),
    ("pcie", "gpu_max_generation", "max_generation"),
)


def complete_gpus(written: Sequence[WrittenGpu], knowledge: Knowledge) -> tuple[SimulatedGpu, ...]:
    """Return each GPU separately and complete, in NVML's order. Raises MachineError."""
    if sum(gpu.count for gpu in written) > MOST_GPUS:
        raise MachineError(f"gpus: at most {MOST_GPUS} GPUs can be simulated")
    found = [_complete(row, place, index, knowledge) for place, (row, index) in enumerate(_each(written))]
    for field in ("uuid", "pci_address"):
        values = [str(getattr(gpu, field)).lower() for gpu in found]
        if twice := next((value for value in values if values.count(value) > 1), None):
            raise MachineError(f"gpus: two of them have the same {field}, {twice}")
    return tuple(found)


def _each(written: Sequence[WrittenGpu]) -> Iterator[tuple[WrittenGpu, int]]:
    for index, gpu in enumerate(written):
        for _ in range(gpu.count):
            yield gpu, index


def _complete(written: WrittenGpu, place: int, index: int, knowledge: Knowledge) -> SimulatedGpu:
    """Return the GPU at that position of the machine; `index`: the index of its row in the file."""
    fields: dict[str, Any] = msgspec.to_builtins(written)
    del fields["count"]
    fields.update(_figures(written, index, knowledge))
    fields["uuid"] = written.uuid or f"GPU-{_made_up(f'gpu {place}')}"
    fields["pci_address"] = written.pci_address or f"0000:{place + 1:02x}:00.0"
    for number, mig in enumerate(fields["mig_devices"]):
        mig["uuid"] = mig["uuid"] or f"MIG-{_made_up(f'gpu {place} mig {number}')}"
        mig["gpu_instance"] = number + 1 if mig["gpu_instance"] is None else mig["gpu_instance"]
    for part, name, leader in _FOLLOWING:
        if fields[part][name] is None:
            fields[part][name] = fields[part][leader]
    return msgspec.convert(fields, SimulatedGpu)


def _figures(written: WrittenGpu, index: int, knowledge: Knowledge) -> dict[str, Any]:
    """Return name and values: those in the file, and those in the table for the omitted ones."""
    own = {name: getattr(written, name) for name in _FIGURES if getattr(written, name) is not None}
    try:
        model = find_gpu(written.name, knowledge.gpus)
    except UnknownGpu as error:
        if len(own) == len(_FIGURES):
            return own
        raise MachineError(f"gpus[{index}].name: {error}; an unknown GPU requires {', '.join(_FIGURES)}") from error
    return {"name": model.name, **{name: getattr(model, name) for name in _FIGURES}, **own}


def _made_up(what: str) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_URL, f"tfgpu-doctor/{what}")
