"""Watches one program: looks from outside once a second, recordings now and then, and the verdict that follows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tfgpu_doctor.host import Host
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.tracing import TraceReport
from tfgpu_doctor.watching.captures import Capture, Captures
from tfgpu_doctor.watching.gpu_signals import GpuSignals
from tfgpu_doctor.watching.hanging import AFTER_S, HangWatch
from tfgpu_doctor.watching.live import State, sentence
from tfgpu_doctor.watching.machine_causes import MachineCauses, explains
from tfgpu_doctor.watching.picture import Picture
from tfgpu_doctor.watching.program_signals import ProgramSignals
from tfgpu_doctor.watching.reading import GpuReading, Reading
from tfgpu_doctor.watching.result import Hang, MachineCause, RuleResult, Turn
from tfgpu_doctor.watching.rules import Rule, RuleWatch
from tfgpu_doctor.watching.voice import Voice

LOOK_EVERY_S = 1.0
_SURE = 60  # looks
_RECENT = 10  # looks
_LINGERS_S = 5.0  # a cause of the machine that is not seen for so long is over
_HANGS = "hang"
_KEPT = 6 * 3600  # looks: of a long training the last hours


class Told(Protocol):
    """Who hears what happens; `seconds` since the start."""

    def turn(self, turn: Turn) -> None:
        """The verdict is another one."""

    def machine(self, cause: MachineCause, seconds: float) -> None:
        """Something outside of the program slows it."""

    def hang(self, hang: Hang) -> None:
        """The program stands still."""

    def gpu_lost(self, gpu: GpuReading, seconds: float) -> None:
        """A GPU no longer answers."""

    def rule(self, rule: RuleResult, seconds: float) -> None:
        """A rule is broken."""

    def show(self, state: State) -> None:
        """A look has come."""


@dataclass(frozen=True)
class Wish:
    """How to watch: `command` is for the report, `every_s` the time between recordings (None: growing)."""

    command: str
    hang_after_s: float = AFTER_S
    every_s: float | None = None
    rules: Sequence[Rule] = ()
    from_outside: bool = False


@dataclass
class Course:
    """What was seen so far; times in s since the start."""

    timeline: list[Turn] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    gpus: dict[int, list[GpuReading]] = field(default_factory=dict)
    captures: list[Capture] = field(default_factory=list)  # the last of each verdict
    hangs: list[Hang] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Watcher:
    """Call `tick` several times a second, from one thread; nothing in it waits."""

    def __init__(
        self, host: Host, pid: int, wish: Wish, *, folder: str, voices: Callable[[], Sequence[Voice]], told: Told,
    ) -> None:  # fmt: skip
        self.wish, self.pid = wish, pid
        self.began_s = time.monotonic()
        self.began_at = time.time()
        self.course = Course()
        self.machine = MachineCauses()
        self.rules = [RuleWatch(rule) for rule in wish.rules]
        self.captures = Captures(folder, wish.command, every_s=wish.every_s)
        self.hanging = HangWatch(host, after_s=wish.hang_after_s, native=not wish.from_outside, note=self._note)
        self.gpus = GpuSignals(host, self._own_pids)
        self._signals = ProgramSignals(host, pid)
        self._voices, self._told = voices, told
        self._picture = Picture()
        self._last_s = 0.0
        self._trained: set[int] = set()
        self._capture: Capture | None = None  # the last that tells something
        self._seen_s: dict[str, float] = {}  # when a cause of the machine was seen last, and since when
        self._since_s: dict[str, float] = {}
        self._before: dict[str, bool | None] = {}  # whether the training was healthy when a cause appeared
        self.with_tensorflow = False
        self._lost: set[int] = set()
        self.gpus.start()

    @property
    def seconds(self) -> float:
        """The time since the start."""
        return time.monotonic() - self.began_s

    @property
    def hang(self) -> Hang | None:
        """What stands still now."""
        return self.hanging.hang

    @property
    def reading(self) -> Reading | None:
        """The last look at the program."""
        return self.course.readings[-1] if self.course.readings else None

    @property
    def capture(self) -> Capture | None:
        """The last recording that tells something."""
        return self._capture

    def tick(self) -> None:
        """Do what is due."""
        now = time.monotonic()
        voices = list(self._voices())
        self.with_tensorflow = self.with_tensorflow or bool(voices)
        busy = self.captures.busy
        recordable = [] if self.wish.from_outside else voices
        capture = self.captures.tick(now, recordable, changed=self._picture.changed)
        if busy and not self.captures.busy:
            self._picture.recorded()
        if capture is not None:
            self._take(capture)
        if now - self._last_s >= LOOK_EVERY_S:
            self._last_s = now
            self._look(now, voices)
        elif capture is not None:
            self._turn(now)

    def end(self) -> None:
        """Stop what runs beside the program."""
        self.gpus.stop()
        now = time.monotonic()
        if capture := self.captures.end(now):
            self._take(capture)
            self._turn(now)

    def _take(self, capture: Capture) -> None:
        if capture.report.steps.count:
            self._trained.add(capture.pid)
        if capture.tells:
            self._capture = capture
            others = [each for each in self.course.captures if each.report.verdict != capture.report.verdict]
            self.course.captures = [*others, capture]

    def _look(self, now: float, voices: Sequence[Voice]) -> None:
        reading, gpus = self._signals.look(), self.gpus.latest()
        if reading is None:
            return
        self.course.readings.append(reading)
        del self.course.readings[:-_KEPT]
        for gpu in gpus:
            looks = self.course.gpus.setdefault(gpu.index, [])
            if not looks or looks[-1].at_s != gpu.at_s:
                looks.append(gpu)
                del looks[:-_KEPT]
        self._find_lost(gpus)
        self._picture.add(reading, gpus)
        self.machine.add(reading, gpus)
        for label in self.machine.active:
            if label not in self._since_s:
                self._since_s[label] = now
                self._before[label] = self._capture.report.healthy if self._capture else None
                self._told.machine(next(each for each in self.machine.found() if each.label == label), self.seconds)
            self._seen_s[label] = now
        for label in [each for each, seen_s in self._seen_s.items() if now - seen_s > _LINGERS_S]:
            del self._seen_s[label], self._since_s[label]
        if hang := self.hanging.tick(now, voices, self._trained, self.pid, reading, gpus):
            hang = self._since_begin(hang)
            self.course.hangs.append(hang)
            self._told.hang(hang)
        for rule in self.rules:
            if rule.add(self.seconds, self._values(reading, gpus)):
                self._told.rule(rule.result(), self.seconds)
        self._turn(now)
        self._told.show(self.state(reading, gpus))

    def _find_lost(self, gpus: Sequence[GpuReading]) -> None:
        """A GPU that answered, and of which NVML says nothing any more while it speaks of others."""
        for gpu in gpus:
            known = any(each.used_bytes is not None for each in self.course.gpus.get(gpu.index, ())[-_SURE:])
            silent = gpu.used_bytes is None and gpu.utilization is None and gpu.temperature_c is None
            if silent and known and gpu.index not in self._lost:
                self._lost.add(gpu.index)
                self.machine.lose(f"GPU {gpu.index} {gpu.name}", "NVML gives no value of it any more")
                self._told.gpu_lost(gpu, self.seconds)

    def _since_begin(self, hang: Hang) -> Hang:
        import msgspec

        return msgspec.structs.replace(hang, at_s=round(hang.at_s - self.began_s, 1))

    def _turn(self, now: float) -> None:
        """Note the verdict if it is another one than before."""
        turn = self._verdict(now)
        before = self.course.timeline[-1] if self.course.timeline else None
        if before is None or (before.verdict, before.causes) != (turn.verdict, turn.causes):
            self.course.timeline.append(turn)
            self._told.turn(turn)

    def _verdict(self, now: float) -> Turn:
        at_s = round(now - self.began_s, 1)
        words = read_knowledge().watch_words
        if self.hang is not None:
            return Turn(at_s=at_s, verdict=_HANGS, title=self.hang.title)
        active = sorted(self._seen_s, key=lambda label: self._since_s[label])
        report = self._capture.report if self._capture else None
        first = self._first_of_machine(active)
        if first is not None:
            others = tuple(each for each in active if each != first)
            return Turn(at_s=at_s, verdict=first, title=words[first].title, causes=others)
        if report is not None:
            share = next((each.share for each in report.causes if each.label == report.verdict), None)
            return Turn(
                at_s=at_s, verdict=report.verdict, title=report.title, share=share, step_ms=report.steps.mean_ms,
                causes=tuple(active),
            )  # fmt: skip
        word = "outside" if self.wish.from_outside else "watching" if self.with_tensorflow else "starting"
        return Turn(at_s=at_s, verdict=word, title=words[word].title)

    def _first_of_machine(self, active: Sequence[str]) -> str | None:
        """The cause of the machine that comes before what the recording says; None if the program has its own reason."""
        if not active:
            return None
        first, capture = active[0], self._capture
        if capture is None or self._before.get(first) is True:
            return first  # it trained well before
        if self._before.get(first) is False:
            return None
        return first if explains(first, capture.report, self.course.readings[-_RECENT:]) else None

    def state(self, reading: Reading | None, gpus: Sequence[GpuReading]) -> State:
        """What is known at this moment."""
        turn = self.course.timeline[-1]
        report = self._capture.report if self._capture else None
        own = report is not None and turn.verdict == report.verdict
        titles = read_knowledge().watch_words
        behind = " and ".join(_inner(titles[each].title) for each in turn.causes)
        return State(
            seconds=self.seconds, verdict=turn.verdict, title=turn.title,
            sentence=sentence(report, behind) if own and report else turn.title, healthy=self.healthy(turn),
            gpus=gpus, reading=reading, step_ms=report.steps.mean_ms if report else None, hang=self.hang,
            shares=report.shares if report else None,
        )  # fmt: skip

    def healthy(self, turn: Turn) -> bool | None:
        """Whether a verdict says that all is well; None if it does not tell."""
        row = read_knowledge().watch_words.get(turn.verdict)
        if turn.verdict == _HANGS or (row and row.kind == "machine"):
            return False
        report = self.report_of(turn.verdict)
        return report.healthy if report else None

    def report_of(self, verdict: str) -> TraceReport | None:
        """The last recording with this verdict."""
        found = [each.report for each in self.course.captures if each.report.verdict == verdict]
        return found[-1] if found else None

    def _values(self, reading: Reading, gpus: Sequence[GpuReading]) -> dict[str, float | None]:
        """The values that rules speak of; shares of 1."""
        whole = reading.cpus or reading.machine_cpus
        used = [gpu.utilization for gpu in gpus if gpu.utilization is not None]
        full = [gpu.used_bytes / gpu.total_bytes for gpu in gpus if gpu.used_bytes is not None and gpu.total_bytes]
        report = self._capture.report if self._capture else None
        util = sum(used) / len(used) if used else None
        limit = reading.memory_limit_bytes
        return {
            "gpu_util": util, "gpu_idle": None if util is None else 1 - util, "gpu_memory": max(full, default=None),
            "input_wait": report.shares.input if report else None, "step_ms": report.steps.mean_ms if report else None,
            "cpu": reading.cpu / whole if whole else None,
            "cpu_queued": reading.queued / whole if whole and reading.queued is not None else None,
            "throttled": reading.throttled, "io_stalled": reading.io_stalled,
            "memory": reading.memory_bytes / limit if limit else None,
        }  # fmt: skip

    def _own_pids(self) -> set[int]:
        return self._signals.pids()

    def _note(self, text: str) -> None:
        self.course.notes.append(text)


def _inner(title: str) -> str:
    """A title within a sentence."""
    return title[:1].lower() + title[1:]
