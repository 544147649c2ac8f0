"""Watches one program: looks from outside once a second, recordings now and then, and the verdict that follows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from tfgpu_doctor._project import report_it
from tfgpu_doctor.host import Host
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.tracing import TraceReport, judge_profile
from tfgpu_doctor.watching.agent import Agent, recording_under_way
from tfgpu_doctor.watching.bounded import Notes, shorten
from tfgpu_doctor.watching.captures import Capture, Captures, Judge
from tfgpu_doctor.watching.change_detector import ChangeDetector
from tfgpu_doctor.watching.gpu_signals import GpuSignals
from tfgpu_doctor.watching.hanging import HangWatch
from tfgpu_doctor.watching.held_gpus import is_held
from tfgpu_doctor.watching.history import History, Observer, WatchOptions
from tfgpu_doctor.watching.live import State, sentence
from tfgpu_doctor.watching.live_verdict import HANGS, LiveVerdict
from tfgpu_doctor.watching.long_waits import LABEL as STALLS
from tfgpu_doctor.watching.long_waits import LongWaits
from tfgpu_doctor.watching.machine_causes import MachineCauses, slows
from tfgpu_doctor.watching.processes_seen import ProcessesSeen
from tfgpu_doctor.watching.program_signals import ProgramSignals
from tfgpu_doctor.watching.reading import GpuReading, Reading
from tfgpu_doctor.watching.result import Hang, TimelineEntry
from tfgpu_doctor.watching.rules import values_of, watch_rule
from tfgpu_doctor.watching.seldom_work import LABEL, SeldomWork, joined
from tfgpu_doctor.watching.seldom_work import LOOK_EVERY_S as STACK_EVERY_S

LOOK_EVERY_S = 1.0
_SURE = 60  # looks
_KEPT = 6 * 3600  # looks: of a long training the last hours


class Watcher:
    """Call `tick` several times a second, from one thread; nothing in it waits."""

    def __init__(
        self, host: Host, pid: int, options: WatchOptions, *, folder: str, agents: Callable[[], Sequence[Agent]], told: Observer,
        judge: Judge = judge_profile,
    ) -> None:  # fmt: skip
        self.options, self.pid = options, pid
        self.began_s = time.monotonic()
        self.began_at = time.time()
        self.history = History()
        self._notes = Notes(self.history.notes)
        self._processes = ProcessesSeen()
        self._left_out = 0  # turns of the timeline
        self._verdict = LiveVerdict(
            lambda cause: told.machine(cause, self.seconds), lambda label: told.machine_end(label, self.seconds)
        )
        self.rules = [watch_rule(rule) for rule in options.rules]
        self.captures = Captures(folder, options.command, every_s=options.every_s, judge=judge, note=self._note)
        self.hanging = HangWatch(host, after_s=options.hang_after_s, native=not options.from_outside, note=self._say)
        self.gpus = GpuSignals(host, self._own_pids)
        self._signals = ProgramSignals(host, pid)
        self._agents, self._told = agents, told
        self._changes = ChangeDetector()
        self._last_s = self._stack_s = 0.0
        self._trained: set[int] = set()
        self._capture: Capture | None = None  # the last that tells something
        self._seldom = SeldomWork()
        self._waits = LongWaits(host)
        self._report: TraceReport | None = None  # what both say
        self.with_tensorflow = False
        self._lost: set[int] = set()
        self.broke_off = False  # by an error of the doctor's own
        try:
            self.gpus.start()
        except RuntimeError as error:  # no more threads may be started
            self._note(f"nothing is known of GPUs: {error}")

    @property
    def seconds(self) -> float:
        """The time since the start."""
        return time.monotonic() - self.began_s

    @property
    def hang(self) -> Hang | None:
        """What stands still now."""
        return self.hanging.hang

    @property
    def hang_ended_s(self) -> float | None:
        """When the process of the last hang ended, since the start, if no step was recorded after that."""
        return None if self.hanging.ended_s is None else self.hanging.ended_s - self.began_s

    @property
    def machine(self) -> MachineCauses:
        """What of the machine slowed the program."""
        return self._verdict.machine

    @property
    def seldom_verdict(self) -> str:
        """The verdict of the looks between the recordings, if it is about most of the run; empty otherwise."""
        told_s = {LABEL: self._seldom.told_looks * LOOK_EVERY_S, STALLS: self._waits.told_s}
        verdict = self._report.verdict if self._report else ""
        return verdict if told_s.get(verdict, 0.0) >= self.seconds / 2 else ""

    def tick(self) -> None:
        """Do what is due."""
        now = time.monotonic()
        agents = list(self._agents())
        self.with_tensorflow = self.with_tensorflow or bool(agents)
        busy = self.captures.busy
        recordable = [] if self.options.from_outside else agents
        changed = self._changes.changed or self.hanging.wants_recording
        capture = self.captures.tick(now, recordable, changed=changed, stands=self.hang is not None)
        if busy and not self.captures.busy:
            self._changes.recorded()
        if capture is not None:
            self._take(capture)
        if now - self._last_s >= LOOK_EVERY_S:
            self._last_s = now
            self._look(now, agents)
        elif capture is not None:
            self._turn(now)
        if now - self._stack_s >= STACK_EVERY_S:
            self._stack_s = now
            self._look_at_stack(now, agents)

    def _look_at_stack(self, now: float, agents: Sequence[Agent]) -> None:
        """Between the other looks, and after them: a process that has not answered yet would seem to stand still."""
        if self._capture is None or self.hang is not None or self.hanging.examining:
            return
        for agent in [each for each in agents if each.pid == self._capture.pid]:
            self._seldom.look(agent.look)
            self._waits.look(now, agent.look, recording=self.captures.busy)
            agent.ask(others=False)

    def end(self) -> None:
        """Stop what runs beside the program."""
        self.gpus.stop()
        now = time.monotonic()
        if capture := self.captures.end(now):
            self._take(capture)
            self._turn(now)
        if self._left_out:
            self._note(f"the timeline leaves out the {self._left_out} shortest changes of the verdict")
        if processes := self._processes.in_words():
            self._note(processes)

    def _take(self, capture: Capture) -> None:
        self._processes.recorded(capture.pid)
        if capture.report.steps.count:
            self._trained.add(capture.pid)
        self.hanging.recorded(time.monotonic(), capture.at_s, capture.pid, capture.report.steps)
        if capture.tells:
            self._capture = capture
            self._seldom.recorded(capture)
            self._waits.recorded(capture)
            self._join(capture)

    def _join(self, capture: Capture) -> None:
        """Join what was recorded last with what was seen since."""
        report, work, waits = capture.report, self._seldom.found(), self._waits.found()
        if found := work or waits:
            told = self._report is not None and self._report.verdict == found.label
            report = joined(report, found, "host" if work else "idle", told=told)
        self._report = report
        self.history.reports.pop(self._report.verdict, None)
        self.history.reports[self._report.verdict] = self._report

    def _look(self, now: float, agents: Sequence[Agent]) -> None:
        reading, gpus = self._signals.look(), self.gpus.latest()
        if reading is None:
            return
        self.history.readings.append(reading)
        del self.history.readings[:-_KEPT]
        for gpu in gpus:
            looks = self.history.gpus.setdefault(gpu.index, [])
            if not looks or looks[-1].at_s != gpu.at_s:
                looks.append(gpu)
                del looks[:-_KEPT]
        self._find_lost(gpus)
        self._processes.look(agents)
        self._changes.add(reading, gpus)
        self._verdict.look(now, reading, gpus, self._capture)
        self._waits.program_uses(reading.cpu, gpus)
        if self._capture and self.hang is None:
            self._join(self._capture)
        if hang := self.hanging.tick(now, agents, self._trained, self.pid, reading, gpus):
            hang = self._since_begin(hang, now, agents)
            self.history.hangs.append(hang)
            self._told.hang(hang)
        for rule in self.rules:
            values = values_of(reading, gpus, self._report, recordings=self.captures.count, trained=bool(self._trained))
            if rule.add(self.seconds, values):
                self._told.rule(rule.result(), self.seconds)
        self._turn(now)
        self._told.show(self.state(reading, gpus))

    def _find_lost(self, gpus: Sequence[GpuReading]) -> None:
        """A GPU that answered, and of which NVML says nothing any more while it speaks of others."""
        for gpu in gpus:
            looks = [each for each in self.history.gpus.get(gpu.index, ())[-_SURE:] if each.used_bytes is not None]
            known = bool(looks) and is_held(looks[-1])
            silent = gpu.used_bytes is None and gpu.utilization is None and gpu.temperature_c is None
            if silent and known and gpu.index not in self._lost:
                self._lost.add(gpu.index)
                self.machine.lose(f"GPU {gpu.index} {gpu.name}", "NVML gives no value of it any more")
                self._told.gpu_lost(gpu, self.seconds)

    def _since_begin(self, hang: Hang, now: float, agents: Sequence[Agent]) -> Hang:
        import msgspec

        recording = [words for agent in agents if (words := recording_under_way(agent, now))]
        return msgspec.structs.replace(
            hang, at_s=round(hang.at_s - self.began_s, 1), evidence=(*hang.evidence, *recording)
        )

    def _turn(self, now: float) -> None:
        """Note the verdict if it is another one than before."""
        state = "outside" if self.options.from_outside else "watching" if self.with_tensorflow else "starting"
        at_s = round(now - self.began_s, 1)
        turn = self._verdict.turn(at_s, self.hang, self._report, self.history.readings, state)
        before = self.history.timeline[-1] if self.history.timeline else None
        if before is None or (before.verdict, before.causes) != (turn.verdict, turn.causes):
            self.history.timeline.append(turn)
            self._left_out += shorten(self.history.timeline)
            self._told.turn(turn)

    def state(self, reading: Reading | None, gpus: Sequence[GpuReading]) -> State:
        """What is known at this moment."""
        turn = self.history.timeline[-1]
        report = self._report
        own = report is not None and turn.verdict == report.verdict
        titles = read_knowledge().watch_words
        behind = " and ".join(_inner(titles[each].title) for each in turn.causes if slows(each))
        return State(
            seconds=self.seconds, verdict=turn.verdict, title=turn.title,
            sentence=sentence(report, behind) if own and report else turn.title, healthy=self.healthy(turn),
            gpus=gpus, reading=reading, step_ms=report.steps.mean_ms if report else None, hang=self.hang,
            shares=report.shares if report else None, causes=tuple(self.machine.active), captures=self.captures.count,
            rules=tuple(rule.result() for rule in self.rules),
        )  # fmt: skip

    def healthy(self, turn: TimelineEntry) -> bool | None:
        """Whether a verdict says that all is well; None if it does not tell."""
        row = read_knowledge().watch_words.get(turn.verdict)
        if turn.verdict == HANGS or (row and row.kind == "machine"):
            return False
        report = self.report_of(turn.verdict)
        return report.healthy if report else None

    def report_of(self, verdict: str) -> TraceReport | None:
        """The last recording with this verdict."""
        return self.history.reports.get(verdict)

    def failed(self, error: Exception) -> None:
        """An error of the doctor's own ended the watching; the program runs on."""
        self.broke_off = True
        what = f"{type(error).__name__}: {error}"
        self._say(f"the doctor failed to watch the program, which ran on ({what}); please {report_it('the command')}")

    def _own_pids(self) -> set[int]:
        return self._signals.pids()

    def _say(self, text: str) -> None:
        self._note(text)
        self._told.note(text, self.seconds)

    def _note(self, text: str) -> None:
        self._notes.add(text)


def _inner(title: str) -> str:
    """A title within a sentence."""
    return title[:1].lower() + title[1:]
