"""The verdict at a moment: a hang, what of the machine slows the training, or what the last recording says."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.tracing import TraceReport
from tfgpu_doctor.watching.captures import Capture
from tfgpu_doctor.watching.machine_causes import MachineCauses, explains, slows
from tfgpu_doctor.watching.reading import GpuReading, Reading
from tfgpu_doctor.watching.result import Hang, MachineCause, TimelineEntry

HANGS = "hang"
_LINGERS_S = 5.0  # a cause of the machine that is not seen for so long is over
_RECENT = 10  # looks
_SHOWS_AFTER_S = 6.0  # a cause of the machine is at work for so long before the looks tell it
_SLOWED = 1.5  # times as long as before: a third of each step came with the cause
SLOWS = {"cpu_contention", "cpu_quota", "disk_slow", "memory_short", "gpu_slowed", "other_tenant"}


class LiveVerdict:
    """Joins what was recorded with what the machine shows; times in s of the monotonic clock."""

    def __init__(self, began: Callable[[MachineCause], None], ended: Callable[[str], None] = lambda _: None) -> None:
        """Begin; `began` hears of each cause of the machine when it appears, `ended` its label when it is over."""
        self.machine = MachineCauses()
        self._began, self._ended = began, ended
        self._seen_s: dict[str, float] = {}  # when a cause of the machine was seen last, and since when
        self._since_s: dict[str, float] = {}
        self._captures: deque[Capture] = deque(maxlen=4)
        self._before: dict[str, TraceReport | None] = {}  # what was recorded before a cause was at work

    def look(self, now: float, reading: Reading, gpus: Sequence[GpuReading], capture: Capture | None) -> None:
        """Take a look at the machine; `capture` is the last recording that told something."""
        self.machine.add(reading, gpus)
        if capture is not None and capture not in self._captures:
            self._captures.append(capture)
        for label in self.machine.active:
            if label not in self._since_s:
                self._since_s[label] = now
                self._before[label] = self._recorded_before(now)
                self._began(next(each for each in self.machine.found() if each.label == label))
            self._seen_s[label] = now
        for label in [each for each, seen_s in self._seen_s.items() if now - seen_s > _LINGERS_S]:
            del self._seen_s[label], self._since_s[label]
            self._ended(label)

    def turn(
        self, at_s: float, hang: Hang | None, report: TraceReport | None, readings: Sequence[Reading], state: str
    ) -> TimelineEntry:
        """The verdict now; `state` is the word where nothing is known, `at_s` the time since the start."""
        words = read_knowledge().watch_words
        if hang is not None:
            return TimelineEntry(at_s=at_s, verdict=HANGS, title=hang.title)
        active = sorted(self._seen_s, key=lambda label: self._since_s[label])
        slowing = [each for each in active if slows(each)]
        if first := self._first(slowing or active, report, readings[-_RECENT:]):
            others = tuple(each for each in active if each != first)
            return TimelineEntry(at_s=at_s, verdict=first, title=words[first].title, causes=others)
        if report is None:
            return TimelineEntry(at_s=at_s, verdict=state, title=words[state].title)
        share = next((each.share for each in report.causes if each.label == report.verdict), None)
        return TimelineEntry(
            at_s=at_s, verdict=report.verdict, title=report.title, share=share, step_ms=report.steps.mean_ms,
            causes=tuple(active),
        )  # fmt: skip

    def _recorded_before(self, now: float) -> TraceReport | None:
        """The last recording from before what the looks show now; the first one if there is none."""
        earlier = [each for each in self._captures if each.at_s < now - _SHOWS_AFTER_S] or list(self._captures)[:1]
        return earlier[-1].report if earlier else None

    def _first(self, active: Sequence[str], report: TraceReport | None, readings: Sequence[Reading]) -> str:
        """The cause of the machine that comes before what the recording says; empty if the program has its own reason."""
        if not active:
            return ""
        first = active[0]
        before = self._before[first]
        if report is None or (before is not None and before.healthy):
            return first  # it trained well before
        if before is None:
            return first if explains(first, report, readings) else ""
        return first if first in SLOWS and slowed(before, report) else ""


def slowed(before: TraceReport, now: TraceReport) -> bool:
    """Whether the same steps take much longer than they did."""
    same = (before.steps.found_by, before.steps.name) == (now.steps.found_by, now.steps.name)
    return same and 0 < _SLOWED * before.steps.median_ms <= now.steps.median_ms
