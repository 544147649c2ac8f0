"""The fact of the tools with which XLA compiles kernels."""

from __future__ import annotations

from tfgpu_doctor.model.facts.attempt import Fact
from tfgpu_doctor.model.redaction import FilePath, Version


class XlaTools(Fact, frozen=True):
    """The files that XLA needs to compile a kernel for a GPU; a path is empty if XLA would find none."""

    libdevice: FilePath = ""  # libdevice.10.bc, CUDA's mathematical functions
    ptxas: FilePath = ""  # the assembler
    ptxas_version: Version = ""  # the CUDA release that it came with, "12.5"; empty if it does not report it
    searched: tuple[FilePath, ...] = ()  # the folders that XLA searches
