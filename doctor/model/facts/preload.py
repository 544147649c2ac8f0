"""Facts of the libraries that the loader opens before all others."""

from __future__ import annotations

from typing import Literal

from tfgpu_doctor.model.facts.attempt import Attempt, Fact
from tfgpu_doctor.model.redaction import FilePath, Text, Version


class FailedPreload(Fact, frozen=True):
    """A library that the loader could not open, and skipped."""

    library: FilePath
    reason: Text = ""
    named_in: Literal["LD_PRELOAD", "/etc/ld.so.preload", "--preload"] = "LD_PRELOAD"


class Preload(Fact, frozen=True):
    """What LD_PRELOAD and /etc/ld.so.preload do to the target's Python."""

    attempt: Attempt | None = None  # None if nothing is to be preloaded, so that no process was started
    failed: tuple[FailedPreload, ...] = ()
    allocator: FilePath = ""  # the library that replaces the C library's malloc


class RunWithoutPreload(Fact, frozen=True):
    """TensorFlow imported once more without LD_PRELOAD, after a run with it had failed."""

    attempt: Attempt | None = None  # None if there was no reason to
    version: Version = ""  # of TensorFlow; empty if the import failed again
    gpus_listed: bool = False  # whether it could list the GPUs
