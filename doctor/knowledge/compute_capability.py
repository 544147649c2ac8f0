"""Which code of a build runs on which GPU."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

Kernels = Literal["native", "ptx", "never", "unknown"]
_TARGET = re.compile(r"(sm|compute|ptx)_(\d{1,3})(\d)([a-z]?)")
_CAPABILITY = re.compile(r"(\d{1,3})(?:\.(\d{1,3}))?")


def kernels_for(capability: str, built: Iterable[str]) -> Kernels:
    """How a GPU of a compute capability ("8.6") runs a build for targets like "sm_80" and "compute_90".

    `sm_XY` is machine code, which runs on the same major and the same or a later minor version; `ptx_XY` is PTX, which the
    driver compiles for X.Y and any later GPU; `compute_XY` is both. A letter ("sm_90a") limits code to that exact GPU.
    Rules: https://docs.nvidia.com/cuda/cuda-compiler-driver-nvcc/#gpu-compilation; that `compute_XY` includes machine code
    was observed in the fat binaries of TensorFlow 2.12 to 2.21.
    """
    known = _CAPABILITY.fullmatch(capability)
    if not known:
        return "unknown"
    gpu = (int(known.group(1)), int(known.group(2) or 0))
    matches = [match for text in built if (match := _TARGET.fullmatch(text))]
    found: Kernels = "never" if matches else "unknown"
    for match in matches:
        target = (int(match.group(2)), int(match.group(3)))
        if match.group(4):
            native = target == gpu
        else:
            native = target[0] == gpu[0] and target[1] <= gpu[1]
        if native and match.group(1) != "ptx":
            return "native"
        if match.group(1) != "sm" and target <= gpu and not match.group(4):
            found = "ptx"
    return found


def newest_major(built: Iterable[str]) -> int:
    """The highest major compute capability that a build has code for, 0 if it names none."""
    return max((int(match.group(2)) for text in built if (match := _TARGET.fullmatch(text))), default=0)
