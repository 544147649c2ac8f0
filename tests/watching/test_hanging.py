"""Which processes are said to hang, since when, and when that is over."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from standing_agent import StandingAgent, hang_of, said_of

from tfgpu_doctor.host import Host
from tfgpu_doctor.host.talk import Talk
from tfgpu_doctor.tracing import StepTimes
from tfgpu_doctor.watching import hanging
from tfgpu_doctor.watching.agent import Look, SocketAgent
from tfgpu_doctor.watching.hanging import HangWatch
from tfgpu_doctor.watching.program_signals import ProgramSignals
from tfgpu_doctor.watching.reading import Reading
from tfgpu_doctor.watching.thread_states import thread_states

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="there is no /proc")

STEPS, NO_STEP = (StepTimes(count=count, median_ms=20.0, mean_ms=20.0, found_by="markers") for count in (9, 0))


ASLEEP = "import time; print(flush=True); time.sleep(600)"  # the line says that Python is up


@contextlib.contextmanager
def running(code: str, *arguments: str, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """A Python with that code, once it has printed its first line."""
    argv, environment = [sys.executable, "-c", code, *arguments], {**os.environ, **variables}
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == b"\n"
            yield program
        finally:
            program.kill()


@pytest.fixture
def sleeping() -> Iterator[subprocess.Popen[bytes]]:
    with running(ASLEEP) as program:
        yield program


def test_a_process_that_stands_still_is_found_once_and_only_when_it_is_time(sleeping: subprocess.Popen[bytes]) -> None:
    notes: list[str] = []
    watch = HangWatch(Host(), after_s=60.0, native=False, note=notes.append)
    agent = StandingAgent(sleeping.pid)
    (found,) = hang_of(watch, agent, 200, {sleeping.pid})
    assert 60 <= found < 75
    assert said_of(watch)[0] == "python"
    assert "wait_for_data (train.py:31)" in said_of(watch)[2]
    agent.ask = lambda *, others: setattr(agent, "look", Look(0.0, (), "another", None))  # type: ignore[method-assign]
    hang_of(watch, agent, 2, {sleeping.pid}, begin=200.0)
    assert said_of(watch) == []
    assert notes == ["the program goes on after 200 s"]
    # It paused for long before: it gets three times as long now.
    agent.ask = lambda *, others: None  # type: ignore[method-assign]
    assert hang_of(watch, agent, 500, {sleeping.pid}, begin=203.0) == []


def test_a_tick_of_the_clock_between_two_looks_is_no_progress(
    sleeping: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = iter(range(10_000))
    monkeypatch.setattr(hanging, "main_progress", lambda *_: (next(ticks) / 100, 0))
    (found,) = hang_of(HangWatch(Host(), after_s=60.0, native=False), StandingAgent(sleeping.pid), 200, {sleeping.pid})
    assert 60 <= found < 75


def test_a_program_that_is_over_may_wait_for_the_thread_that_tunes_its_pipeline(
    sleeping: subprocess.Popen[bytes],
) -> None:
    """TensorFlow does so for up to 60 s; it is told of, and only what takes longer hangs."""
    notes: list[str] = []
    watch = HangWatch(Host(), after_s=60.0, native=False, note=notes.append)
    agent = StandingAgent(sleeping.pid)
    agent.over = ""
    assert hang_of(watch, agent, 70, {sleeping.pid}) == []
    (note,) = notes
    assert "for up to a minute" in note
    (found,) = hang_of(watch, agent, 30, {sleeping.pid}, begin=70.0)
    assert 75 <= found < 90
    assert said_of(watch)[0] == "exit"
    assert len(notes) == 1


def test_the_time_in_which_the_doctor_itself_was_stopped_does_not_count(sleeping: subprocess.Popen[bytes]) -> None:
    watch, agent = HangWatch(Host(), after_s=60.0, native=False), StandingAgent(sleeping.pid)
    assert hang_of(watch, agent, 30, {sleeping.pid}) == []
    assert hang_of(watch, agent, 50, {sleeping.pid}, begin=900.0) == []


def test_a_worker_that_never_trained_may_wait(sleeping: subprocess.Popen[bytes]) -> None:
    watch, agent, other = (
        HangWatch(Host(), after_s=60.0, native=False),
        StandingAgent(sleeping.pid),
        StandingAgent(os.getpid()),
    )
    looks = iter(range(1000))
    other.ask = lambda *, others: setattr(other, "look", Look(0.0, (), str(next(looks)), None))  # type: ignore[method-assign]
    assert [watch.tick(float(second), [agent, other], {other.pid}, 1, None, []) for second in range(100)] == [
        None
    ] * 100
    assert watch.tick(100.0, [agent], {agent.pid}, 1, None, []) is None  # it counts from now on


POLLS = """
import ctypes, sys, threading
def poll():
    ctypes.CDLL(None).prctl(15, sys.argv[1].encode(), 0, 0, 0)
    print(flush=True)  # the name is there
    while True:
        pass
threading.Thread(target=poll, daemon=True).start()
threading.Event().wait()
"""


@pytest.mark.slow
@pytest.mark.timed
@pytest.mark.parametrize(
    ("name", "shortest_s", "longest_s"),
    [("tf_Device_Event", 2.0, 9.0), ("python", 9.5, 40.0)],
)
def test_a_thread_of_tensorflow_that_polls_a_gpu_is_no_progress(name: str, shortest_s: float, longest_s: float) -> None:
    """GPU event managers poll all the time: they use a CPU also while the GPU hangs."""
    with running(POLLS, name) as program:
        signals, watch = ProgramSignals(Host(), program.pid), HangWatch(Host(), after_s=2.0, native=False)
        agent, passed_s = StandingAgent(program.pid), 0.0  # by the looks: a slow machine makes fewer
        while passed_s < 45 and watch.hang is None:
            watch.tick(passed_s, [agent], {program.pid}, program.pid, signals.look(), [])
            time.sleep(0.5)
            passed_s += 0.5
    assert watch.hang is not None
    assert shortest_s <= passed_s < longest_s


def test_a_process_of_a_job_that_hangs_in_tensorflow_waits_for_its_partners() -> None:
    """The variables are those of the process, also where only its launcher knows of partners."""
    with running(ASLEEP, OMPI_COMM_WORLD_SIZE="4") as program:
        watch, agent = HangWatch(Host(), after_s=60.0, native=False), StandingAgent(program.pid)
        inside = (("/env/lib/site-packages/tensorflow/python/eager/execute.py", 53, "quick_execute"),)
        agent.ask = lambda *, others: setattr(  # type: ignore[method-assign]
            agent, "look", Look(time.monotonic(), (*inside, ("/t.py", 9, "<module>")), "k", () if others else None)
        )
        hang_of(watch, agent, 100, {program.pid})
    assert said_of(watch)[0] == "collective"
    assert "OMPI_COMM_WORLD_SIZE says 4" in " ".join(said_of(watch))


@pytest.mark.parametrize("cpu", [0.0, 1.0])
def test_a_main_thread_that_stands_while_steps_are_recorded_is_no_hang(
    sleeping: subprocess.Popen[bytes], cpu: float
) -> None:
    """Another thread trains, or one call makes all steps: only a recording without a step tells that it hangs."""
    watch, agent = HangWatch(Host(), after_s=60.0, native=False), StandingAgent(sleeping.pid)
    reading = Reading(at_s=0.0, cpu=cpu)
    hang_of(watch, agent, 10, {agent.pid}, reading=reading)
    for second in range(10, 2000, 350):
        watch.recorded(second, second - 2, agent.pid, STEPS)
        assert hang_of(watch, agent, 30, {agent.pid}, begin=second, reading=reading) == []
        assert not watch.wants_recording
        assert hang_of(watch, agent, 320, {agent.pid}, begin=second + 30, reading=reading) == []
        assert watch.wants_recording
    for at_s in (2111.0, 2112.0, 2113.0):
        assert watch.hang is None
        watch.recorded(at_s + 1, at_s, agent.pid, NO_STEP)
    assert len(hang_of(watch, agent, 10, {agent.pid}, begin=2115, reading=reading)) == 1


@pytest.mark.parametrize("what", ["the doctor was stopped", "the main thread woke"])
def test_that_steps_are_made_elsewhere_is_known_after(sleeping: subprocess.Popen[bytes], what: str) -> None:
    watch, agent = HangWatch(Host(), after_s=60.0, native=False), StandingAgent(sleeping.pid)
    hang_of(watch, agent, 10, {agent.pid})
    watch.recorded(10.0, 8.0, agent.pid, STEPS)
    hang_of(watch, agent, 10, {agent.pid}, begin=10)
    begin = 100 if what == "the doctor was stopped" else 20
    if begin == 20:
        stack = (("/home/me/train.py", 80, "<module>"),)
        agent.ask = lambda *, others: setattr(agent, "look", Look(0.0, stack, "woken", () if others else None))  # type: ignore[method-assign]
    assert hang_of(watch, agent, 100, {agent.pid}, begin=begin) == []
    assert watch.wants_recording


@pytest.mark.parametrize("owes", ["look", "recording"])
def test_a_process_that_owes_an_answer_since_its_last_step_hangs(sleeping: subprocess.Popen[bytes], owes: str) -> None:
    watch, agent = HangWatch(Host(), after_s=60.0, native=False), StandingAgent(sleeping.pid)
    hang_of(watch, agent, 10, {agent.pid})
    watch.recorded(10.0, 8.0, agent.pid, STEPS)
    if owes == "look":
        agent.asked_s, agent.ask = 20.0, lambda *, others: None  # type: ignore[method-assign]
    else:
        agent.recording, agent.changed_s = "ending", 20.0
    (found,) = hang_of(watch, agent, 150, {agent.pid}, begin=10)
    assert 80 <= found < 95


def test_steps_recorded_before_the_main_thread_stood_say_nothing_of_now(sleeping: subprocess.Popen[bytes]) -> None:
    watch, agent = HangWatch(Host(), after_s=60.0, native=False), StandingAgent(sleeping.pid)
    hang_of(watch, agent, 1, {agent.pid}, begin=100)
    watch.recorded(110.0, 90.0, agent.pid, STEPS)
    watch.recorded(120.0, 110.0, agent.pid + 1, STEPS)
    (found,) = hang_of(watch, agent, 100, {agent.pid}, begin=101)
    assert 160 <= found < 175


def test_a_hang_ends_with_its_own_process_and_no_other(sleeping: subprocess.Popen[bytes]) -> None:
    with running(ASLEEP) as program:
        notes: list[str] = []
        watch = HangWatch(Host(), after_s=60.0, native=False, note=notes.append)
        hung, trains = StandingAgent(program.pid), StandingAgent(sleeping.pid)
        both = {hung.pid, trains.pid}
        looks = iter(range(1000))
        trains.ask = lambda *, others: setattr(trains, "look", Look(0.0, (), str(next(looks)), None))  # type: ignore[method-assign]
        assert len(hang_of(watch, hung, 300, both, beside=[trains])) == 1
        assert (notes, watch.ended_s) == ([], None)
        program.kill()
        program.wait()
        assert hang_of(watch, trains, 2, both, begin=300) == []
    assert (watch.hang, watch.ended_s) == (None, 300.0)
    assert notes == [f"process {hung.pid}, which stood still, has ended"]
    watch.recorded(310.0, 305.0, trains.pid, STEPS)
    assert watch.ended_s is None, "the program trains again"


def test_a_process_that_waits_for_the_one_that_trains_hangs_no_more(sleeping: subprocess.Popen[bytes]) -> None:
    """A launcher with TensorFlow stands still, and only then its worker makes the first steps."""
    notes: list[str] = []
    watch, launcher = HangWatch(Host(), after_s=60.0, native=False, note=notes.append), StandingAgent(sleeping.pid)
    assert len(hang_of(watch, launcher, 100, set())) == 1
    worker = StandingAgent(os.getpid())
    assert hang_of(watch, launcher, 5, set(), begin=100, beside=[worker]) == []
    standing = watch.hang
    assert standing is not None
    assert hang_of(watch, launcher, 5, {worker.pid}, begin=105, beside=[worker]) == []
    assert (watch.hang, watch.ended_s) == (None, None)
    assert notes == [f"process {launcher.pid} stands still, and another one makes the steps"]


def test_a_process_whose_python_nobody_can_see_is_not_said_to_hang(sleeping: subprocess.Popen[bytes]) -> None:
    """A kernel of a notebook that waits for cells looks the same from outside."""
    notes: list[str] = []
    watch, agent = HangWatch(Host(), after_s=60.0, native=False, note=notes.append), StandingAgent(sleeping.pid)
    agent.unable, agent.ask = "Python's frames need py-spy", lambda *, others: None  # type: ignore[method-assign]
    assert hang_of(watch, agent, 300, set()) == []
    (note,) = notes
    assert f"process {agent.pid} has not moved for 60 s; whether it hangs, or waits for requests, is not known" in note
    assert note.endswith("Python's frames need py-spy")
    sleeping.send_signal(signal.SIGSTOP)
    until = time.monotonic() + 60
    while {each.state for each in thread_states(Host(), agent.pid)} != {"T"}:  # it is stopped some time after the call
        assert time.monotonic() < until, "it is not stopped"
        time.sleep(0.01)
    assert len(hang_of(watch, agent, 100, set(), begin=300)) == 1
    assert said_of(watch)[0] == "stopped"
    assert "Python's frames need py-spy" in said_of(watch)
    assert "has not answered" not in str(said_of(watch))


def test_a_process_whose_connection_is_lost_is_not_said_to_hang(sleeping: subprocess.Popen[bytes]) -> None:
    """Its Python did not keep the answer back: nobody can ask it any more."""
    notes: list[str] = []
    watch = HangWatch(Host(), after_s=60.0, native=False, note=notes.append)
    mine, its = socket.socketpair()
    agent = SocketAgent(Talk(mine))
    agent.pid = sleeping.pid
    agent.look = Look(0.0, (("/home/me/train.py", 31, "wait_for_data"),), "k", None)
    its.close()
    assert hang_of(watch, agent, 300, {agent.pid}) == []
    assert notes[0].endswith(
        "the connection to its Python is lost (a program that closes all open files closes it, too)"
    )
    agent.over = "ValueError: of no use"
    assert len(hang_of(watch, agent, 300, {agent.pid}, begin=300)) == 1
    assert said_of(watch)[0] == "exit"
    assert "it died of ValueError: of no use" in said_of(watch)
    mine.close()
