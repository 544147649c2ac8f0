"""The memory of the GPUs, as NVML reports it."""

from __future__ import annotations

from typing import NamedTuple


class GpuMemory(NamedTuple):
    """Bytes of one GPU; `used` is by all processes."""

    free: int
    used: int


def gpu_memory() -> list[GpuMemory]:
    """Return the memory of each GPU, visible to TensorFlow or not; empty if NVML does not report it."""
    try:
        import pynvml
    except ImportError:
        return []
    try:
        pynvml.nvmlInit()
        gpus = [pynvml.nvmlDeviceGetHandleByIndex(place) for place in range(pynvml.nvmlDeviceGetCount())]
        rows = [pynvml.nvmlDeviceGetMemoryInfo(gpu) for gpu in gpus]
        return [GpuMemory(int(row.free), int(row.used)) for row in rows]
    except pynvml.NVMLError:
        return []
