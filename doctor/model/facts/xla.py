"""The fact of what XLA compiles kernels with."""

from __future__ import annotations

from tfgpu_doctor.model.facts.attempt import Fact


class XlaTools(Fact, frozen=True):
    """The files that XLA needs to compile a kernel for a GPU; a path is empty where it would find none."""

    libdevice: str = ""  # libdevice.10.bc, CUDA's mathematical functions
    ptxas: str = ""  # the assembler
    ptxas_version: str = ""  # the CUDA that it came with, "12.5"; empty where it does not say
    searched: tuple[str, ...] = ()  # the folders that XLA looks into
