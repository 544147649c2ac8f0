"""Which GPUs a finding speaks of, and the numbers that it rests on.

A check names a GPU by what it knows of it. The diagnosis replaces that by the GPU's one name, which is the same in every
check and at every look.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from tfgpu_doctor.model import Figure
from tfgpu_doctor.model.facts.health import GpuTrouble
from tfgpu_doctor.model.facts.machine import PciDevice
from tfgpu_doctor.model.facts.nvidia import CudaGpu, NvmlGpu
from tfgpu_doctor.model.facts.stress import StressedGpu

Gpu: TypeAlias = NvmlGpu | GpuTrouble | CudaGpu | PciDevice | StressedGpu
Row: TypeAlias = tuple[str, float | None, str]  # name, value and unit; None if it is unknown


def device_of(gpu: Gpu) -> str:
    """Return a GPU's UUID or address; else its number, as NVML, CUDA or TensorFlow counts."""
    if isinstance(gpu, PciDevice):
        return gpu.address
    if isinstance(gpu, StressedGpu):
        return gpu.uuid or f"/GPU:{gpu.index}"
    if isinstance(gpu, CudaGpu):
        return gpu.pci_address or f"CUDA GPU {gpu.index}"
    return gpu.uuid or gpu.pci_address or f"GPU {gpu.index}"


def devices_of(gpus: Iterable[Gpu]) -> tuple[str, ...]:
    """Return the names of several GPUs."""
    return tuple(map(device_of, gpus))


def figures_of(device: str, rows: Iterable[Row]) -> tuple[Figure, ...]:
    """Return the known numbers as figures of one device; `device` is empty for those of the machine."""
    return tuple(Figure(name, value, unit, device) for name, value, unit in rows if value is not None)
