"""Hold nearly all memory of GPU 0, or only a context on it, through libcuda: `cuda_memory.py most|context`. Says "held".

It ends with the process that started it, or after four minutes.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time

_LEFT_BYTES, _PIECE_BYTES, _LONGEST_S = 256 << 20, 512 << 20, 240.0


def call(function: str, *arguments: object) -> None:
    """Call a function of the driver; end with its name and code where it fails."""
    code = getattr(CUDA, function)(*arguments)
    if code:
        sys.exit(f"error: {function} returned {code}")


def hold(most: bool) -> int:
    """Take a context, and memory if asked for; return the bytes."""
    context, device = ctypes.c_void_p(), ctypes.c_int()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    free, total, held = ctypes.c_size_t(), ctypes.c_size_t(), 0
    pointer, piece = ctypes.c_uint64(), _PIECE_BYTES
    while most and piece >= 1 << 20:
        call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        if free.value - piece < _LEFT_BYTES or CUDA.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(piece)):
            piece //= 2
        else:
            held += piece
    return held


CUDA = ctypes.CDLL("libcuda.so.1")
parent, ends = os.getppid(), time.monotonic() + _LONGEST_S
print("held", hold(sys.argv[1] == "most"), flush=True)
while os.getppid() == parent and time.monotonic() < ends:
    time.sleep(0.2)
