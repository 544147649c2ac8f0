"""The memory of the GPUs that this process may use, as NVML reports it, and whether the driver has pools of it."""

from __future__ import annotations

import contextlib
import ctypes
import uuid
from typing import Any, NamedTuple

from tfgpu_doctor.collect.workers.open_libcuda import describe

_LIBCUDA, _UUID_BYTES = "libcuda.so.1", 16
_MEMORY_POOLS_SUPPORTED = 115  # of CUdevice_attribute, since CUDA 11.2


class GpuMemory(NamedTuple):
    """Bytes of one GPU; `used` is by all processes."""

    free: int
    used: int


def gpu_memory() -> list[GpuMemory]:
    """Return the memory of each GPU that CUDA lists to this process, in its order; empty if NVML does not report it."""
    try:
        import pynvml
    except ImportError:
        return []
    try:
        pynvml.nvmlInit()
        rows = [pynvml.nvmlDeviceGetMemoryInfo(_found(pynvml, *names)) for names in _names_in_cuda()]
        return [GpuMemory(int(row.free), int(row.used)) for row in rows]
    except pynvml.NVMLError:
        return []


def has_memory_pools(place: int) -> bool | None:
    """Return whether a GPU, by CUDA's number, has the memory pools of cuMemAllocAsync; None if the driver does not tell.

    Where it has none, TensorFlow ends a process that asks for cuda_malloc_async.
    """
    cuda, device, found = _opened(), ctypes.c_int(), ctypes.c_int()
    if cuda is None or cuda.cuDeviceGet(ctypes.byref(device), place) != 0:
        return None
    told = cuda.cuDeviceGetAttribute(ctypes.byref(found), _MEMORY_POOLS_SUPPORTED, device) == 0
    return bool(found.value) if told else None


def _opened() -> Any:
    """Return the driver's library, ready for questions; None if it cannot be used. Takes no memory of a GPU."""
    try:
        cuda = ctypes.CDLL(_LIBCUDA)
    except OSError:
        return None
    return cuda if cuda.cuInit(0) == 0 else None


def _names_in_cuda() -> list[tuple[str, str]]:
    """Return UUID and PCI address of each GPU that CUDA_VISIBLE_DEVICES leaves."""
    cuda, count = _opened(), ctypes.c_int()
    if cuda is None or cuda.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return []
    return [(_uuid(cuda, place), str(describe(cuda, place)["pci_address"])) for place in range(count.value)]


def _uuid(cuda: Any, place: int) -> str:
    """Return the UUID of a GPU, or of the part of it that MIG made; empty if the driver is too old to tell parts apart."""
    device, found = ctypes.c_int(), ctypes.create_string_buffer(_UUID_BYTES)
    cuda.cuDeviceGet(ctypes.byref(device), place)
    asked = getattr(cuda, "cuDeviceGetUuid_v2", None)  # since CUDA 11.4
    return str(uuid.UUID(bytes=found.raw)) if asked and asked(ctypes.byref(found), device) == 0 else ""


def _found(nvml: Any, name: str, pci_address: str) -> Any:
    """Return NVML's handle of a GPU of CUDA. Raises NVMLError if it lists no such GPU."""
    for prefix in ("GPU-", "MIG-") if name else ():
        with contextlib.suppress(nvml.NVMLError):
            return nvml.nvmlDeviceGetHandleByUUID(prefix + name)
    return nvml.nvmlDeviceGetHandleByPciBusId(pci_address)
