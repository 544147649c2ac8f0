"""The fact of what XLA compiles kernels with."""

from __future__ import annotations

from tfgpu_doctor.model.facts.attempt import Fact
from tfgpu_doctor.model.redaction import FilePath, Version


class XlaTools(Fact, frozen=True):
    """The files that XLA needs to compile a kernel for a GPU; a path is empty where it would find none."""

    libdevice: FilePath = ""  # libdevice.10.bc, CUDA's mathematical functions
    ptxas: FilePath = ""  # the assembler
    ptxas_version: Version = ""  # the CUDA that it came with, "12.5"; empty where it does not say
    searched: tuple[FilePath, ...] = ()  # the folders that XLA looks into
