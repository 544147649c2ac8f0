"""Two recordings of one program: which is faster, by how much, and in which part of the step."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import made_trace
import pytest
from doctor_command import run_doctor

from tfgpu_doctor.tracing.compare import compare, in_words
from tfgpu_doctor.tracing.result import Comparison


def saved(folder: pathlib.Path, **training: Any) -> str:
    made_trace.save(folder, made_trace.training(**training))
    return str(folder)


def compared(now: str, before: str) -> tuple[Comparison, str]:
    report = made_trace.judged(now)[0]
    found = compare(report, made_trace.judged(before)[0])
    return found, in_words(report, found)


@pytest.fixture
def slow(tmp_path: pathlib.Path) -> str:
    """20 ms, half of them waiting for input."""
    return saved(tmp_path / "slow", step_ms=20, input_ms=10, compute_ms=8)


@pytest.fixture
def fast(tmp_path: pathlib.Path) -> str:
    """10 ms, nearly all of them computing."""
    return saved(tmp_path / "fast", step_ms=10, compute_ms=8)


def test_faster(slow: str, fast: str) -> None:
    found, words = compared(fast, slow)
    assert (found.ratio, found.step_ms, found.verdict) == (2.0, 20.0, "input_no_prefetch")
    assert found.file.startswith(slow)
    assert words == "A step takes 10.0 ms and took 20.0 ms: 2.00 times as fast."


def test_slower(slow: str, fast: str) -> None:
    found, words = compared(slow, fast)
    assert (found.ratio, found.verdict) == (0.5, "compute_bound")
    assert words == "A step takes 20.0 ms and took 10.0 ms: 2.00 times as long."


@pytest.mark.parametrize(
    ("step_ms", "words"), [(20.0, "as in the other"), (20.8, "as in the other"), (22.0, "times as long")]
)
def test_a_small_difference_is_none(tmp_path: pathlib.Path, step_ms: float, words: str) -> None:
    before = saved(tmp_path / "before", step_ms=20.0)
    now = saved(tmp_path / "now", step_ms=step_ms)
    assert words in compared(now, before)[1]


def test_the_same_recording(slow: str) -> None:
    found, words = compared(slow, slow)
    assert found.ratio == 1.0
    assert "as in the other recording" in words
    assert all(each.before_ms == each.now_ms for each in found.changes)


def test_the_largest_change_comes_first_and_the_parts_are_the_step(slow: str, fast: str) -> None:
    found, _ = compared(fast, slow)
    differences = [abs(each.now_ms - each.before_ms) for each in found.changes]
    assert differences == sorted(differences, reverse=True)
    assert (found.changes[0].part, round(found.changes[0].before_ms), found.changes[0].now_ms) == ("input", 10, 0.0)
    assert sum(each.before_ms for each in found.changes) == pytest.approx(20.0, abs=0.02)
    assert sum(each.now_ms for each in found.changes) == pytest.approx(10.0, abs=0.02)
    assert all(each.before_ms or each.now_ms for each in found.changes)


@pytest.mark.parametrize("without", ["now", "before"])
def test_a_recording_without_steps_is_not_compared(tmp_path: pathlib.Path, slow: str, without: str) -> None:
    made_trace.save(tmp_path / "empty", [made_trace.MadePlane("/host:CPU", [made_trace.MadeLine("python")])])
    empty = str(tmp_path / "empty")
    found, words = compared(empty, slow) if without == "now" else compared(slow, empty)
    assert found.ratio is None
    assert "cannot be compared" in words


@pytest.mark.parametrize("few", ["now", "before"])
def test_a_recording_of_few_steps_is_not_compared(tmp_path: pathlib.Path, slow: str, few: str) -> None:
    """One step may be as long as twenty others: it is no measure."""
    short = saved(tmp_path / "short", steps=2, step_ms=1)
    found, words = compared(short, slow) if few == "now" else compared(slow, short)
    assert found.ratio is None
    assert words == "The two cannot be compared: one of them has fewer than 3 steps."


@pytest.mark.parametrize("format_", ["text", "markdown", "html"])
def test_each_format_says_it(slow: str, fast: str, format_: str) -> None:
    done = run_doctor("trace", fast, "--compare", slow, "--format", format_)
    assert (done.returncode, done.stderr) == (0, ""), "the exit code is the first recording's"
    words = " ".join(done.stdout.split())
    assert "A step takes 10.0 ms and took 20.0 ms: 2.00 times as fast." in words.replace("\\", "")
    assert "waiting for input" in words
    assert words != " ".join(run_doctor("trace", fast, "--format", format_).stdout.split())


def test_json(slow: str, fast: str) -> None:
    done = run_doctor("trace", slow, "--compare", fast, "--format", "json")
    assert (done.returncode, done.stderr) == (1, "")
    document = json.loads(done.stdout)
    assert document["compared"]["ratio"] == 0.5
    assert document["compared"]["changes"][0]["part"] == "input"
    alone = json.loads(run_doctor("trace", slow, "--format", "json").stdout)
    assert alone["compared"] is None
    assert {**document, "compared": None} == alone


@pytest.mark.parametrize("format_", ["text", "markdown", "html", "json"])
def test_with_a_recording_without_steps(tmp_path: pathlib.Path, slow: str, format_: str) -> None:
    made_trace.save(tmp_path / "empty", [made_trace.MadePlane("/host:CPU", [made_trace.MadeLine("python")])])
    done = run_doctor("trace", slow, "--compare", str(tmp_path / "empty"), "--format", format_)
    assert (done.returncode, done.stderr) == (1, "")
    if format_ == "json":
        assert json.loads(done.stdout)["compared"]["ratio"] is None
    else:
        assert "cannot be compared" in " ".join(done.stdout.split())


def test_another_recording_that_cannot_be_read(tmp_path: pathlib.Path, slow: str) -> None:
    (tmp_path / "other.xplane.pb").write_text("no profile")
    done = run_doctor("trace", slow, "--compare", str(tmp_path / "other.xplane.pb"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"tfgpu-doctor: error: {tmp_path / 'other.xplane.pb'} ")
    assert done.stderr.count("\n") == 1
