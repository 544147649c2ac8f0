"""`with tfgpu_doctor.trace():` around a program's own code: what it records and prints. Without TensorFlow."""

from __future__ import annotations

import pathlib
import sys
import threading
import types
from typing import Any

import made_trace
import pytest

from tfgpu_doctor.tracing.notebook import trace


class OpError(Exception):
    """As TensorFlow's errors."""


class Profiler:
    """As TensorFlow's: each recording holds a made-up training of so many steps; after the last it refuses."""

    def __init__(self, *steps: int, refusal: str = "") -> None:
        self.steps, self.refusal = steps, refusal
        self.folders: list[pathlib.Path] = []
        self.spent = threading.Event()  # the last recording is written

    def start(self, folder: str) -> None:
        if len(self.folders) == len(self.steps):
            raise OpError(self.refusal)
        self.folders.append(pathlib.Path(folder))

    def stop(self) -> None:
        made_trace.save(self.folders[-1], made_trace.training(steps=self.steps[len(self.folders) - 1]))
        if len(self.folders) == len(self.steps):
            self.spent.set()


def profiler(monkeypatch: pytest.MonkeyPatch, *steps: int, refusal: str = "") -> Profiler:
    """Let a module with this profiler be TensorFlow."""
    made, tensorflow = Profiler(*steps, refusal=refusal), types.ModuleType("tensorflow")
    parts: dict[str, Any] = {
        "profiler": types.SimpleNamespace(experimental=made),
        "errors": types.SimpleNamespace(OpError=OpError),
    }
    vars(tensorflow).update(parts)
    monkeypatch.setitem(sys.modules, "tensorflow", tensorflow)
    return made


@pytest.mark.parametrize(("steps", "verdict"), [(12, "compute_bound"), (2, "too_short")])
def test_a_block_that_ends_at_once_is_recorded_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], steps: int, verdict: str
) -> None:
    """Its one recording ends with the block, whatever it holds, and its answer is printed."""
    made = profiler(monkeypatch, steps, steps)
    with trace(seconds=60.0) as answer:
        pass
    assert answer.report is not None
    assert (answer.report.verdict, answer.report.steps.count, answer.problem) == (verdict, steps, "")
    assert len(made.folders) == 1
    assert not made.folders[0].exists()
    said = capsys.readouterr().out
    assert answer.report.title in said
    assert "nothing was recorded" not in said


def test_a_recording_that_is_too_short_is_followed_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    made = profiler(monkeypatch, 2, 12)
    with trace(seconds=0.0, show=False) as answer:
        assert made.spent.wait(60.0)
    assert answer.report is not None
    assert (answer.report.verdict, answer.report.steps.count, answer.problem) == ("compute_bound", 12, "")


@pytest.mark.parametrize(
    ("refusal", "problem"),
    [
        ("another profiler is at work\nand more of that", "another profiler is at work"),
        ("", "OpError"),
        ("\n", "OpError"),
    ],
)
def test_a_profiler_that_refuses(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], refusal: str, problem: str
) -> None:
    profiler(monkeypatch, refusal=refusal)
    with trace() as answer:
        pass
    assert answer.report is None
    assert capsys.readouterr().out == f"tfgpu-doctor: nothing was recorded: {problem}\n"
    assert answer._repr_html_() == f"<p>{problem}</p>"


def test_an_answer_that_is_not_to_be_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    profiler(monkeypatch, 12)
    with trace(show=False) as answer:
        pass
    assert answer.report is not None
    assert capsys.readouterr().out == ""


def test_a_block_that_fails_prints_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    made = profiler(monkeypatch, 12)
    with pytest.raises(KeyError, match="mine"), trace():
        raise KeyError("mine")
    assert len(made.folders) == 1
    assert capsys.readouterr().out == ""


def test_one_object_records_two_blocks(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The second block is judged by itself: of one that cannot be recorded, the first block's answer is none."""
    profiler(monkeypatch, 12, 9, refusal="another profiler is at work")
    answer, counts = trace(seconds=60.0), []
    for _ in range(3):
        with answer:
            pass
        counts.append(answer.report and answer.report.steps.count)
    assert counts == [12, 9, None]
    assert capsys.readouterr().out.endswith("tfgpu-doctor: nothing was recorded: another profiler is at work\n")


def test_one_object_records_one_block_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    profiler(monkeypatch, 12)
    with trace(show=False) as answer, pytest.raises(RuntimeError, match="records a block already"):
        answer.__enter__()
    assert answer.report is not None
