"""The one verdict of a run, from its timeline; and a watcher beside a real process."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import time

import pytest

from tfgpu_doctor.host import Host
from tfgpu_doctor.watching.agent import Look
from tfgpu_doctor.watching.hanging import HangWatch
from tfgpu_doctor.watching.history import WatchOptions
from tfgpu_doctor.watching.live_verdict import LiveVerdict
from tfgpu_doctor.watching.program_signals import ProgramSignals
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


class StandingAgent:
    """A process of the test's own that answers looks, always with the same stack."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.look: Look | None = None
        self.asked_s: float | None = None
        self.recording, self.problem, self.full, self.seconds = "", "", False, 0.0
        self.changed_s = 0.0
        self.over: str | None = None
        self.lost = False

    def ask(self, *, others: bool) -> None:
        stack = (("/home/me/train.py", 31, "wait_for_data"), ("/home/me/train.py", 90, "<module>"))
        self.look = Look(time.monotonic(), stack, "k", () if others else None)

    def start(self, folder: str, most_bytes: int) -> None:
        pass

    def stop(self) -> None:
        pass


def hang_of(watch: HangWatch, agent: StandingAgent, seconds: int, trained: set[int], begin: float = 0.0) -> list[float]:
    """When a hang was found, with one look a second."""
    found = []
    for second in range(seconds):
        if watch.tick(begin + second, [agent], trained, agent.pid, None, []):
            found.append(begin + second)
        while watch._examining and watch._examining._thread.is_alive():
            time.sleep(0.01)
    return found


def said_of(watch: HangWatch) -> list[str]:
    """The kind and the evidence of the hang that stands."""
    return [watch.hang.kind, *watch.hang.evidence] if watch.hang else []


def test_a_process_that_stands_still_is_found_once_and_only_when_it_is_time() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as program:
        time.sleep(1.0)
        notes: list[str] = []
        watch = HangWatch(Host(), after_s=60.0, native=False, note=notes.append)
        agent = StandingAgent(program.pid)
        (found,) = hang_of(watch, agent, 200, {program.pid})
        assert 60 <= found < 75
        assert said_of(watch)[0] == "python"
        assert "wait_for_data (train.py:31)" in said_of(watch)[2]
        agent.ask = lambda *, others: setattr(agent, "look", Look(0.0, (), "another", None))  # type: ignore[method-assign]
        hang_of(watch, agent, 2, {program.pid}, begin=200.0)
        assert said_of(watch) == []
        assert notes == ["the program goes on after 200 s"] or "goes on after" in notes[0]
        # It paused for long before: it gets three times as long now.
        agent.ask = lambda *, others: None  # type: ignore[method-assign]
        assert hang_of(watch, agent, 500, {program.pid}, begin=203.0) == []
        program.kill()


def test_a_program_that_is_over_may_wait_for_the_thread_that_tunes_its_pipeline() -> None:
    """TensorFlow does so for up to 60 s; it is told of, and only what takes longer hangs."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as program:
        time.sleep(1.0)
        notes: list[str] = []
        watch = HangWatch(Host(), after_s=60.0, native=False, note=notes.append)
        agent = StandingAgent(program.pid)
        agent.over = ""
        assert hang_of(watch, agent, 70, {program.pid}) == []
        (note,) = notes
        assert "for up to a minute" in note
        (found,) = hang_of(watch, agent, 30, {program.pid}, begin=70.0)
        assert 75 <= found < 90
        assert said_of(watch)[0] == "exit"
        assert len(notes) == 1
        program.kill()


def test_the_time_in_which_the_doctor_itself_was_stopped_does_not_count() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as program:
        watch, agent = HangWatch(Host(), after_s=60.0, native=False), StandingAgent(program.pid)
        assert hang_of(watch, agent, 30, {program.pid}) == []
        assert hang_of(watch, agent, 50, {program.pid}, begin=900.0) == []
        program.kill()


def test_a_worker_that_never_trained_may_wait() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as program:
        watch, agent, other = (
            HangWatch(Host(), after_s=60.0, native=False),
            StandingAgent(program.pid),
            StandingAgent(os.getpid()),
        )
        looks = iter(range(1000))
        other.ask = lambda *, others: setattr(other, "look", Look(0.0, (), str(next(looks)), None))  # type: ignore[method-assign]
        assert [watch.tick(float(second), [agent, other], {other.pid}, 1, None, []) for second in range(100)] == [
            None
        ] * 100
        assert watch.tick(100.0, [agent], {agent.pid}, 1, None, []) is None  # it counts from now on
        program.kill()


POLLS = """
import ctypes, sys, threading
def poll():
    ctypes.CDLL(None).prctl(15, sys.argv[1].encode(), 0, 0, 0)
    while True:
        pass
threading.Thread(target=poll, daemon=True).start()
print(flush=True)
threading.Event().wait()
"""


@pytest.mark.timed
@pytest.mark.parametrize(
    ("name", "shortest_s", "longest_s"),
    [("tf_Device_Event", 2.0, 9.0), pytest.param("python", 9.5, 40.0, marks=pytest.mark.slow)],
)
def test_a_thread_of_tensorflow_that_polls_a_gpu_is_no_progress(name: str, shortest_s: float, longest_s: float) -> None:
    """GPU event managers poll all the time: they use a CPU also while the GPU hangs."""
    with subprocess.Popen([sys.executable, "-c", POLLS, name], stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        program.stdout.readline()
        signals, watch = ProgramSignals(Host(), program.pid), HangWatch(Host(), after_s=2.0, native=False)
        agent, passed_s = StandingAgent(program.pid), 0.0  # by the looks: a slow machine makes fewer
        while passed_s < 45 and watch.hang is None:
            watch.tick(passed_s, [agent], {program.pid}, program.pid, signals.look(), [])
            time.sleep(0.5)
            passed_s += 0.5
        program.kill()
    assert watch.hang is not None
    assert shortest_s <= passed_s < longest_s


def test_a_process_of_a_job_that_hangs_in_tensorflow_waits_for_its_partners() -> None:
    """The variables are those of the process, also where only its launcher knows of partners."""
    variables = {**os.environ, "OMPI_COMM_WORLD_SIZE": "4"}
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env=variables) as program:
        time.sleep(1.0)
        watch, agent = HangWatch(Host(), after_s=60.0, native=False), StandingAgent(program.pid)
        inside = (("/env/lib/site-packages/tensorflow/python/eager/execute.py", 53, "quick_execute"),)
        agent.ask = lambda *, others: setattr(  # type: ignore[method-assign]
            agent, "look", Look(time.monotonic(), (*inside, ("/t.py", 9, "<module>")), "k", () if others else None)
        )
        hang_of(watch, agent, 100, {program.pid})
        program.kill()
    assert said_of(watch)[0] == "collective"
    assert "OMPI_COMM_WORLD_SIZE says 4" in " ".join(said_of(watch))


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
