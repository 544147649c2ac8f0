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
        self.process(1, parent=0, group=1)
        self.uses()
        self.write("7/cgroup", "0::/pod/box\n")

    def run_on(self, cpus: set[int]) -> None:
        """Set the CPUs that the program may run on."""
        self.monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: cpus)

    def has_child(self, there: bool) -> None:
        """Set whether the program has a child, where /proc does not list it."""
        self.monkeypatch.setattr(processors, "_has_child", lambda: there)

    def process(
        self, pid: int, *, parent: int = 7, group: int = 7, own: float = 0, ended: float = 0, children: str = "",
        queued_ns: int = 0, ran_ns: int = 9,
    ) -> None:  # fmt: skip
        """Write the files of a process with one thread; seconds that it used, and its children that have ended."""
        ticks = [round(each * HERTZ) for each in (0, own, 0, ended)]
        self.write(
            f"{pid}/stat",
            f"{pid} (python) x) S {parent} {group} 7 0 -1 4194560 900 0 0 0 {{}} {{}} {{}} {{}} 20 0 9 0 5 6 7".format(
                *ticks
            ),
        )
        self.write(f"{pid}/task/{pid}/schedstat", f"{ran_ns} {queued_ns} 7\n")
        self.write(f"{pid}/task/{pid}/children", children)

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
        stolen: float = 0,
        queued_ns: int = 0,
        ran_ns: int = 9,
        children: str = "",
    ) -> None:
        """Seconds of the CPU that the program, its children that have ended, all together and interrupts have used."""
        self.process(7, parent=1, own=own, ended=ended, children=children, queued_ns=queued_ns, ran_ns=ran_ns)
        row = f"{round(busy * HERTZ)} 0 0 500 600 {round(interrupts * HERTZ)} 0 {round(stolen * HERTZ)} 0 0"
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
    known = {"allowed": 1, "own": 0.3, "others": 0.6, "interrupts": 0.05, "stolen": 0.0, "queued": 0.5}
    assert found == pytest.approx(known)


@linux
def test_what_other_virtual_machines_take(machine: Machine) -> None:
    before = machine.counted()
    machine.at_s += 4.0
    machine.uses(own=1.2, busy=1.2, stolen=2.0)
    assert between(before, machine.counted())["stolen"] == pytest.approx(0.5)


@linux
@pytest.mark.parametrize("group", [7, 9])
def test_its_own_processes_are_not_others(machine: Machine, group: int) -> None:
    """Workers of Keras or of the program, whatever group they made for themselves."""
    machine.process(8, group=group, own=5.0)
    machine.uses(children="8 ")
    before = machine.counted()
    machine.at_s += 4.0
    machine.process(8, group=group, own=7.0, queued_ns=1_000_000_000)
    machine.uses(children="8 ", own=0.4, busy=3.6, queued_ns=200_000_000)
    found = between(before, machine.counted())
    assert found["own"] == pytest.approx(0.6)
    assert found["others"] == pytest.approx(0.3)
    assert found["queued"] == pytest.approx(0.3)


@linux
def test_one_that_has_ended_meanwhile(machine: Machine) -> None:
    """Its parent has its time then: what it used before the recording is no part of it."""
    machine.process(8, own=5.0)
    machine.uses(children="8 ")
    before = machine.counted()
    machine.at_s += 4.0
    machine.uses(own=0.4, ended=6.0, busy=3.6)
    assert between(before, machine.counted())["own"] == pytest.approx(0.35)


@linux
def test_one_that_has_begun_meanwhile(machine: Machine) -> None:
    before = machine.counted()
    machine.at_s += 4.0
    machine.process(8, own=1.0)
    machine.uses(own=0.4, busy=3.6, children="8 ")
    assert between(before, machine.counted())["own"] == pytest.approx(0.35)


@linux
@pytest.mark.parametrize(("group", "own"), [(7, 0.6), (6, 0.1)])
def test_what_the_same_command_started_is_its_own(machine: Machine, group: int, own: float) -> None:
    """Another rank, started by the same script; not one whose shell made a group for each."""
    machine.process(6, parent=1, group=group, children="7 8 ")
    machine.process(8, parent=6, group=group)
    machine.process(7, parent=6)
    before = machine.counted()
    machine.at_s += 4.0
    machine.process(8, parent=6, group=group, own=2.0)
    machine.uses(own=0.4, busy=3.6)
    machine.process(7, parent=6, own=0.4)
    assert between(before, machine.counted())["own"] == pytest.approx(own)


@linux
@pytest.mark.parametrize(("child", "known"), [(True, False), (False, True)])
def test_a_kernel_that_does_not_list_children(machine: Machine, child: bool, known: bool) -> None:
    (machine.proc / "7/task/7/children").unlink()
    machine.has_child(child)
    before = machine.counted()
    machine.at_s += 4.0
    machine.process(7, parent=1, own=0.4)
    (machine.proc / "7/task/7/children").unlink()
    assert ("own" in between(before, machine.counted())) is known


@linux
def test_too_many_processes_to_look_at(machine: Machine) -> None:
    for pid in range(100, 200):
        machine.process(pid)
    machine.uses(children=" ".join(map(str, range(100, 200))))
    machine.has_child(True)
    before = machine.counted()
    machine.at_s += 4.0
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
    """Beside a real one that is always busy; each is a command of its own, as a shell would start it."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True) as busy:
        try:
            measuring = [sys.executable, "-c", MEASURING]
            done = subprocess.run(measuring, stdout=subprocess.PIPE, text=True, check=True, start_new_session=True)
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
    after = counted()
    assert before is not None
    assert beside is not None
    assert after is not None
    if os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
        assert child.pid in beside.processes
        assert child.pid not in {*before.processes, *after.processes}
    else:
        assert not beside.processes


@pytest.mark.parametrize(
    ("changes", "factor"),
    [
        ({}, 3.4),
        ({"queued": 9.0}, 4.0),  # no more than the others leave
        ({"interrupts": 0.3, "others": 1.2}, 3.4),
        ({"others": 0.0, "own": 1.0, "stolen": 0.9, "queued": 0.0}, 1.9),
        ({"others": 0.5, "own": 0.5, "stolen": 0.9, "queued": 0.5}, 2.9),  # half of what was stolen was the program's
        ({"others": 0.1, "own": 1.6, "stolen": 0.2, "queued": 0.5}, 1.0),
        ({"stolen": 1e300}, 1.0),
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


def test_a_pipeline_that_works_ahead_may_have_been_hidden(tmp_path: pathlib.Path) -> None:
    """Two thirds of the time is waiting; with 3.4 times as much of the CPUs the pipeline would be done before the step is."""
    report = judged(tmp_path, TAKEN, input_ms=14.0, compute_ms=5.0)
    assert report.verdict == "input_serial_map"
    assert 0.6 < report.causes[0].share < 0.75
    assert report.causes[0].confidence == "low"
    assert report.causes[0].evidence[-1] == SAID + DOUBT


@pytest.mark.parametrize(
    ("label", "share", "sure"),
    [
        ("input_cpu_bound", 0.68, False),
        ("input_cpu_bound", 0.95, True),
        ("input_python", 0.68, False),
        ("input_python", 0.95, True),
        ("input_slow_source", 0.68, False),
        ("input_no_prefetch", 0.45, False),
        ("input_no_prefetch", 0.68, True),  # it works while the step waits, and would then take less of each
        ("launch_bound", 0.68, False),
        ("launch_bound", 0.95, True),
        ("eager", 0.3, True),
        ("retracing", 0.3, True),
        ("input_memory", 0.3, True),
    ],
)
def test_what_others_may_explain(label: str, share: float, sure: bool) -> None:
    assert TakenCpus(**TAKEN).explain(label, share, 0.2) is not sure
    assert not TakenCpus(**QUIET).explain(label, share, 0.2)


@pytest.mark.parametrize("queued", [0.5, 7.0, 60.0])
def test_threads_that_wait_for_the_program_itself(queued: float) -> None:
    """More threads than CPUs, or processes of its own: what they wait for is its own doing."""
    own_doing = TakenCpus(allowed=2, own=1.95, others=0.05, queued=queued)
    assert own_doing.factor == 1.0
    assert not own_doing.explain("input_serial_map", 0.25, 0.2)


def test_a_great_one_stays_sure_and_the_note_says_it(tmp_path: pathlib.Path) -> None:
    report = judged(tmp_path, TAKEN, input_ms=40.0, compute_ms=2.0)
    assert report.causes[0].confidence == "high"
    assert SAID in report.notes


def test_a_training_without_a_bottleneck_stays_without(tmp_path: pathlib.Path) -> None:
    report = judged(tmp_path, TAKEN, input_ms=0.2)
    assert report.verdict == "compute_bound"
    assert SAID in report.notes


def test_other_virtual_machines_are_named(tmp_path: pathlib.Path) -> None:
    report = judged(tmp_path, {**TAKEN, "others": 0.4, "stolen": 1.0, "queued": 0.4})
    assert report.causes[0].confidence == "low"
    assert "used 0.4, and other virtual machines 1.0, of the 2 CPUs" in report.causes[0].evidence[-1]


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
