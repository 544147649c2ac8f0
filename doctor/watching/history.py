"""What one watched program is watched for, what was seen of it, and who hears of it at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tfgpu_doctor.tracing import TraceReport
from tfgpu_doctor.watching.hanging import AFTER_S
from tfgpu_doctor.watching.live import State
from tfgpu_doctor.watching.reading import GpuReading, Reading
from tfgpu_doctor.watching.result import Hang, MachineCause, RuleResult, TimelineEntry
from tfgpu_doctor.watching.rules import AnyRule


class Observer(Protocol):
    """Who hears what happens; `seconds` since the start."""

    def turn(self, turn: TimelineEntry) -> None:
        """The verdict is another one."""

    def machine(self, cause: MachineCause, seconds: float) -> None:
        """Something outside of the program slows it."""

    def machine_end(self, label: str, seconds: float) -> None:
        """It slows the program no more."""

    def note(self, text: str, seconds: float) -> None:
        """Something that is no verdict, but is worth a line at once."""

    def hang(self, hang: Hang) -> None:
        """The program stands still."""

    def gpu_lost(self, gpu: GpuReading, seconds: float) -> None:
        """A GPU no longer answers."""

    def rule(self, rule: RuleResult, seconds: float) -> None:
        """A rule is broken."""

    def show(self, state: State) -> None:
        """A look has come."""


@dataclass(frozen=True)
class WatchOptions:
    """How to watch: `command` is for the report, `every_s` the time between recordings (None: growing)."""

    command: str
    hang_after_s: float = AFTER_S
    every_s: float | None = None
    rules: Sequence[AnyRule] = ()
    from_outside: bool = False


@dataclass
class History:
    """What was seen so far; times in s since the start."""

    timeline: list[TimelineEntry] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    gpus: dict[int, list[GpuReading]] = field(default_factory=dict)
    reports: dict[str, TraceReport] = field(default_factory=dict)  # the last of each verdict, the newest last
    hangs: list[Hang] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
