"""Memory information from the CUDA driver, outside of TensorFlow: free memory, and whether host memory is pinned."""

from __future__ import annotations

import contextlib
import ctypes
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

INTEGRATED = 18  # CU_DEVICE_ATTRIBUTE_INTEGRATED
MEMORY_TYPE, ON_HOST = 2, 1  # CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_MEMORYTYPE_HOST
INVALID_VALUE = 1  # CUDA_ERROR_INVALID_VALUE: for a pointer that the driver does not know


def open_driver() -> Any:
    """Libcuda, initialized; None if there is none."""
    try:
        cuda = ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
        return cuda if cuda.cuInit(0) == 0 else None
    except (OSError, AttributeError):
        return None


@contextlib.contextmanager
def context_of(cuda: Any, device: int) -> Iterator[bool]:
    """The primary context that all users of a device share, made current temporarily; yields whether that succeeded."""
    handle, context = ctypes.c_int(), ctypes.c_void_p()
    if cuda is None or cuda.cuDeviceGet(ctypes.byref(handle), device) != 0:
        yield False
        return
    if cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), handle) != 0:
        yield False
        return
    try:
        pushed = cuda.cuCtxPushCurrent_v2(context) == 0
        yield pushed
        if pushed:
            cuda.cuCtxPopCurrent_v2(ctypes.byref(context))
    finally:
        cuda.cuDevicePrimaryCtxRelease_v2(handle)


def free_memory(cuda: Any, device: int = 0) -> int | None:
    """The free bytes of a device; None if unknown."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    with context_of(cuda, device) as known:
        if known and cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0:
            return free.value
    return None


def is_integrated(cuda: Any, device: int = 0) -> bool:
    """Whether a device has no memory of its own, and uses the host's."""
    handle, flag = ctypes.c_int(), ctypes.c_int()
    if cuda is None or cuda.cuDeviceGet(ctypes.byref(handle), device) != 0:
        return False
    return cuda.cuDeviceGetAttribute(ctypes.byref(flag), INTEGRATED, handle) == 0 and bool(flag.value)


def is_pinned(cuda: Any, address: int) -> bool | None:
    """Whether host memory at an address is pinned, so that a GPU reads it directly; None if unknown."""
    kind = ctypes.c_uint()
    with context_of(cuda, 0) as known:
        if not known:
            return None
        code = cuda.cuPointerGetAttribute(ctypes.byref(kind), MEMORY_TYPE, ctypes.c_uint64(address))
    if code == INVALID_VALUE:
        return False
    return kind.value == ON_HOST if code == 0 else None
