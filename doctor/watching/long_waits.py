"""Waits of seconds inside of a step that come seldom, and that a recording of a second mostly misses: a source that stalls.

Looks at the main thread do not tell them: Python stands where it stands in each step. What tells is that the thread for a
second or more neither runs, nor waits for a CPU, nor is woken, though the steps that were recorded are short. A program that
starts many steps on a GPU and then waits for all of them stands as well: there the GPU has to stand, too. And where one call
from Python runs many steps, its thread stands in any case: there the whole program has to use no CPU.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Sequence

import msgspec

from tfgpu_doctor.host import Host
from tfgpu_doctor.tracing import Found, besides_steps
from tfgpu_doctor.watching.agent import Look
from tfgpu_doctor.watching.captures import Capture
from tfgpu_doctor.watching.held_gpus import held
from tfgpu_doctor.watching.reading import GpuReading
from tfgpu_doctor.watching.thread_states import HERTZ, main_progress, read_stat, read_state, wanted_cpu_s

LABEL = "stalls"
_KEPT = 3000  # looks, five a second
_SHORT_MS, _UNEVEN = 300.0, 1.5  # of the steps that were recorded: the mean, and the mean by the median
_LONG_S, _STEPS = 1.0, 5.0  # a wait is longer than a second, and than so many steps
_SWITCHES, _RUNS = 1, 0.05  # between two looks, at most: context switches, and the share of the time
_TICK_S = 1 / HERTZ  # the CPU time of a program is counted in such
_TELL = ("calls", "graph")  # how the steps were found: in both ways their times are those of the training
_SLEEPS = ("S", "D")  # not R: the kernel counts a wait for a CPU only once it is over; nor T, stopped
_HELD_UP_S, _OLD_S = 1.0, 1.0  # the doctor itself was held up; what the thread does was seen too long ago
_LEAST_S, _SURE_S = 20.0, 60.0  # of looks
_WAITS = 3  # one alone may be the first of a kind, or the last
_GPU_WORKS = 0.5  # of a wait, at most: NVML tells of the last second, or the one before
_MORE, _STILL = 0.1, 0.05  # of the time; the second once it was told


class _Counts(msgspec.Struct, frozen=True, gc=False):
    at_s: float
    switches: int
    wanted_s: float  # the CPU time of the main thread, with its waits for a CPU
    program_s: float  # the CPU time of the program


class _Moment(msgspec.Struct, frozen=True, gc=False):
    seconds: float
    stands: bool
    cpus: float | None  # that the whole program used
    gpu: float | None  # the share of the time in which its busiest GPU worked


class LongWaits:
    """Takes looks at the main thread of a process that trains, several a second."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._pid = 0
        self._before: _Counts | None = None
        self._moments: deque[_Moment] = deque(maxlen=_KEPT)
        self._step_ms = 0.0  # of the last recording; 0: its steps do not tell
        self._many = False  # steps in one call from Python, which takes long
        self._least_s = _LONG_S  # of a wait
        self._name = ""
        self._on_gpu = False
        self._cpus: float | None = None
        self._gpu: float | None = None
        self._told = False

    @property
    def told_s(self) -> float:
        """The time that was looked at, if something is told now; 0 if nothing is."""
        return sum(each.seconds for each in self._moments) if self._told else 0.0

    def recorded(self, capture: Capture) -> None:
        """Take a recording of the process whose looks follow."""
        steps = capture.report.steps
        if capture.pid != self._pid:
            self._pid, self._told = capture.pid, False
            self._moments.clear()
        alike = steps.found_by in _TELL and steps.mean_ms <= min(_SHORT_MS, _UNEVEN * steps.median_ms)
        call_ms = steps.mean_ms * steps.per_call
        self._many = call_ms > _SHORT_MS or steps.found_by == "graph"
        self._least_s = max(_LONG_S, _STEPS * (steps.mean_ms if self._many else call_ms) / 1e3)
        self._step_ms, self._name = (steps.mean_ms if alike else 0.0), steps.name
        self._on_gpu = capture.report.gpu is not None
        self._before = None

    def program_uses(self, cpus: float | None, gpus: Sequence[GpuReading] = ()) -> None:
        """Take how many CPUs the whole program used in the last second, and what NVML says of its GPUs."""
        known = [gpu.utilization for gpu in held(gpus) if gpu.utilization is not None]
        self._cpus, self._gpu = cpus, max(known, default=None)

    def look(self, now: float, look: Look | None, *, recording: bool) -> None:
        """Compare the main thread with the look before; `look` says where it stands, `recording` that it is being recorded."""
        known = look is not None and bool(look.stack) and now - look.at_s <= _OLD_S
        progress = main_progress(self._host, self._pid) if known and not recording else None
        if look is None or progress is None or not progress[1]:  # without a switch: the kernel does not count them
            self._before = None
            return
        before, self._before = self._before, self._counts(now, *progress)
        passed_s = now - before.at_s if before else 0.0
        if before is None or passed_s > _HELD_UP_S:
            return
        sleeps = read_state(self._host.files, f"/proc/{self._pid}/task/{self._pid}") in _SLEEPS
        stands = self._quiet(before, self._before, passed_s) and sleeps and besides_steps(look.stack) is None
        self._moments.append(_Moment(passed_s, stands, self._cpus, self._gpu))

    def _counts(self, now: float, ran_s: float, switches: int) -> _Counts:
        files = self._host.files
        program = read_stat(files, f"/proc/{self._pid}")
        wanted_s = max(ran_s, wanted_cpu_s(files, self._pid, [self._pid]))
        return _Counts(now, switches, wanted_s, program.own_ticks / HERTZ if program else 0.0)

    def _quiet(self, before: _Counts, now: _Counts, passed_s: float) -> bool:
        """Whether the main thread stood between two looks; where it does so in each call, whether the whole program did."""
        if self._many:
            return now.program_s - before.program_s <= _RUNS * passed_s + _TICK_S
        return now.switches - before.switches <= _SWITCHES and now.wanted_s - before.wanted_s <= _RUNS * passed_s

    def found(self) -> Found | None:
        """The waits, if they are a habit; without the longest, which may be the only one of its kind, and its part of time."""
        groups = (
            list(group) for stands, group in itertools.groupby(self._moments, key=lambda each: each.stands) if stands
        )
        waits = sorted(
            (each for each in groups if _seconds(each) >= self._least_s and self._gpu_stands(each)), key=_seconds
        )
        kept = waits[:-1]
        looked_s = _seconds(self._moments)
        share = sum(map(_seconds, kept)) / max(looked_s * len(kept) / max(1, len(waits)), 1e-9)
        habit = bool(self._step_ms) and len(waits) >= _WAITS and looked_s >= _LEAST_S
        self._told = habit and share >= (_STILL if self._told else _MORE)
        if not self._told:
            return None
        cpus = [moment.cpus for each in kept for moment in each if moment.cpus is not None]
        meanwhile = f"; the program used {sum(cpus) / len(cpus):.1f} CPUs meanwhile" if cpus else ""
        stood = f"the main thread stood inside of {self._name or 'a step'}, and used no CPU{meanwhile}"
        if self._many:
            stood = "the whole program stood inside of a call that runs many steps, and used no CPU"
        return Found(LABEL, "high" if looked_s >= _SURE_S else "medium", share, [
            f"in {len(kept)} waits of {_seconds(kept[0]):.1f} to {_seconds(kept[-1]):.1f} s {stood}; "
            f"one more, of {_seconds(waits[-1]):.1f} s, is left out",
            f"the last recording holds none of them: its steps take {self._step_ms:.4g} ms",
        ])  # fmt: skip

    def _gpu_stands(self, wait: Sequence[_Moment]) -> bool:
        known = [moment.gpu for moment in wait if moment.gpu is not None]
        return not self._on_gpu or (bool(known) and sum(known) / len(known) <= _GPU_WORKS)


def _seconds(moments: Iterable[_Moment]) -> float:
    return sum(each.seconds for each in moments)
