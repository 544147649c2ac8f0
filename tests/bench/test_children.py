"""Children that work on request answer, tell why they died, and do not outlast their users."""

from __future__ import annotations

import pathlib
import threading
import time
from typing import ClassVar

import pytest

from tfgpu_doctor.bench.run import COMPILES_S, Order
from tfgpu_doctor.perf_tests import children as subject
from tfgpu_doctor.perf_tests.children import ChildDied, children
from tfgpu_doctor.perf_tests.clusters import Workers
from tfgpu_doctor.perf_tests.variables import COMPILES_VARIABLE

ECHO = """
import json, os, sys
print(json.dumps({"pid": os.getpid(), "order": json.loads(sys.argv[1]), "told": os.environ.get("TOLD")}), flush=True)
for line in sys.stdin:
    print(json.dumps({"said": line.strip(), "devices": ["CPU:0"]}), flush=True)
"""
DIES = """
import sys
print("{}", flush=True)
sys.stdin.readline()
sys.exit("no memory left")
"""
SILENT = """
import sys, time
print("{}", flush=True)
time.sleep(60)
"""


def write(folder: pathlib.Path, text: str) -> str:
    (folder / "program.py").write_text(text)
    return str(folder / "program")


def test_each_child_gets_its_order_and_answers(tmp_path: pathlib.Path) -> None:
    program = write(tmp_path, ECHO)
    with children(program, ({"number": 1}, {"TOLD": "a"}), ({"number": 2}, {})) as (first, second):
        assert (first.ready["order"], second.ready["order"]) == ({"number": 1}, {"number": 2})
        assert first.ready["told"] == "a"
        answer = first.ask("hello")
        assert (answer.values["said"], answer.devices) == ("hello", ("CPU:0",))
        assert second.ask().values["said"] == "go"
        pids = [first.ready["pid"], second.ready["pid"]]
    assert not any(pathlib.Path(f"/proc/{pid}").exists() for pid in pids)


def test_a_child_that_dies_tells_why(tmp_path: pathlib.Path) -> None:
    with children(write(tmp_path, DIES), ({}, {})) as (child,):
        with pytest.raises(ChildDied, match="ended with exit code 1: no memory left"):
            child.ask()
        with pytest.raises(ChildDied, match="no memory left"):
            child.ask()


def test_a_child_that_cannot_start_tells_why(tmp_path: pathlib.Path) -> None:
    with (
        pytest.raises(ChildDied, match="No module named 'no_such_module'"),
        children(write(tmp_path, "import no_such_module"), ({}, {})),
    ):
        pytest.fail("it was ready")


def test_a_silent_child_is_ended(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "ANSWER_S", 0.2)
    started = time.monotonic()
    with (
        children(write(tmp_path, SILENT), ({}, {})) as (child,),
        pytest.raises(ChildDied, match=r"did not answer within 0\.2 s, and was ended$"),
    ):
        child.ask()
    assert time.monotonic() - started < 50, "it was waited for to its own end"


KILLED = """
import os, sys
print("{}", flush=True)
sys.stdin.readline()
os.kill(os.getpid(), 9)
"""


def test_a_child_that_somebody_else_killed_is_not_told_as_silent(tmp_path: pathlib.Path) -> None:
    with (
        children(write(tmp_path, KILLED), ({}, {})) as (child,),
        pytest.raises(ChildDied, match="the child process was ended by signal 9"),
    ):
        child.ask()


ONE_DIES = """
import json, sys, time
order = json.loads(sys.argv[1])
print("{}", flush=True)
sys.stdin.readline()
if order["dies"]:
    sys.exit("no memory left")
time.sleep(600)
"""


def test_of_several_the_first_that_fails_is_told(tmp_path: pathlib.Path) -> None:
    """The others wait for it in a reduction."""
    started = time.monotonic()
    with (
        children(write(tmp_path, ONE_DIES), ({"dies": False}, {}), ({"dies": True}, {})) as found,
        pytest.raises(ChildDied, match="ended with exit code 1: no memory left"),
    ):
        Workers(found, 2, spans=False).ask("go")
    assert time.monotonic() - started < 120, "the others were waited for"


@pytest.mark.parametrize(("printed", "said"), [("'no JSON'", "'no JSON"), ("'[1]'", "'[1]"), ("'x' * 10**8", "'xxx")])
def test_what_is_no_answer_is_told(tmp_path: pathlib.Path, printed: str, said: str) -> None:
    program = write(tmp_path, f"import sys\nprint({printed}, flush=True)\nsys.stdin.read()\n")
    with pytest.raises(ChildDied) as told, children(program, ({}, {})):
        pass
    assert str(told.value).startswith(f"the child process printed no answer but {said}")
    assert len(str(told.value)) < 200


SLOW = """
import sys, time
time.sleep(1.5)
print("{}", flush=True)
for line in sys.stdin:
    time.sleep(1.5)
    print("{}", flush=True)
"""


@pytest.mark.parametrize("compiles", [False, True])
def test_a_first_compile_is_no_hang(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, compiles: bool) -> None:
    if compiles:
        monkeypatch.setenv(COMPILES_VARIABLE, "1")
    monkeypatch.setattr(subject, "ANSWER_S", 0.5)
    program = write(tmp_path, SLOW)
    if not compiles:
        with pytest.raises(ChildDied, match=r"did not answer within 0\.5 s"), children(program, ({}, {}), start_s=0.5):
            pass
    with children(program, ({}, {}), start_s=0.5 if compiles else 60.0) as (child,):
        if compiles:
            assert child.ask().values == {}
        else:
            with pytest.raises(ChildDied, match=r"did not answer within 0\.5 s"):
                child.ask()


class LateCancel(threading.Timer):
    """It has gone off when it is cancelled, and does its work then, and once more when the next one starts."""

    earlier: ClassVar[list[threading.Timer]] = []

    def start(self) -> None:
        super().start()
        for each in self.earlier:
            each.function(*each.args)
        self.earlier.append(self)

    def cancel(self) -> None:
        super().cancel()
        self.function(*self.args)


def test_a_child_that_answers_as_its_time_ends_is_not_ended(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading, "Timer", LateCancel)
    with children(write(tmp_path, ECHO), ({}, {})) as (child,):
        assert [child.ask(word).values["said"] for word in ("one", "two")] == ["one", "two"]


def test_an_answer_is_a_sign_of_life(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[int] = []
    monkeypatch.setattr(subject, "alive", lambda: said.append(1))
    with children(write(tmp_path, ECHO), ({}, {})) as (child,):
        child.ask()
    assert len(said) == 2


def test_a_child_has_less_time_than_the_test_that_waits_for_it() -> None:
    assert max(subject.START_S, subject.ANSWER_S) < Order.longest_s
    assert subject.COMPILES_S < COMPILES_S
