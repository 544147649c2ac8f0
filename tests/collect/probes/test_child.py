"""Programs in child processes: how asking went, and what was answered."""

from __future__ import annotations

import os
import pathlib
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import msgspec
import pytest

from tfgpu_doctor.collect.probes import child
from tfgpu_doctor.host import Completed, Host
from tfgpu_doctor.model.facts.attempt import Attempt, Fact
from tfgpu_doctor.model.facts.nvidia import CudaDriver
from tfgpu_doctor.model.facts.python import Target

if TYPE_CHECKING:
    from collect.probes.conftest import Machine

LONG_S = 300.0


def recorded(machine: Machine, done: Completed) -> tuple[Attempt, dict[str, object], list[str]]:
    return machine.child(done, "python", "open_libcuda")


def test_an_answer_is_put_together_of_its_lines(machine: Machine) -> None:
    output = b'{"phase": "one"}\n{"a": 1, "opened": {"x": ""}}\n{"phase": "two"}\n{"a": 2, "opened": {"y": "EIO"}}\n'
    attempt, answer, _ = recorded(machine, Completed(output, "", 0.1234567, exit_code=0))
    assert attempt == Attempt(outcome="answered", seconds=0.123, exit_code=0)
    assert answer == {"a": 2, "opened": {"x": "", "y": "EIO"}}


def test_the_program_is_run_as_asked(machine: Machine) -> None:
    machine.child(
        Completed(b"", "", 0.0), "/venv/bin/python", "open_nvml", ["x y"], deadline_s=7.0, options=("-I",), variables={"A": "1"}
    )  # fmt: skip
    (asked,) = machine.asked
    assert asked.argv[:2] == ["/venv/bin/python", "-I"]
    assert os.path.basename(asked.argv[2]) == "open_nvml.py"
    assert os.path.isfile(asked.argv[2])
    assert asked.argv[3:] == ["x y"]
    assert asked.deadline_s == 7.0
    assert asked.variables == {"A": "1"}


def test_a_missed_deadline_says_at_what(machine: Machine) -> None:
    output = b'{"phase": "opening libcuda.so.1"}\n{"library": "/usr/lib/libcuda.so.550", "phase": "cuInit"}\n'
    attempt, answer, _ = recorded(machine, Completed(output, "", 15.02, timed_out=True))
    assert (attempt.outcome, attempt.phase, attempt.exit_code) == ("timed_out", "cuInit", None)
    assert answer == {"library": "/usr/lib/libcuda.so.550"}
    assert attempt.ending == "did not respond within 15 s during 'cuInit'"


def test_a_child_that_could_not_be_killed_is_said_to_be_stuck(machine: Machine) -> None:
    done = Completed(b'{"phase": "cuInit"}\n', "", 16.0, timed_out=True, stuck=True)
    attempt, _, _ = recorded(machine, done)
    assert attempt.stuck
    assert attempt.ending.endswith("and could not be killed")


def test_a_death_says_of_what_and_at_what(machine: Machine) -> None:
    done = Completed(b'{"phase": "cuInit"}\n{"init_co', "Fatal Python error\n", 0.2, exit_code=-11, signal="SIGSEGV")
    attempt, answer, _ = recorded(machine, done)
    assert (attempt.outcome, attempt.signal, attempt.phase) == ("killed_by_signal", "SIGSEGV", "cuInit")
    assert attempt.stderr == ("Fatal Python error",)
    assert answer == {}
    assert attempt.ending == "was killed by SIGSEGV during 'cuInit'"


def test_a_failure_says_the_last_line_of_its_traceback(machine: Machine) -> None:
    errors = 'Traceback (most recent call last):\n  File "x.py"\nAttributeError: undefined symbol: cuInit\n\n'
    attempt, _, lines = recorded(machine, Completed(b'{"phase": "cuInit"}\n', errors, 0.2, exit_code=1))
    assert (attempt.outcome, attempt.exit_code) == ("failed", 1)
    assert attempt.error == "AttributeError: undefined symbol: cuInit"
    assert attempt.stderr == tuple(lines) == tuple(errors.splitlines())


def test_one_that_did_not_start_says_why(machine: Machine) -> None:
    attempt, answer, _ = recorded(machine, Completed(b"", "", 0.0, not_started="No such file or directory"))
    assert (attempt.outcome, attempt.error, answer) == ("not_started", "No such file or directory", {})
    assert attempt.ending == "could not be started: No such file or directory"


@pytest.mark.parametrize(
    "output",
    [
        b"",
        b"\n \n",
        b"hello\n",
        b"[1, 2]\n",
        b"null\n",
        b"3\n",
        b'"text"\n',
        b"\xff\xfe\0\n",
        b'{"a": 1}{"b": 2}\n',
        b'{"a": \n',
        b"[" * 200_000,
    ],
)
def test_an_answer_that_is_no_objects_is_not_understood(machine: Machine, output: bytes) -> None:
    attempt, _, _ = recorded(machine, Completed(output, "", 0.1, exit_code=0))
    assert attempt.outcome == "unparsable"
    assert not attempt.answered


def test_of_a_long_complaint_the_last_lines_are_kept_and_cut(machine: Machine) -> None:
    errors = "".join(f"line {number} {'x' * 2000}\n" for number in range(10_000))
    attempt, _, lines = recorded(machine, Completed(b"", errors, 0.1, exit_code=1))
    assert len(lines) == 10_000
    assert [line.split()[1] for line in attempt.stderr] == [str(number) for number in range(9960, 10_000)]
    assert max(len(line) for line in attempt.stderr) == len(attempt.error) == 500


def test_complaints_of_one_that_answered_are_not_evidence(machine: Machine) -> None:
    attempt, _, lines = recorded(machine, Completed(b"{}\n", "warning\n", 0.1, exit_code=0))
    assert (attempt.stderr, attempt.error, lines) == ((), "", ["warning"])


def test_an_answer_of_another_shape_is_unparsable_and_says_why() -> None:
    attempt = Attempt(outcome="answered", exit_code=0)
    fact = child.understand(CudaDriver, attempt, {"init_code": "zero", "library": "/lib/libcuda.so.1"})
    assert fact.attempt.outcome == "unparsable"
    assert "init_code" in fact.attempt.error
    assert (fact.init_code, fact.works) == (None, False)


@pytest.mark.parametrize("answer", [{"gpus": {}}, {"gpus": [1]}, {"gpus": [{}]}, {"library": None}, {"init_code": 1.5}])
def test_any_other_shape_is_unparsable(answer: dict[str, object]) -> None:
    fact = child.understand(CudaDriver, Attempt(outcome="answered", exit_code=0), answer)
    assert fact.attempt.outcome == "unparsable"


def test_more_than_was_asked_for_is_ignored() -> None:
    fact = child.understand(CudaDriver, Attempt(outcome="answered"), {"init_code": 0, "of the future": [1]})
    assert (fact.works, fact.init_code) == (True, 0)


def test_what_the_caller_knows_wins() -> None:
    attempt = Attempt(outcome="timed_out", seconds=15.0)
    answer = {"attempt": {"outcome": "answered"}, "executable": "/other"}
    fact = child.understand(Target, attempt, answer, executable="/venv/bin/python")
    assert fact.attempt == attempt
    assert fact.executable == "/venv/bin/python"


def test_a_real_program_answers() -> None:
    host = Host()
    attempt, answer, _ = child.ask(host, sys.executable, "open_device_nodes", ["/dev/null"], deadline_s=LONG_S)
    assert attempt.answered
    assert attempt.phase == ""
    assert answer == {"opened": {"/dev/null": ""}}


def test_no_compiled_file_is_written(tmp_path: pathlib.Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    (tmp_path / "sitecustomize.py").write_text("import beside\n")
    (tmp_path / "beside.py").write_text("import sys; sys.stderr.write('imported\\n')\n")
    host = Host(environment=environment)
    _, _, lines = child.ask(host, sys.executable, "open_device_nodes", ["/dev/null"], deadline_s=LONG_S)
    assert lines == ["imported"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["beside.py", "sitecustomize.py"]


@pytest.mark.parametrize(
    ("command", "outcome"), [("true", "unparsable"), ("echo", "unparsable"), ("cat", "unparsable"), ("false", "failed")]
)
def test_a_command_that_is_no_python_is_found_out(command: str, outcome: str) -> None:
    attempt, answer, _ = child.ask(Host(), command, "describe_target", deadline_s=LONG_S)
    assert attempt.outcome == outcome
    fact = child.understand(Target, attempt, answer, executable=command)
    assert (fact.attempt.outcome, fact.distributions) == (outcome, ())


def test_a_missing_interpreter_is_not_started(tmp_path: pathlib.Path) -> None:
    attempt, _, _ = child.ask(Host(), str(tmp_path / "bin/python"), "describe_target", deadline_s=LONG_S)
    assert attempt.ending == "could not be started: No such file or directory"


def test_an_interpreter_that_hangs_is_killed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "python").write_text("#!/bin/sh\nexec sleep 1000\n")
    (tmp_path / "python").chmod(0o755)
    attempt, answer, _ = child.ask(Host(), str(tmp_path / "python"), "describe_target", deadline_s=0.5)
    assert (attempt.outcome, attempt.stuck, answer) == ("timed_out", False, {})


def test_every_attempt_survives_json(machine: Machine) -> None:
    ends = [
        Completed(b"{}\n", "", 0.1, exit_code=0),
        Completed(b'{"phase": "x"}\n', "a\nb\n", 15.0, timed_out=True, stuck=True),
        Completed(b"", "", 0.1, exit_code=-11, signal="SIGSEGV"),
        Completed(b"", "", 0.1, not_started="Permission denied"),
    ]
    for done in ends:
        attempt, _, _ = recorded(machine, done)
        assert msgspec.json.decode(msgspec.json.encode(attempt), type=Attempt) == attempt


_IN_HAND: list[int] = []
_MOST_AT_ONCE: list[int] = []


class _Watched(Fact, frozen=True):
    """A fact that notes how many of its kind are being converted at the same time."""

    attempt: Attempt

    def __post_init__(self) -> None:
        _IN_HAND.append(1)
        _MOST_AT_ONCE.append(len(_IN_HAND))
        time.sleep(0.02)
        _IN_HAND.pop()


def test_answers_are_understood_one_at_a_time() -> None:
    """Msgspec 0.22 crashes where two threads convert to one type for the first time."""
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: child.understand(_Watched, Attempt(outcome="answered"), {}), range(4)))
    assert _MOST_AT_ONCE == [1, 1, 1, 1]
