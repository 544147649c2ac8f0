"""Whether the program stands still, since when, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tfgpu_doctor.host import Host
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.tracing import StepTimes
from tfgpu_doctor.watching.agent import Agent
from tfgpu_doctor.watching.captures import ANSWER_S as RECORDING_S
from tfgpu_doctor.watching.hang_diagnosis import Diagnosis
from tfgpu_doctor.watching.hang_examination import HangExamination
from tfgpu_doctor.watching.reading import GpuReading, Reading
from tfgpu_doctor.watching.result import Hang
from tfgpu_doctor.watching.step_watch import StepWatch
from tfgpu_doctor.watching.thread_states import main_progress, polling_threads, wanted_cpu_s

AFTER_S = 60.0  # without any progress of a program that uses no CPU
_AT_END = (
    1.25  # times as long for a program that is over: TensorFlow may wait up to 60 s for the thread that tunes pipelines
)
_ENDS_S = 10.0  # after which a program that is over, and goes on, is told of
_BUSY = 5.0  # times as long if the program still uses a CPU: one step may take long
_STALLS, _LONGEST_S = 3.0, 3600.0  # times the longest pause that it made before
_CPU_S, _SWITCHES = 0.015, 3  # of the main thread between two looks: less, such as one tick of 0.01 s, is no progress
_IDLE_CPU = 0.1
_POLLERS_EVERY_S = 30.0
_EMPTY = 3  # recordings without a step, of a program whose main thread stood while it made steps


@dataclass
class _Stall:
    since_s: float
    key: str = ""
    cpu_s: float = 0.0
    switches: int = 0
    used_cpu_s: float = 0.0  # that the whole program used or waited for meanwhile, without threads that only poll
    polled_s: float | None = None  # the same of those threads, so far
    stepped: bool = False  # steps were recorded meanwhile: another thread makes them, or one long call
    empty: int = 0  # recordings without a step since the last with steps

    def idle(self, now: float) -> bool:
        """Whether the program used next to no CPU since."""
        return self.used_cpu_s <= _IDLE_CPU * max(1.0, now - self.since_s)


class HangWatch:
    """Looks at the main thread of the process that trains, once a second; `hang` is what stands now, None if nothing.

    `wants_recording`: only a recording can tell whether the program still makes steps. `ended_s`: when the process of the
    last hang ended, as long as no step was recorded since.
    """

    def __init__(
        self, host: Host, *, after_s: float = AFTER_S, native: bool = True, note: Callable[[str], None] = lambda _: None,
    ) -> None:  # fmt: skip
        """Watch. `native`: py-spy may stop the program for some seconds once it hangs."""
        self.hang: Hang | None = None
        self.wants_recording = False
        self.ended_s: float | None = None
        self._hung: int | None = None  # the process of `hang`
        self._native = native
        self._host, self._after_s, self._note = host, after_s, note
        self._stalls: dict[int, _Stall] = {}
        self._longest_s = 0.0
        self._last_s: float | None = None
        self._examining: HangExamination | None = None
        self._steps = StepWatch(after_s)
        self._ending: set[int] = set()  # processes that are over, and were told of
        self._elsewhere: set[int] = set()  # processes that made steps while their main thread stood
        self._unseen: set[int] = set()  # processes of which it was told that nobody can look into them
        self._pollers: dict[int, tuple[float, list[int]]] = {}  # by process: when they were looked for, and which

    @property
    def examining(self) -> bool:
        """Whether a process is asked for what all of its threads do; another question would replace the answer."""
        return self._examining is not None

    def recorded(self, now: float, at_s: float, pid: int, steps: StepTimes) -> None:
        """Take what a recording of a process, which began at `at_s`, says of the steps."""
        self._tell(self._steps.recorded(at_s, steps.count, steps.median_ms))
        if steps.count:
            self.ended_s = None
        stall = self._stalls.get(pid)
        if stall is None or at_s < stall.since_s:
            return
        if not steps.count:
            stall.empty += 1
            return
        self._end_hang(pid, f"the program goes on after {now - stall.since_s:.0f} s")
        self._elsewhere.add(pid)
        self._stalls[pid] = replace(stall, since_s=now, used_cpu_s=0.0, stepped=True, empty=0)

    def _tell(self, text: str) -> None:
        if text:
            self._note(text)

    def tick(
        self, now: float, agents: Sequence[Agent], trained: set[int], started: int, reading: Reading | None,
        gpus: Sequence[GpuReading],
    ) -> Hang | None:  # fmt: skip
        """Return the hang that began with this look. `trained`: processes that made steps; `started`: the launched one."""
        passed_s = now - self._last_s if self._last_s is not None else 0.0
        self._last_s = now
        if passed_s > 10.0:  # the doctor itself was stopped
            self._stalls = {
                pid: replace(each, since_s=now, used_cpu_s=0.0, polled_s=None) for pid, each in self._stalls.items()
            }
        for agent in [each for each in agents if each.pid in trained][:1]:
            self._tell(self._steps.look(now, agent.look, _wanted(reading)))
        counted = _that_count(agents, trained, started)
        self._look_at_hung(now, counted, trained)
        self.wants_recording = False
        for agent in agents:
            if agent not in counted and agent.pid != self._hung:
                continue
            stall = self._follow(now, agent, passed_s, reading)
            if stall is None or self.hang is not None or self._examining is not None:
                continue
            if now - stall.since_s < self._limit_s(now, stall, agent):
                continue
            if agent.pid in self._elsewhere and _needs_recording(now, stall, agent):
                self.wants_recording = True
                continue
            held = sum(bool(gpu.own_bytes) for gpu in gpus)
            self._examining = HangExamination(
                self._host, agent, now, native=self._native, held_gpus=held, stepped=stall.stepped
            )
        return self._examined(now, reading, gpus)

    def _examined(self, now: float, reading: Reading | None, gpus: Sequence[GpuReading]) -> Hang | None:
        """The hang that an examination found, once it has its answer."""
        if self._examining is None or (standing := self._examining.tick(now)) is None:
            return None
        agent, self._examining = self._examining.agent, None
        stall = self._stalls.get(agent.pid)
        if stall is None or main_progress(self._host, agent.pid) is None:
            return None
        if not standing.kind:
            if agent.unable and agent.pid not in self._unseen:
                self._unseen.add(agent.pid)
                self._note(
                    f"process {agent.pid} has not moved for {now - stall.since_s:.0f} s; whether it hangs, or waits for "
                    f"requests, is not known: {agent.unable}"
                )
            self._stalls[agent.pid] = _Stall(now, stall.key, stall.cpu_s, stall.switches)
        elif now - stall.since_s >= self._after_s / 2:
            self.hang = _made(standing, agent.pid, stall.since_s, now, reading, gpus)
            self._hung, self.ended_s = agent.pid, None
            return self.hang
        return None

    def _look_at_hung(self, now: float, counted: Sequence[Agent], trained: set[int]) -> None:
        """A hang is over once its process has ended, or once another process is known to make the steps."""
        pid = self._hung
        if pid is None:
            return
        if main_progress(self._host, pid) is None:
            self._end_hang(pid, f"process {pid}, which stood still, has ended")
            self.ended_s = now
        elif pid not in trained and any(agent.pid in trained for agent in counted):
            self._end_hang(pid, f"process {pid} stands still, and another one makes the steps")

    def _end_hang(self, pid: int, why: str) -> None:
        """End the hang if it is that of this process."""
        if self._hung == pid:
            self.hang, self._hung = None, None
            self._note(why)

    def _limit_s(self, now: float, stall: _Stall, agent: Agent) -> float:
        idle = stall.idle(now)
        if agent.over is not None and idle:
            return _AT_END * self._after_s
        after_s = self._after_s if idle else _BUSY * self._after_s
        return max(after_s, min(_LONGEST_S, _STALLS * self._longest_s))

    def _follow(self, now: float, agent: Agent, passed_s: float, reading: Reading | None) -> _Stall | None:
        """Compare with the look before; None once the process has ended."""
        progress = main_progress(self._host, agent.pid)
        if progress is None:
            self._stalls.pop(agent.pid, None)
            return None
        key = agent.look.key if agent.look else ""
        stall = self._stalls.get(agent.pid)
        if stall is None:
            stall = self._stalls[agent.pid] = _Stall(now, key, *progress)
        moved = progress[0] - stall.cpu_s > _CPU_S or progress[1] - stall.switches > _SWITCHES
        answered = agent.asked_s is None
        if moved or (answered and key != stall.key):
            self._longest_s = max(self._longest_s, now - stall.since_s)
            self._end_hang(agent.pid, f"the program goes on after {now - stall.since_s:.0f} s")
            stall = self._stalls[agent.pid] = _Stall(now, key)
        stall.cpu_s, stall.switches = progress
        polled_s = self._polled(now, agent.pid, stall)
        stall.used_cpu_s += max(0.0, passed_s * _wanted(reading) - polled_s)
        self._tell_of_end(now, stall, agent)
        if self._examining is None:
            agent.ask(others=False)
        return stall

    def _tell_of_end(self, now: float, stall: _Stall, agent: Agent) -> None:
        if agent.over is None or agent.pid in self._ending or now - stall.since_s < _ENDS_S or not stall.idle(now):
            return
        self._ending.add(agent.pid)
        self._note(
            "the program is over, and its process does not end yet: TensorFlow may wait for up to a minute there, for the "
            "thread that tunes the pipeline (options.autotune.enabled = False leaves it out)"
        )

    def _polled(self, now: float, pid: int, stall: _Stall) -> float:
        """The CPU time since the last look that threads wanted which poll a GPU: they do so while it hangs, too."""
        found_s, pollers = self._pollers.get(pid, (0.0, []))
        if pid not in self._pollers or now - found_s >= _POLLERS_EVERY_S:
            before, pollers = pollers, polling_threads(self._host.files, pid)
            self._pollers[pid] = now, pollers
            stall.polled_s = stall.polled_s if pollers == before else None
        before_s, stall.polled_s = stall.polled_s, wanted_cpu_s(self._host.files, pid, pollers)
        return 0.0 if before_s is None else max(0.0, stall.polled_s - before_s)


def _wanted(reading: Reading | None) -> float:
    """The CPUs that the program uses or waits for: it is not idle because others take them."""
    return reading.cpu + (reading.queued or 0.0) if reading else 0.0


def _that_count(agents: Sequence[Agent], trained: set[int], started: int) -> list[Agent]:
    """The processes that train; a worker of a pool may wait for ever, and a parent for one that does not train yet."""
    found = [each for each in agents if each.pid in trained]
    return found or [each for each in agents if len(agents) == 1 or (each.pid == started and not trained)]


def _needs_recording(now: float, stall: _Stall, agent: Agent) -> bool:
    """Whether the main thread tells nothing, as it stood also while steps were made, and a recording may tell more.

    One that TensorFlow does not begin or write, or a program whose Python does not answer, is an answer too.
    """
    if stall.empty >= _EMPTY or agent.over is not None:
        return False
    owes_recording = agent.recording in ("asked", "ending") and now - agent.changed_s > RECORDING_S
    owes_look = agent.asked_s is not None and now - agent.asked_s > RECORDING_S
    return not owes_recording and not owes_look and now - stall.since_s < _LONGEST_S


def _made(
    standing: Diagnosis, pid: int, since_s: float, now: float, reading: Reading | None, gpus: Sequence[GpuReading]
) -> Hang:
    row = read_knowledge().watch_words[standing.kind]
    words = {"pid": str(pid), "place": "the program", "what": "it", **standing.words}
    held = [gpu.own_bytes for gpu in gpus if gpu.own_bytes is not None]
    return Hang(
        kind=standing.kind, title=row.title, at_s=since_s, seconds=round(now - since_s, 1),
        evidence=(f"no progress for {now - since_s:.0f} s", *standing.evidence),
        fix=row.fix.format(**words),
        holds_gpu_bytes=sum(held) if held else None,
        holds_memory_bytes=reading.memory_bytes if reading else None,
    )  # fmt: skip
