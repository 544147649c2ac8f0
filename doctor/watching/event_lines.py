"""The file of --events: one JSON object a line for each change, written at once, so that `tail -f` and a log shipper see it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from tfgpu_doctor.host.files import append_whole
from tfgpu_doctor.watching.reading import GpuReading
from tfgpu_doctor.watching.result import Hang, MachineCause, RuleResult, TimelineEntry, WatchReport
from tfgpu_doctor.watching.units import clean_texts, one_line
from tfgpu_doctor.watching.words import HANG

Event = Literal["verdict", "hang", "machine", "machine_end", "rule", "gpu_lost", "note", "end"]
_MOST_BYTES = 1 << 30  # some five million changes: something is wrong, and the disk is not ours to fill


def _now() -> dt.datetime:
    return dt.datetime.now(dt.timezone.utc)


class EventLines:
    """Appends changes to a file. A full disk or a vanished folder disturbs nothing: it is noted once, and tried again."""

    def __init__(self, path: str, note: Callable[[str], object], *, now: Callable[[], dt.datetime] = _now) -> None:
        self.path = path
        self._note, self._now = note, now
        self._noted = False

    def verdict(self, turn: TimelineEntry) -> None:
        """The verdict is another one."""
        self.add("verdict", turn.at_s, msgspec.to_builtins(turn))

    def hang(self, hang: Hang) -> None:
        """The program makes no step any more, or the doctor has ended it."""
        self.add("hang", hang.at_s + hang.seconds, msgspec.to_builtins(hang) | {"no_step_for_s": hang.seconds})

    def machine(self, cause: MachineCause, seconds: float) -> None:
        """Something outside of the program slows it."""
        self.add("machine", seconds, msgspec.to_builtins(cause) | {"slowed_s": cause.seconds})

    def machine_end(self, label: str, seconds: float) -> None:
        """It slows it no more."""
        self.add("machine_end", seconds, {"label": label})

    def rule(self, rule: RuleResult, seconds: float) -> None:
        """A rule of --fail-if is broken."""
        self.add("rule", seconds, msgspec.to_builtins(rule))

    def gpu_lost(self, gpu: GpuReading, seconds: float) -> None:
        """NVML does not find a GPU any more."""
        self.add("gpu_lost", seconds, {"index": gpu.index, "name": gpu.name, "uuid": gpu.uuid})

    def end(self, report: WatchReport) -> None:
        """The program has ended."""
        self.add(
            "end", report.seconds,
            {
                "verdict": HANG if report.hang else report.verdict, "title": (report.hang or report).title,
                "healthy": False if report.hang else report.healthy, "exit_code": report.exit_code,
                "broken_rules": [rule.rule for rule in report.rules if rule.broken],
            },
        )  # fmt: skip

    def add(self, event: Event, seconds: float, fields: Mapping[str, Any]) -> None:
        """Append one line. `at`, `seconds` (since the start) and `event` come first, and no field takes their place."""
        at = self._now().astimezone(dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        head = {"at": at, "seconds": round(seconds, 3), "event": event}
        line = msgspec.json.encode({**head, **clean_texts(dict(fields)), **head}) + b"\n"
        try:
            append_whole(self.path, line, _MOST_BYTES)
        except OSError as error:
            if not self._noted:
                self._note(
                    f"--events: {one_line(self.path)} cannot be written ({error.strerror or error}); "
                    "the training goes on, and what happens now is missing in that file"
                )
            self._noted = True
