"""The verdict at a moment: a hang, what of the machine slows the training, or what the last recording says."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.tracing import TraceReport
from tfgpu_doctor.watching.machine_causes import MachineCauses, explains
from tfgpu_doctor.watching.reading import GpuReading, Reading
from tfgpu_doctor.watching.result import Hang, MachineCause, TimelineEntry

HANGS = "hang"
_LINGERS_S = 5.0  # a cause of the machine that is not seen for so long is over
_RECENT = 10  # looks


class LiveVerdict:
    """Joins what was recorded with what the machine shows; times in s of the monotonic clock."""

    def __init__(self, began: Callable[[MachineCause], None]) -> None:
        """Begin; `began` hears of each cause of the machine when it appears."""
        self.machine = MachineCauses()
        self._began = began
        self._seen_s: dict[str, float] = {}  # when a cause of the machine was seen last, and since when
        self._since_s: dict[str, float] = {}
        self._before: dict[str, bool | None] = {}  # whether the training was healthy when a cause appeared

    def look(self, now: float, reading: Reading, gpus: Sequence[GpuReading], report: TraceReport | None) -> None:
        """Take a look at the machine; `report` is what the last recording says."""
        self.machine.add(reading, gpus)
        for label in self.machine.active:
            if label not in self._since_s:
                self._since_s[label] = now
                self._before[label] = report.healthy if report else None
                self._began(next(each for each in self.machine.found() if each.label == label))
            self._seen_s[label] = now
        for label in [each for each, seen_s in self._seen_s.items() if now - seen_s > _LINGERS_S]:
            del self._seen_s[label], self._since_s[label]

    def turn(
        self, at_s: float, hang: Hang | None, report: TraceReport | None, readings: Sequence[Reading], state: str
    ) -> TimelineEntry:
        """The verdict now; `state` is the word where nothing is known, `at_s` the time since the start."""
        words = read_knowledge().watch_words
        if hang is not None:
            return TimelineEntry(at_s=at_s, verdict=HANGS, title=hang.title)
        active = sorted(self._seen_s, key=lambda label: self._since_s[label])
        if first := self._first(active, report, readings[-_RECENT:]):
            others = tuple(each for each in active if each != first)
            return TimelineEntry(at_s=at_s, verdict=first, title=words[first].title, causes=others)
        if report is None:
            return TimelineEntry(at_s=at_s, verdict=state, title=words[state].title)
        share = next((each.share for each in report.causes if each.label == report.verdict), None)
        return TimelineEntry(
            at_s=at_s, verdict=report.verdict, title=report.title, share=share, step_ms=report.steps.mean_ms,
            causes=tuple(active),
        )  # fmt: skip

    def _first(self, active: Sequence[str], report: TraceReport | None, readings: Sequence[Reading]) -> str:
        """The cause of the machine that comes before what the recording says; empty if the program has its own reason."""
        if not active:
            return ""
        first = active[0]
        before = self._before[first]
        if report is None or before is True:
            return first  # it trained well before
        return first if before is None and explains(first, report, readings) else ""
