"""Facts of XLA: the tools with which it compiles kernels, and the flags that it is given."""

from __future__ import annotations

from tfgpu_doctor.model.facts.attempt import Attempt, Fact
from tfgpu_doctor.model.redaction import FilePath, Line, Variable, Version


class XlaTools(Fact, frozen=True):
    """The files that XLA needs to compile a kernel for a GPU; a path is empty if XLA would find none."""

    libdevice: FilePath = ""  # libdevice.10.bc, CUDA's mathematical functions
    ptxas: FilePath = ""  # the assembler
    ptxas_version: Version = ""  # the CUDA release that it came with, "12.5"; empty if it does not report it
    searched: tuple[FilePath, ...] = ()  # the folders that XLA searches


class FlagTrial(Fact, frozen=True):
    """One environment variable with flags, read by TensorFlow in a process of its own."""

    variable: Variable  # "XLA_FLAGS"
    attempt: Attempt
    complaints: tuple[Line, ...] = ()  # about its flags; XLA ends the process then


class XlaFlags(Fact, frozen=True):
    """The variables with flags that are set, each tried alone."""

    trials: tuple[FlagTrial, ...] = ()
