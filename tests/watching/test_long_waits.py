"""Waits inside of steps that no recording holds: told from the counters of the main thread."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
import pytest
from made_watch import recording

from tfgpu_doctor.host import Host
from tfgpu_doctor.tracing import Found
from tfgpu_doctor.tracing.gpu_work import GpuWork
from tfgpu_doctor.watching import long_waits
from tfgpu_doctor.watching.agent import Look, Stack
from tfgpu_doctor.watching.captures import Capture
from tfgpu_doctor.watching.long_waits import LongWaits
from tfgpu_doctor.watching.reading import GpuReading
from tfgpu_doctor.watching.seldom_work import joined

SITE = "/env/lib/python3.13/site-packages"
MAIN = ("/home/me/train.py", 90, "<module>")
STEP: Stack = ((f"{SITE}/tensorflow/python/eager/execute.py", 53, "quick_execute"), MAIN)
SAVES: Stack = ((f"{SITE}/h5py/_hl/dataset.py", 1, "write_direct"), ("/home/me/train.py", 31, "keep"), MAIN)
PID = 7
A_SECOND = 5  # looks
GPU = GpuWork(
    device="/device:GPU:0", gpus=1, compute_ms=6.0, collectives_ms=0.0, copies_ms=0.0, kernels=90.0, median_kernel_us=9.0,
    in_16_bit=None, compute_capability="9.0",
)  # fmt: skip
# What the main thread does ("steps", "stands", "computes", "queues"; "waits": it stands, and others compute), and for how long.
Seconds = list[tuple[str, float]]


def capture(
    mean_ms: float = 10.0,
    median_ms: float | None = None,
    found_by: str = "calls",
    pid: int = PID,
    per_call: float = 1.0,
) -> Capture:
    report = recording(healthy=True)
    steps = msgspec.structs.replace(
        report.steps, mean_ms=mean_ms, median_ms=median_ms or mean_ms, found_by=found_by, name="train_step",
        per_call=per_call,
    )  # fmt: skip
    return Capture(1.0, pid, msgspec.structs.replace(report, steps=steps))


class Program(NamedTuple):
    """Of its `stat` what counts."""

    own_ticks: int


class Thread:
    """The counters of a main thread that does this and that."""

    counts = True  # whether the kernel counts switches
    state = "S"

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.switches, self.wanted_s, self.now, self.program_s = 9, 0.0, 100.0, 0.0
        monkeypatch.setattr(long_waits, "main_progress", lambda _host, _pid: (0.0, self.switches * self.counts))
        monkeypatch.setattr(long_waits, "wanted_cpu_s", lambda _files, _pid, _tids: self.wanted_s)
        monkeypatch.setattr(long_waits, "read_stat", lambda _files, _place: Program(round(100 * self.program_s)))
        monkeypatch.setattr(long_waits, "read_state", lambda _files, _place: self.state)

    def goes_on(self, does: str) -> None:
        passed_s = 1 / A_SECOND
        self.now += passed_s
        self.switches += {"steps": 40, "stands": 0, "computes": 0, "queues": 1, "waits": 0}[does]
        self.wanted_s += {"steps": 0.3, "stands": 0.0, "computes": 1.0, "queues": 0.9, "waits": 0.0}[does] * passed_s
        self.program_s += {"steps": 1.7, "stands": 0.02, "computes": 1.9, "queues": 0.5, "waits": 1.8}[does] * passed_s

    def watched(
        self, times: Seconds, recorded: Capture | None = None, stack: Stack = STEP, held: str = "",
        gpus: Sequence[GpuReading] = (),
    ) -> Found | None:  # fmt: skip
        waits = LongWaits(Host())
        waits.recorded(recorded or capture())
        waits.program_uses(0.25, gpus)
        for does, seconds in times:
            for _ in range(round(seconds * A_SECOND)):
                self.goes_on(does)
                old = 9.0 if held == "unanswered" else 0.0
                waits.look(self.now, Look(self.now - old, stack, "1"), recording=held == "recorded")
        return waits.found()


@pytest.fixture
def thread(monkeypatch: pytest.MonkeyPatch) -> Thread:
    return Thread(monkeypatch)


HABIT: Seconds = [("steps", 10.0), ("stands", 3.0)] * 5


def test_waits_that_come_again_are_told_with_their_share(thread: Thread) -> None:
    found = thread.watched(HABIT)
    assert found
    assert (found.label, found.confidence) == ("stalls", "high")
    assert found.share == pytest.approx(3 / 13, abs=0.01)  # of five waits four count, and four fifths of the time
    assert "in 4 waits of 3.0 to 3.0 s" in found.evidence[0]
    assert "inside of train_step" in found.evidence[0]
    assert "used 0.2 CPUs meanwhile" in found.evidence[0]
    assert "steps take 10 ms" in found.evidence[1]


@pytest.mark.parametrize(
    "times",
    [
        [("steps", 10.0), ("stands", 3.0)] * 2,  # two may be the first ones
        [("steps", 20.0), ("stands", 30.0), ("steps", 20.0)],  # once
        [("steps", 1.0), ("stands", 0.8)] * 40,  # short ones: steps of different lengths
        [("steps", 40.0), ("stands", 2.0)] * 5,  # little
        [("steps", 10.0), ("computes", 3.0)] * 5,
        [("steps", 10.0), ("queues", 3.0)] * 5,  # it waits for a CPU
        [("steps", 3.0), ("stands", 1.2)] * 3,  # not looked at for long
        [("steps", 60.0)],
    ],
)
def test_what_is_no_habit_is_not_told(thread: Thread, times: Seconds) -> None:
    assert thread.watched(times) is None


@pytest.mark.parametrize(
    "recorded",
    [
        capture(900.0),  # long steps
        capture(3000.0, found_by="calls"),
        capture(10.0, found_by="batches"),  # many steps in one call from Python
        capture(30.0, median_ms=10.0),  # the recording holds such a wait
    ],
)
def test_recordings_that_explain_it_decide(thread: Thread, recorded: Capture) -> None:
    assert thread.watched(HABIT, recorded) is None


LONG_CALLS = [capture(10.0, found_by="graph"), capture(10.0, per_call=200.0)]


@pytest.mark.parametrize("recorded", LONG_CALLS)
def test_where_a_call_runs_many_steps_the_whole_program_has_to_stand(thread: Thread, recorded: Capture) -> None:
    """Its main thread waits for the call in any case."""
    assert thread.watched([("waits", 4.0), ("steps", 0.2)] * 15, recorded) is None
    found = thread.watched([("waits", 6.0), ("stands", 2.0), ("waits", 2.0)] * 6, recorded)
    assert found
    assert found.share == pytest.approx(0.2, abs=0.02)
    assert (
        "in 5 waits of 2.0 to 2.0 s the whole program stood inside of a call that runs many steps" in found.evidence[0]
    )


def test_a_short_call_of_some_steps_is_as_one_step(thread: Thread) -> None:
    """The pipeline may work meanwhile; and five calls are no wait."""
    recorded = capture(50.0, per_call=5.0)
    assert thread.watched([("steps", 10.0), ("waits", 3.0)] * 5, recorded)
    assert thread.watched([("steps", 4.0), ("waits", 1.2)] * 9, recorded) is None


@pytest.mark.parametrize("recorded", LONG_CALLS)
def test_a_long_call_on_a_gpu_that_works_is_no_wait(thread: Thread, recorded: Capture) -> None:
    on_gpu = Capture(1.0, PID, msgspec.structs.replace(recorded.report, gpu=GPU))
    for utilization, told in ((0.05, True), (0.97, False), (None, False)):
        gpu = GpuReading(at_s=1.0, index=0, utilization=utilization, own_bytes=1 << 30)
        assert bool(thread.watched(HABIT, on_gpu, gpus=[gpu])) == told


def test_a_wait_is_longer_than_five_steps(thread: Thread) -> None:
    times: Seconds = [("steps", 5.0), ("stands", 1.2)] * 12
    assert thread.watched(times, capture(290.0)) is None
    assert thread.watched(times, capture(200.0))


def test_what_the_places_in_the_program_tell_is_not_told_twice(thread: Thread) -> None:
    assert thread.watched(HABIT, stack=SAVES) is None


@pytest.mark.parametrize("held", ["unanswered", "recorded"])
def test_only_looks_that_can_be_judged_count(thread: Thread, held: str) -> None:
    assert thread.watched(HABIT, held=held) is None


@pytest.mark.parametrize(
    ("utilization", "told"),
    [(0.05, True), (0.97, False), (None, False)],  # many steps were started, and are waited for; or nobody knows
)
def test_beside_a_gpu_that_works_on_nothing_is_told(thread: Thread, utilization: float | None, *, told: bool) -> None:
    on_gpu = msgspec.structs.replace(capture().report, gpu=GPU)
    gpu = GpuReading(at_s=1.0, index=0, utilization=utilization, own_bytes=1 << 30)
    found = thread.watched(HABIT, Capture(1.0, PID, on_gpu), gpus=[gpu])
    assert bool(found) == told


@pytest.mark.parametrize("state", ["R", "T", ""])
def test_what_waits_for_a_cpu_or_is_stopped_does_not_stand(thread: Thread, state: str) -> None:
    """The kernel counts a wait for a CPU only once it is over."""
    thread.state = state
    assert thread.watched(HABIT) is None


def test_a_kernel_that_counts_no_switches_tells_nothing(thread: Thread) -> None:
    thread.counts = False
    assert thread.watched(HABIT) is None


def test_another_process_begins_anew(thread: Thread) -> None:
    waits = LongWaits(Host())
    waits.recorded(capture())
    for does, seconds in HABIT:
        for _ in range(round(seconds * A_SECOND)):
            thread.goes_on(does)
            waits.look(thread.now, Look(thread.now, STEP, "1"), recording=False)
    assert waits.found()
    assert waits.told_s == pytest.approx(65, abs=1)
    waits.recorded(capture(pid=8))
    assert waits.found() is None
    assert waits.told_s == 0


def test_a_doctor_that_was_held_up_counts_nothing_of_that_time(thread: Thread) -> None:
    waits = LongWaits(Host())
    waits.recorded(capture())
    for number in range(60):
        thread.goes_on("steps")
        thread.now += 3.0 if number % 10 == 0 else 0.0
        waits.look(thread.now, Look(thread.now, STEP, "1"), recording=False)
    assert waits.found() is None
    assert sum(each.seconds for each in waits._moments) < 60 / A_SECOND


def test_the_share_joins_what_was_recorded(thread: Thread) -> None:
    found = thread.watched([("steps", 8.0), ("stands", 4.0)] * 5)
    assert found
    report = joined(recording(healthy=True), found, "idle")
    assert report.verdict == "stalls"
    assert report.healthy is False
    assert report.shares.idle >= found.share - 1e-3
    assert "--record-with" in report.causes[0].fix.code


@pytest.mark.parametrize(("told", "verdict"), [(False, "compute_bound"), (True, "stalls")])
def test_a_verdict_near_its_limit_does_not_come_and_go(thread: Thread, verdict: str, *, told: bool) -> None:
    found = thread.watched([("steps", 14.0), ("stands", 3.0)] * 5)
    assert found
    assert 0.15 < found.share < 0.2
    report = joined(recording(healthy=True), found, "idle", told=told)
    assert report.verdict == verdict
    assert [cause.label for cause in report.causes] == ["stalls"]


PROGRAM = """
import select, sys, time
while True:
    while not select.select([sys.stdin], [], [], 0)[0]:
        time.sleep(0.005)
    sys.stdin.readline()
    print("stands", flush=True)
    sys.stdin.readline()
    print("steps", flush=True)
"""


@pytest.fixture
def program() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def look_until(waits: LongWaits, *, stands: bool) -> None:
    """Look until that is what is seen; the machine may be slow."""
    ends = time.monotonic() + 60
    while not waits._moments or waits._moments[-1].stands != stands:
        assert time.monotonic() < ends
        waits.look(time.monotonic(), Look(time.monotonic(), STEP, "1"), recording=False)
        time.sleep(0.1)


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="the kernel does not count the time of threads")
def test_a_real_thread_that_reads_from_a_pipe_stands(program: subprocess.Popen[str]) -> None:
    assert program.stdin
    assert program.stdout
    waits = LongWaits(Host())
    waits.recorded(capture(pid=program.pid))
    look_until(waits, stands=False)
    for _ in range(3):
        for does in ("stands", "steps"):
            program.stdin.write("go on\n")
            program.stdin.flush()
            assert program.stdout.readline() == f"{does}\n"
            look_until(waits, stands=does == "stands")
    assert sum(stands for stands, _ in itertools.groupby(waits._moments, key=lambda each: each.stands)) >= 3
