"""A rehearsal: run the target's real TensorFlow against a simulated driver, on a machine without a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfgpu_doctor._exports import exported

if TYPE_CHECKING:
    from tfgpu_doctor.rehearse.gpu_names import UnknownGpu as UnknownGpu
    from tfgpu_doctor.rehearse.gpu_names import find_gpu as find_gpu
    from tfgpu_doctor.rehearse.looking import Look as Look
    from tfgpu_doctor.rehearse.looking import choose_look as choose_look

# What other features may use.
__getattr__ = exported(
    __name__,
    {
        "UnknownGpu": "gpu_names",
        "find_gpu": "gpu_names",
        "Look": "looking",
        "choose_look": "looking",
    },
)
