"""What a run of the tests leaves to another run, and that it says so."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import left_out
import pytest
from doctor_command import clean_environment
from locations import TESTS

_TESTS = """
import hypothesis, pytest
@pytest.mark.slow
def test_slow(): pass
def test_quick(): pass
@hypothesis.settings(deadline=None)
@hypothesis.given(hypothesis.strategies.integers())
def test_repeated(number): pass
"""
_QUICK_ALONE = """
def test_another(): pass
"""
_UNNAMED = """
import pytest
MARK = "sl" + "ow"
@getattr(pytest.mark, MARK)
def test_it(): pass
"""
_SLOW = "1  slow tests: `tox -e full` runs them"
_QUICK = "1  quick tests, and those of 1 files: `tox` runs them"


def run(folder: pathlib.Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")
    path = os.pathsep.join([str(TESTS / "support"), str(TESTS)])
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "left_out", *options],
        cwd=folder, env=clean_environment(PYTHONPATH=path), capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("options", "ran", "said"),
    [
        (("-n", "1"), {"test_quick", "test_repeated", "test_another"}, {_SLOW}),
        (("-n", "0", "--full"), {"test_slow", "test_quick", "test_repeated", "test_another"}, set()),
        (("-n", "0", "--full", "--left-out"), {"test_slow", "test_repeated"}, {_QUICK}),
        (("-n", "1", "--full", "--left-out"), {"test_slow", "test_repeated"}, {_QUICK}),
    ],
)
def test_what_is_left_out(tmp_path: pathlib.Path, options: tuple[str, ...], ran: set[str], said: set[str]) -> None:
    (tmp_path / "test_three.py").write_text(_TESTS)
    (tmp_path / "test_alone.py").write_text(_QUICK_ALONE)
    done = run(tmp_path, "-v", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {*re.findall(r"test_(?:three|alone)\.py::(\w+)", done.stdout)} == ran
    assert {words for words in (_SLOW, _QUICK) if words in done.stdout} == said


def test_a_slow_test_that_no_run_would_see_is_an_error_of_the_quick_run(tmp_path: pathlib.Path) -> None:
    (tmp_path / "test_unnamed.py").write_text(_UNNAMED)
    done = run(tmp_path)
    assert done.returncode == 4, done.stdout + done.stderr
    assert "--left-out would not see the slow tests in" in done.stderr
    assert "test_unnamed.py: name their mark there" in done.stderr


def test_what_is_named_is_there() -> None:
    """A file or a test that has another name now would run twice."""
    for name in (*left_out._NO_DIFFERENCE, *left_out._BUT, *left_out._TESTS):
        file, _, function = name.partition("::")
        assert (TESTS / file).exists(), name
        assert not function or f"def {function}(" in (TESTS / file).read_text("utf-8"), name
