"""The examination: probes run at once, in the order of what they need, and none of them can hold the others."""

from __future__ import annotations

import functools
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import pytest
from doctor_command import hear_interrupts

from tfgpu_doctor.collect.examination import Interrupted, _Examination, examine, find_python
from tfgpu_doctor.collect.probe import Probe, Request, Unavailable, probe
from tfgpu_doctor.collect.probes import ALL_PROBES
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts import Facts, decode_facts, encode_facts
from tfgpu_doctor.model.facts.machine import Container, Environment, Pci, Scheduler, System
from tfgpu_doctor.model.facts.nvidia import Driver, Nvml

LONG_S = 120.0


def examination(*probes: Probe, host: Host | None = None, **request: object) -> _Examination:
    asked = Request(**{"python": sys.executable, **request})  # type: ignore[arg-type]
    return _Examination(host or Host(environment={}), asked, probes)


def facts_of(*probes: Probe, host: Host | None = None, **request: object) -> Facts:
    """What is known when all these probes have run."""
    under_way = examination(*probes, host=host, **request)
    under_way.run(None)
    return under_way.facts()


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What a probe that blocks waits for; opened at the end of the test, or after a minute where that never comes."""
    event = threading.Event()
    timer = threading.Timer(60, event.set)
    timer.start()
    yield event
    timer.cancel()
    event.set()


@pytest.fixture
def short_margin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the time that a probe has beyond its deadline, only a little: the tests need not wait for all of it."""
    monkeypatch.setattr("tfgpu_doctor.collect.examination._MARGIN_S", 0.5)


@probe(waits_for="the system")
def system() -> System:
    return System(os="Linux", release="6.8", architecture="x86_64")


@probe(waits_for="the container")
def container() -> Container:
    return Container(kind="docker")


def test_the_facts_are_those_that_the_probes_gave() -> None:
    found = facts_of(system, container)
    assert (found.system, found.container) == (
        System(os="Linux", release="6.8", architecture="x86_64"),
        Container(kind="docker"),
    )
    assert found.unknown == {}
    assert found.driver is None
    assert found.recorded.endswith("Z")
    assert found.doctor


def test_without_probes_nothing_is_known() -> None:
    found = facts_of()
    assert (found.system, found.unknown) == (None, {})


def test_a_probe_is_given_host_request_and_the_facts_that_it_needs() -> None:
    given: list[object] = []
    host = Host(environment={"A": "1"})

    @probe(waits_for="the driver")
    def driver(system: System, host: Host, container: Container, request: Request) -> Driver:
        given.extend((system, host, container, request))
        return Driver(version="1.0")

    found = facts_of(driver, container, system, host=host, python="/venv/bin/python", level="quick")
    assert given == [found.system, host, found.container, Request(python="/venv/bin/python", level="quick")]
    assert found.driver == Driver(version="1.0")
    assert found.quick


def test_a_chain_of_needs_is_run_in_its_order() -> None:
    order: list[str] = []

    @probe(waits_for="the first")
    def pci() -> Pci:
        order.append("pci")
        return Pci()

    @probe(waits_for="the second")
    def driver(pci: Pci) -> Driver:
        order.append("driver")
        return Driver()

    @probe(waits_for="the third")
    def scheduler(driver: Driver, pci: Pci) -> Scheduler:
        order.append("scheduler")
        return Scheduler()

    found = facts_of(scheduler, driver, pci)
    assert order == ["pci", "driver", "scheduler"]
    assert found.unknown == {}


def test_probes_that_need_nothing_of_each_other_run_at_once() -> None:
    both = threading.Barrier(2, timeout=LONG_S)

    @probe(waits_for="the other")
    def pci() -> Pci:
        both.wait()
        return Pci()

    @probe(waits_for="the one")
    def driver() -> Driver:
        both.wait()
        return Driver()

    assert facts_of(pci, driver).unknown == {}


@pytest.mark.parametrize(
    "order",
    [
        ("pci", "system", "driver", "scheduler"),
        ("driver", "scheduler", "pci", "system"),
        pytest.param(
            ("scheduler", "driver", "system", "pci"),
        ),
    ],
)
def test_a_fact_that_cannot_be_had_says_why_and_so_do_those_that_need_it(order: tuple[str, ...]) -> None:
    ran: list[str] = []

    @probe(waits_for="the bus")
    def pci() -> Pci:
        raise Unavailable("/sys is not mounted")

    @probe(waits_for="the driver")
    def driver(pci: Pci) -> Driver:
        ran.append("driver")
        return Driver()

    @probe(waits_for="the job")
    def scheduler(system: System, driver: Driver) -> Scheduler:
        ran.append("scheduler")
        return Scheduler()

    probes = {"pci": pci, "system": system, "driver": driver, "scheduler": scheduler}
    found = facts_of(*(probes[name] for name in order))
    assert found.unknown == dict.fromkeys(("pci", "driver", "scheduler"), "/sys is not mounted")
    assert ran == []
    assert found.system is not None


@pytest.mark.parametrize(
    "error", [ValueError("bad value"), OSError(5, "Input/output error"), RecursionError("deep"), MemoryError()]
)
def test_a_probe_that_breaks_costs_its_fact_alone(error: Exception) -> None:
    @probe(waits_for="the bus")
    def pci() -> Pci:
        raise error

    found = facts_of(pci, system)
    assert found.system is not None
    assert found.unknown["pci"].startswith(f"the probe failed ({type(error).__name__}")
    assert "report" in found.unknown["pci"]


def test_a_probe_that_blocks_for_ever_is_dropped_and_the_others_are_known(gate: threading.Event) -> None:
    @probe(waits_for="what never comes", deadline_s=0.1)
    def pci() -> Pci:
        gate.wait()
        return Pci()

    @probe(waits_for="the driver")
    def driver(pci: Pci) -> Driver:
        return Driver()

    started = time.monotonic()
    found = facts_of(pci, driver, system, container)
    assert time.monotonic() - started < 60
    assert found.unknown == dict.fromkeys(
        ("pci", "driver"), "no response before the deadline: the read operation is blocked"
    )
    assert (found.pci, found.driver) == (None, None)
    assert found.system is not None
    assert found.container is not None


@pytest.mark.usefixtures("short_margin")
def test_a_file_that_blocks_for_ever_is_dropped(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "wedged")

    def release() -> None:
        os.close(os.open(tmp_path / "wedged", os.O_WRONLY | os.O_NONBLOCK))

    timer = threading.Timer(60, release)
    timer.start()

    @probe(waits_for="a file", deadline_s=0.1)
    def driver(host: Host) -> Driver:
        with host.files.open_binary("/wedged", streams=True) as file:
            return Driver(version=file.read().decode())

    @probe(waits_for="TensorFlow", deadline_s=None)
    def environment(host: Host) -> Environment:
        with host.files.open_binary("/wedged", streams=True) as file:
            file.read()
        return Environment()

    found = facts_of(driver, environment, system, host=Host(str(tmp_path), {}), deadline_s=0.2)
    timer.cancel()
    release()  # lets the two threads end
    assert set(found.unknown) == {"driver", "environment"}
    assert found.system is not None


@pytest.mark.usefixtures("short_margin")
def test_an_answer_after_its_deadline_is_too_late(gate: threading.Event) -> None:
    @probe(waits_for="what comes late", deadline_s=0.1)
    def pci() -> Pci:
        gate.wait()
        return Pci(device_count=1)

    @probe(waits_for="the driver", deadline_s=LONG_S)
    def driver() -> Driver:
        dropped.wait(LONG_S)
        gate.set()
        time.sleep(0.5)  # in which the late answer arrives
        return Driver()

    dropped = threading.Event()

    def look(waiting: Sequence[str], seconds: float) -> None:
        if "what comes late" not in waiting:
            dropped.set()

    under_way = examination(pci, driver)
    under_way.run(look)
    found = under_way.facts()
    assert dropped.is_set()
    assert found.pci is None
    assert "pci" in found.unknown
    assert found.driver == Driver()


def test_what_is_waited_for_is_told(gate: threading.Event) -> None:
    told: list[tuple[list[str], float]] = []

    @probe(waits_for="the gate")
    def pci() -> Pci:
        gate.wait(LONG_S)
        return Pci()

    def look(waiting: Sequence[str], seconds: float) -> None:
        told.append((list(waiting), seconds))
        if len(told) == 4:
            gate.set()

    examination(pci, system).run(look)
    assert told[-1][0] == ["the gate"]
    assert [seconds for _, seconds in told] == sorted(seconds for _, seconds in told)
    assert all(waiting for waiting, _ in told)


def test_what_is_known_stays_known_when_the_user_gives_up(gate: threading.Event) -> None:
    @probe(waits_for="the gate")
    def pci() -> Pci:
        gate.wait()
        return Pci()

    @probe(waits_for="the driver")
    def driver(pci: Pci) -> Driver:
        return Driver()

    def look(waiting: Sequence[str], seconds: float) -> None:
        if list(waiting) == ["the gate"] and seconds > 0.5:
            raise KeyboardInterrupt

    under_way = examination(pci, driver, system)
    with pytest.raises(KeyboardInterrupt):
        under_way.run(look)
    under_way.give_up("interrupted")
    found = under_way.facts()
    assert found.system is not None
    assert found.unknown == {"pci": "interrupted", "driver": "interrupted"}


def test_the_probes_give_each_fact_once_and_need_only_those() -> None:
    names = [each.name for each in ALL_PROBES]
    about_the_record = {"schema", "doctor", "recorded", "quick", "level", "simulated", "unknown"}
    fields = set(Facts.__struct_fields__) - about_the_record - {"bench"}  # the suites measure it, and no probe
    assert sorted(names) == sorted(fields)
    for each in ALL_PROBES:
        assert set(each.needs) <= set(names)
        assert each.waits_for


def test_no_probe_waits_for_itself() -> None:
    known: set[str] = set()
    while ready := {each.name for each in ALL_PROBES if set(each.needs) <= known} - known:
        known |= ready
    assert known == {each.name for each in ALL_PROBES}


def test_a_machine_without_anything_is_examined(tmp_path: pathlib.Path) -> None:
    found = examine(python=sys.executable, quick=True, root=str(tmp_path))
    assert found.quick
    assert found.system is not None
    assert found.target is not None
    assert found.target.attempt.answered
    assert isinstance(found.nvml, Nvml)
    assert "pci" in found.unknown
    assert "--quick" in found.unknown["runtime"]
    assert not any("broke" in why for why in found.unknown.values()), found.unknown
    assert decode_facts(encode_facts(found)) == found


def test_a_target_that_is_not_there_is_a_fact(tmp_path: pathlib.Path) -> None:
    missing = str(tmp_path / "venv/bin/python")
    found = examine(python=missing, root=str(tmp_path))
    assert found.target is not None
    assert (found.target.executable, found.target.attempt.outcome) == (missing, "not_started")
    assert found.runtime is not None
    assert found.runtime.attempt.outcome == "not_started"
    assert "could not be started" in found.unknown["tensorflow"]
    assert found.system is not None


INTERRUPTED = """
import sys
from tfgpu_doctor.collect.examination import Interrupted, examine
from tfgpu_doctor.model.facts import encode_facts

def look(waiting, seconds):
    sys.stderr.write(", ".join(waiting) + "\\n")
    sys.stderr.flush()

try:
    examine(python=sys.argv[1], root=sys.argv[2], on_wait=look)
except Interrupted as stopped:
    sys.stdout.write(encode_facts(stopped.facts).decode())
    sys.exit(130)
"""


def comes_true(condition: Callable[[], bool], within_s: float = 60.0) -> bool:
    end = time.monotonic() + within_s
    while time.monotonic() < end and not condition():
        time.sleep(0.02)
    return condition()


def runs(pid: int) -> bool:
    """Whether a process runs; one that ended and was not yet waited for does not."""
    try:
        os.kill(pid, 0)
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except ProcessLookupError:
        return False
    except OSError:
        return not sys.platform.startswith("linux")


def test_an_interruption_kills_every_child_and_keeps_what_is_known(tmp_path: pathlib.Path) -> None:
    python = tmp_path / "python"
    (tmp_path / "pids").mkdir()
    (tmp_path / "root").mkdir()
    python.write_text(f'#!/bin/sh\ntouch "{tmp_path}/pids/$$"\nexec sleep 1000\n')
    python.chmod(0o755)
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(python), str(tmp_path / "root")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=hear_interrupts,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        ours = {"the target's Python", "cuInit", "TensorFlow to import and list its GPUs"}
        while set(process.stderr.readline().strip().split(", ")) != ours:
            assert process.poll() is None
        assert comes_true(lambda: len(os.listdir(tmp_path / "pids")) == 3)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130, errors
    found = json.loads(output)
    assert found["system"]["os"]
    assert {name for name, why in found["unknown"].items() if why == "interrupted"} >= {
        "target",
        "cuda_driver",
        "runtime",
    }

    def has_ended(pid: str) -> bool:
        return not runs(int(pid))

    for pid in os.listdir(tmp_path / "pids"):
        assert comes_true(functools.partial(has_ended, pid))


def test_an_interruption_carries_the_facts() -> None:
    facts = Facts(unknown={"pci": "interrupted"})
    assert Interrupted(facts).facts is facts
    assert str(Interrupted(facts)) == "interrupted"


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A working folder with a virtual environment's skeleton, and a folder on $PATH with a python3.x."""
    for place in ("venv/bin/python", "on_path/python3.x"):
        (tmp_path / place).parent.mkdir(parents=True)
        (tmp_path / place).write_text("#!/bin/sh\n")
        (tmp_path / place).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "on_path"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_without_a_target_it_is_this_python() -> None:
    assert find_python(None) == sys.executable


@pytest.mark.parametrize("given", ["venv", "venv/", "./venv", "{0}/venv", "../{0.name}/venv"])
def test_the_folder_of_a_virtual_environment_means_its_python(folder: pathlib.Path, given: str) -> None:
    assert find_python(given.format(folder)) == str(folder / "venv/bin/python")


def test_a_folder_without_a_python_is_named_as_it_would_be(folder: pathlib.Path) -> None:
    assert find_python("on_path") == str(folder / "on_path/bin/python")


def test_a_name_is_looked_up_on_the_path(folder: pathlib.Path) -> None:
    assert find_python("python3.x") == str(folder / "on_path/python3.x")


def test_a_name_that_nobody_has_stays_a_name(folder: pathlib.Path) -> None:
    assert find_python("python9.9") == "python9.9"
    assert find_python("") == ""


@pytest.mark.parametrize(
    "given", ["venv/bin/python", "./venv/bin/python", "venv/bin/../bin/python", "{0}/venv/bin/python"]
)
def test_a_path_becomes_absolute(folder: pathlib.Path, given: str) -> None:
    assert find_python(given.format(folder)) == str(folder / "venv/bin/python")


def test_a_path_that_is_not_there_becomes_absolute_too(folder: pathlib.Path) -> None:
    assert find_python("gone/bin/python") == str(folder / "gone/bin/python")


def test_a_link_to_an_interpreter_is_not_followed(folder: pathlib.Path) -> None:
    (folder / "venv/bin/python3").symlink_to("/usr/bin/env")  # following it would leave the virtual environment
    assert find_python("venv/bin/python3") == str(folder / "venv/bin/python3")


def test_a_file_of_the_working_folder_comes_before_the_path(folder: pathlib.Path) -> None:
    (folder / "python3.x").touch()
    assert find_python("python3.x") == str(folder / "python3.x")
