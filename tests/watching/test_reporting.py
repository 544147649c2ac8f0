"""The one verdict of a run, from its timeline; and a watcher beside a real process."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import time

import pytest

from tfgpu_doctor.host import Host
from tfgpu_doctor.watching.captures import Captures
from tfgpu_doctor.watching.gpu_signals import GpuSignals
from tfgpu_doctor.watching.history import WatchOptions
from tfgpu_doctor.watching.live_verdict import LiveVerdict
from tfgpu_doctor.watching.reading import GpuReading, Reading
from tfgpu_doctor.watching.reporter import Reporter
from tfgpu_doctor.watching.reporting import main_verdict, make_watch_report
from tfgpu_doctor.watching.result import TimelineEntry
from tfgpu_doctor.watching.watcher import Watcher

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="there is no /proc")


def turns(*rows: tuple[float, str]) -> list[TimelineEntry]:
    return [TimelineEntry(at_s=at_s, verdict=verdict, title="") for at_s, verdict in rows]


@pytest.mark.parametrize(
    ("rows", "seconds", "verdict"),
    [
        ([(0, "starting"), (60, "watching"), (70, "input_python")], 75, "input_python"),
        ([(0, "compute_bound"), (50, "input_python")], 60, "compute_bound"),
        ([(0, "compute_bound"), (10, "cpu_contention"), (90, "compute_bound")], 100, "cpu_contention"),
        ([(0, "starting"), (5, "watching")], 60, "watching"),
        ([(0, "starting")], 60, "starting"),
        ([(0, "compute_bound"), (20, "hang")], 900, "compute_bound"),  # it went on: else the hang is the verdict
        ([(0, "starting"), (5, "hang")], 60, "watching"),
        ([(0, "watching"), (30, "cpu_contention"), (36, "watching")], 60, "watching"),  # a moment of it explains no run
        ([(0, "watching"), (54, "cpu_contention")], 60, "watching"),
        ([(0, "watching"), (30, "cpu_contention"), (45, "watching")], 60, "cpu_contention"),
        ([(0, "watching"), (59, "gpu_lost")], 60, "gpu_lost"),
        ([], 0, "watching"),
    ],
)
def test_the_verdict_that_held_longest_counts(rows: list[tuple[float, str]], seconds: float, verdict: str) -> None:
    assert main_verdict(turns(*rows), seconds) == verdict


def test_a_program_without_tensorflow(tmp_path: pathlib.Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as program:
        told = Reporter(live=False)
        watcher = Watcher(Host(), program.pid, WatchOptions("sleep"), folder=str(tmp_path), agents=list, told=told)
        watcher.tick()
        time.sleep(1.1)
        watcher.tick()
        program.kill()
        program.wait()
        watcher.tick()  # nobody is there to be looked at
        watcher.end()
    report = make_watch_report(watcher, exit_code=-9)
    assert (report.verdict, report.healthy, report.exit_code) == ("no_tensorflow", None, -9)
    assert "no process of the program has imported TensorFlow" in report.why
    assert report.host is not None
    assert report.host.peak_memory_bytes > 1 << 20
    assert report.timeline[0].verdict == "starting"


@pytest.mark.parametrize("too_long", [True, False])
def test_more_time_is_not_advised_where_no_recording_can_hold_a_step(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, too_long: bool
) -> None:
    watcher = Watcher(
        Host(), os.getpid(), WatchOptions("x"), folder=str(tmp_path), agents=list, told=Reporter(live=False)
    )
    watcher.captures.count = 9
    monkeypatch.setattr(Captures, "too_long", too_long)
    why = make_watch_report(watcher, exit_code=0).why
    watcher.end()
    assert ("let the program run for longer" in why) is not too_long
    assert ("no recording, of up to 20 s, holds a whole step" in why) is too_long


def test_no_thread_for_the_gpus_ends_no_watch(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(GpuSignals, "start", start)
    watcher = Watcher(
        Host(), os.getpid(), WatchOptions("x"), folder=str(tmp_path), agents=list, told=Reporter(live=False)
    )
    watcher.tick()
    watcher.end()
    report = make_watch_report(watcher, exit_code=0)
    assert "nothing is known of GPUs: can't start new thread" in report.notes
    assert (report.healthy, report.gpus) == (None, ())


def test_a_gpu_of_others_that_is_lost_is_no_cause(tmp_path: pathlib.Path) -> None:
    watcher = Watcher(
        Host(), os.getpid(), WatchOptions("x"), folder=str(tmp_path), agents=list, told=Reporter(live=False)
    )
    try:
        for index, own in ((0, 1 << 30), (1, 0)):
            watcher.history.gpus[index] = [GpuReading(at_s=1.0, index=index, used_bytes=2 << 30, own_bytes=own)]
        watcher._find_lost([GpuReading(at_s=2.0, index=1)])
        assert watcher.machine.found() == ()
        watcher._find_lost([GpuReading(at_s=2.0, index=0)])
        assert [each.label for each in watcher.machine.found()] == ["gpu_lost"]
    finally:
        watcher.end()


def test_a_cause_of_the_machine_that_is_over_is_told() -> None:
    began: list[str] = []
    ended: list[str] = []
    verdict = LiveVerdict(lambda cause: began.append(cause.label), ended.append)
    for second in range(40):
        taken = 1.5 if second < 15 else 0.0
        reading = Reading(at_s=float(second), cpu=0.5, cpus=2.0, queued=taken, others_cpu=taken)
        verdict.look(float(second), reading, [], None)
        if second == 14:
            assert (began, ended) == (["cpu_contention"], [])
    assert (began, ended) == (["cpu_contention"], ["cpu_contention"])
