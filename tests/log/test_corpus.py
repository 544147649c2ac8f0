"""The causes of real logs that people reported; the folder with them is the developers' own."""

from __future__ import annotations

import importlib.util
import pathlib
import re
import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from doctor_command import run_doctor

_ONE_AT_A_TIME = threading.Lock()


def command(argv: list[str], *, input: str, **_: Any) -> subprocess.CompletedProcess[str]:
    """The command in this process: a hundred starts of Python would take half a minute."""
    with _ONE_AT_A_TIME:
        return run_doctor(*argv[1:], stdin=input)


def score(
    shared: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *options: str
) -> dict[str, float]:
    spec = importlib.util.spec_from_file_location("score", shared / "corpus/score.py")
    assert spec
    assert spec.loader
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    monkeypatch.setattr(program, "subprocess", SimpleNamespace(run=command, TimeoutExpired=subprocess.TimeoutExpired))
    monkeypatch.setattr(sys, "argv", ["score.py", *options])
    program.main()
    return {name: float(value) for name, value in re.findall(r"(\w+) ([\d.]+)", capsys.readouterr().out)}


def test_with_what_is_known_of_the_machine(
    shared: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("yaml")
    found = score(shared, monkeypatch, capsys, "--facts")
    assert found["failed"] == 0
    assert found["top1"] >= 0.90
    assert found["top3"] >= 0.97
    assert found["wrong"] <= 6  # a launch that failed speaks of the program first; a crash is quoted as undetermined


@pytest.mark.slow
def test_with_the_log_alone(
    shared: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("yaml")
    found = score(shared, monkeypatch, capsys)
    assert found["failed"] == 0
    assert found["top1"] >= 0.78
