"""CPUs that other processes take while a program is recorded: what the recorder counts, and what is said of it."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import time
from typing import Any

import made_trace
import pytest

from tfgpu_doctor.tracing.python_samples import FILE
from tfgpu_doctor.tracing.result import TraceReport
from tfgpu_doctor.tracing.startup import processors
from tfgpu_doctor.tracing.startup.processors import between, counted
from tfgpu_doctor.tracing.taken_cpus import TakenCpus

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has /proc")

HERTZ = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
TAKEN = {"allowed": 2, "own": 0.5, "others": 1.5, "interrupts": 0.0, "queued": 1.2}
QUIET = {"allowed": 2, "own": 1.9, "others": 0.1, "interrupts": 0.0, "queued": 0.4, "throttled": 0.0}
SAID = (
    "while this was recorded, processes other than the program used 1.5 of the 2 CPUs that it may run on, and its threads "
    "waited for 1.2 more than the 0.5 that they got: without them its steps may be shorter"
)
DOUBT = ", and this may be no bottleneck; record again while they are quiet"
MEASURING = """
import json, sys, time
from tfgpu_doctor.tracing.startup.processors import between, counted
before = counted()
time.sleep(1.0)
print(json.dumps(between(before, counted())))
"""


class Machine:
    """A /proc of a program, one CPU, and its control groups; time goes by as it is told."""

    def __init__(self, place: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make it with nothing used so far."""
        self.proc, self.groups, self.at_s = place / "proc", place / "groups", 100.0
        monkeypatch.setattr(time, "monotonic", lambda: self.at_s)
        self.monkeypatch = monkeypatch
        self.run_on({5})
        self.has_child(False)
        self.uses()
        self.write("7/cgroup", "0::/pod/box\n")

    def run_on(self, cpus: set[int]) -> None:
        """Set the CPUs that the program may run on."""
        self.monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: cpus)

    def has_child(self, there: bool) -> None:
        """Set whether the program has a child."""
        self.monkeypatch.setattr(processors, "_has_child", lambda: there)

    def write(self, name: str, text: str) -> None:
        """Write a file below /proc."""
        (self.proc / name).parent.mkdir(parents=True, exist_ok=True)
        (self.proc / name).write_text(text)

    def uses(
        self,
        own: float = 0,
        ended: float = 0,
        busy: float = 0,
        interrupts: float = 0,
        queued_ns: int = 0,
        ran_ns: int = 9,
    ) -> None:
        """Seconds of the CPU that the program, its children that have ended, all together and interrupts have used."""
        ticks = [round(each * HERTZ) for each in (0, own, 0, ended)]
        self.write("7/stat", "7 (python) x) S 1 7 7 0 -1 4194560 900 0 0 0 {} {} {} {} 20 0 9 0 5 6 7".format(*ticks))
        self.write("7/task/7/schedstat", f"{ran_ns} {queued_ns} 7\n")
        row = f"{round(busy * HERTZ)} 0 0 500 600 {round(interrupts * HERTZ)} 0 800 0 0"
        self.write("stat", f"cpu  9 9 9 9 9 9 9 0 0 0\ncpu4 700 7 7 7 7 7 7 0 0 0\ncpu5 {row}\nintr 5 6\n")

    def quota(self, group: str, periods: int, throttled: int) -> None:
        """Set the counters of a control group."""
        (self.groups / group).mkdir(parents=True, exist_ok=True)
        text = f"usage_usec 5\nnr_periods {periods}\nnr_throttled {throttled}\nthrottled_usec 8\n"
        (self.groups / group / "cpu.stat").write_text(text)

    def counted(self) -> Any:
        """The counters now."""
        return counted(str(self.proc / "7"), str(self.proc), str(self.groups))


@pytest.fixture
def machine(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


@linux
def test_what_is_counted(machine: Machine) -> None:
    before = machine.counted()
    machine.at_s += 4.0
    machine.uses(own=1.2, busy=3.6, interrupts=0.2, queued_ns=2_000_000_000)
    found = between(before, machine.counted())
    assert found == pytest.approx({"allowed": 1, "own": 0.3, "others": 0.6, "interrupts": 0.05, "queued": 0.5})


@linux
@pytest.mark.parametrize(("child", "ended"), [(True, 0.0), (False, 0.5)])
def test_with_processes_of_its_own_nothing_is_said_of_others(machine: Machine, child: bool, ended: float) -> None:
    before = machine.counted()
    machine.at_s += 4.0
    machine.has_child(child)
    machine.uses(own=0.4, ended=ended, busy=3.8)
    assert between(before, machine.counted()) == {}


@linux
def test_cpus_with_other_numbers_are_not_known(machine: Machine) -> None:
    """In a container of lxcfs /proc/stat counts from 0, whatever CPUs it has."""
    machine.run_on({5, 64})
    before = machine.counted()
    machine.at_s += 4.0
    assert before is not None
    assert between(before, machine.counted()) == {}


@linux
def test_a_program_that_is_bound_to_other_cpus_meanwhile(machine: Machine) -> None:
    before = machine.counted()
    machine.at_s += 4.0
    machine.run_on({4})
    assert between(before, machine.counted()) == {}


@linux
def test_a_kernel_that_does_not_count_how_long_threads_wait(machine: Machine) -> None:
    machine.uses(ran_ns=0)
    before = machine.counted()
    machine.at_s += 4.0
    assert between(before, machine.counted()) == {}


@linux
def test_the_tightest_quota_counts(machine: Machine) -> None:
    machine.quota("pod/box", 10, 0)
    machine.quota("pod", 100, 90)
    machine.quota("", 0, 0)
    before = machine.counted()
    machine.at_s += 2.0
    machine.quota("pod/box", 30, 4)
    machine.quota("pod", 120, 100)
    assert between(before, machine.counted())["throttled"] == 0.5


@linux
@pytest.mark.parametrize("mounted", ["cpuacct,cpu", "cpu,cpuacct", "cpu"])
def test_the_groups_of_version_1(machine: Machine, mounted: str) -> None:
    machine.write("7/cgroup", "5:cpuacct,cpu:/job\n4:memory:/other\n0::/\n")
    machine.quota(f"{mounted}/job", 10, 0)
    machine.quota("memory/other", 10, 0)
    before = machine.counted()
    machine.at_s += 2.0
    machine.quota(f"{mounted}/job", 30, 5)
    machine.quota("memory/other", 30, 20)
    assert between(before, machine.counted())["throttled"] == 0.25


@linux
@pytest.mark.parametrize("stat", ["", "7 (x) S 1", "7 (x) " + "y " * 40])
def test_a_machine_that_tells_nothing(machine: Machine, stat: str) -> None:
    before = machine.counted()
    machine.write("7/stat", stat)
    machine.at_s += 2.0
    assert before is not None
    assert machine.counted() is None
    assert between(before, None) == between(None, before) == between(before, before) == {}


@linux
def test_another_process_is_seen() -> None:
    """Beside a real one that is always busy."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            done = subprocess.run([sys.executable, "-c", MEASURING], stdout=subprocess.PIPE, text=True, check=True)
        finally:
            busy.kill()
    found = json.loads(done.stdout)
    if "others" not in found:
        pytest.skip("the kernel does not count how long threads wait, or gives the CPUs other numbers")
    assert found["allowed"] == len(os.sched_getaffinity(0))
    assert found["others"] > 0.2
    assert found["own"] < found["others"]


@linux
def test_a_child_is_seen() -> None:
    """A real one, and the same once it has ended."""
    before = counted()
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as child:
        beside = counted()
        child.kill()
    assert beside is not None
    assert beside.alone is False
    assert "own" not in between(before, beside)


@pytest.mark.parametrize(
    ("changes", "factor"),
    [
        ({}, 3.4),
        ({"queued": 9.0}, 4.0),  # no more than the others leave
        ({"interrupts": 0.3, "others": 1.2}, 3.4),
        ({"queued": 0.3}, 1.6),
        ({"queued": 0.12}, 1.0),
        ({"own": 0.3, "others": 1.6, "queued": 0.09}, 1.0),  # next to nothing
        ({"allowed": 64, "own": 1.0, "others": 62.0, "queued": 0.8}, 1.8),  # one thread on a large machine
        ({"others": 0.4, "own": 1.6}, 1.0),
        ({"own": 0.1}, 1.0),  # a fifth of the CPUs is idle: it waits for something else
        ({"throttled": 0.3}, 1.0),
        ({"throttled": 0.05}, 3.4),
        ({"own": None, "others": None}, 1.0),
        ({"queued": None}, 1.0),
        ({"allowed": 0}, 1.0),
        ({"allowed": 0, "own": 0.0, "others": 0.0, "queued": 0.0}, 1.0),
    ],
)
def test_the_factor(changes: dict[str, Any], factor: float) -> None:
    taken = TakenCpus(**{**TAKEN, **changes})
    assert taken.factor == pytest.approx(factor)
    assert taken.said.startswith("while this was recorded") is (factor > 1)
    assert bool(taken.doubt) is (factor > 1)


def judged(tmp_path: pathlib.Path, taken: object, *, input_ms: float = 8.0, compute_ms: float = 30.0) -> TraceReport:
    stage = "Iterator::Root::Prefetch::Map"
    made_trace.save(tmp_path, made_trace.training(input_ms=input_ms, compute_ms=compute_ms, stage=stage))
    read = {"seconds": 3.0, "processors": taken}
    (tmp_path / FILE).write_text(json.dumps({"began_ns": 1, "every_s": 0.01, "samples": [], "read": read}))
    return made_trace.judged(tmp_path)[0]


def test_a_bottleneck_that_may_be_only_that_is_less_sure(tmp_path: pathlib.Path) -> None:
    report = judged(tmp_path, TAKEN)
    assert report.verdict == "input_serial_map"
    assert report.causes[0].confidence == "low"
    assert report.causes[0].evidence[-1] == SAID + DOUBT
    assert not any(SAID in note for note in report.notes)


def test_on_cpus_of_its_own_it_is_sure(tmp_path: pathlib.Path) -> None:
    report = judged(tmp_path, QUIET)
    assert report.verdict == "input_serial_map"
    assert report.causes[0].confidence == "high"
    assert "other processes" not in f"{report.causes} {report.notes}"


def test_a_great_one_stays_sure_and_the_note_says_it(tmp_path: pathlib.Path) -> None:
    report = judged(tmp_path, TAKEN, input_ms=40.0, compute_ms=2.0)
    assert report.causes[0].confidence == "high"
    assert SAID in report.notes


def test_a_training_without_a_bottleneck_stays_without(tmp_path: pathlib.Path) -> None:
    report = judged(tmp_path, TAKEN, input_ms=0.2)
    assert report.verdict == "compute_bound"
    assert SAID in report.notes


def test_a_quota_that_was_used_up_is_noted(tmp_path: pathlib.Path) -> None:
    report = judged(tmp_path, {**TAKEN, "throttled": 0.42})
    assert report.causes[0].confidence == "high"
    assert any(note.startswith("in 42% of the periods of this recording the quota") for note in report.notes)


@pytest.mark.parametrize(
    ("taken", "said"),
    [({**TAKEN, "throttled": 0.42}, "in 42% of the periods of this recording"), (TAKEN, SAID + DOUBT)],
)
def test_waiting_that_nothing_explains_may_be_for_a_cpu(tmp_path: pathlib.Path, taken: object, said: str) -> None:
    """Of 440 ms the program has no CPU for 200, nor has the thread that looks at its Python."""
    planes = made_trace.training(steps=11, step_ms=20.0, compute_ms=18.0)
    for line in planes[0].lines:
        for event in line.events:
            event.begin_ms += 200.0 * (event.begin_ms >= 120.0)
    made_trace.save(tmp_path, planes)
    looks = [
        [round(at * 1e6), [["/home/me/train.py", 90, "main"]], []] for at in [*range(0, 115, 5), *range(325, 430, 5)]
    ]
    read = {"seconds": 0.5, "processors": taken}
    (tmp_path / FILE).write_text(json.dumps({"began_ns": 0, "every_s": 0.01, "samples": looks, "read": read}))
    report = made_trace.judged(tmp_path)[0]
    assert report.verdict == "unexplained"
    assert any(note.startswith(said) for note in report.notes)


@pytest.mark.parametrize(
    "taken",
    [
        {"allowed": -3, "own": -1.0, "others": 1e308, "queued": 1e308}, {"own": 1e-300}, {},
        {"allowed": 10**400, "own": 1.0, "others": 1.0, "queued": 1.0},
        {"allowed": 1, "own": 0.1, "others": 1e308, "queued": 1e308}, {"allowed": 1e308, "own": 1.0, "others": 1.0},
    ],
)  # fmt: skip
def test_senseless_figures_say_nothing(tmp_path: pathlib.Path, taken: object) -> None:
    assert judged(tmp_path, taken).causes[0].confidence == "high"
