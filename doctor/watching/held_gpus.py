"""Which GPUs are the program's, as far as NVML and CUDA_VISIBLE_DEVICES tell."""

from __future__ import annotations

from collections.abc import Sequence

from tfgpu_doctor.watching.reading import GpuReading


def held(gpus: Sequence[GpuReading]) -> list[GpuReading]:
    """Those on which the program holds memory; where that is not known, those that it may see."""
    return [gpu for gpu in gpus if gpu.own_bytes] or [gpu for gpu in gpus if gpu.visible is not False]


def is_held(gpu: GpuReading) -> bool:
    """Whether what happens on a GPU may be called the program's: not that of one which somebody else is known to use."""
    if gpu.own_bytes is not None:
        return gpu.own_bytes > 0
    return gpu.visible is not False and not gpu.tenants
