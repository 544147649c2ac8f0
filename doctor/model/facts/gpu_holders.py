"""The fact of what the processes do that hold a GPU's memory."""

from __future__ import annotations

from typing import Literal

from tfgpu_doctor.model.facts.attempt import Fact
from tfgpu_doctor.model.redaction import Count, Number

Waits = Literal["", "lock", "other"]


class GpuHolder(Fact, frozen=True):
    """A process that computes on a GPU, watched for a few seconds."""

    pid: Count
    waits_for: Waits = ""  # its main thread; empty if it runs, or if the kernel does not say
    watched_s: Number = 0.0
    cpu_s: Number = 0.0  # that all its threads used in that time
    listens: bool | None = None  # on a TCP or Unix socket; None if its files cannot be read

    @property
    def is_stuck(self) -> bool:
        """Whether it waits for a lock, computes nothing, and serves nobody."""
        return self.waits_for == "lock" and self.cpu_s == 0.0 and self.watched_s > 0 and self.listens is False


class GpuHolders(Fact, frozen=True):
    """The processes that hold memory of a GPU, as far as this user may look at them."""

    processes: tuple[GpuHolder, ...] = ()
