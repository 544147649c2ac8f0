"""tools/measure_flaky.py: a run that tested nothing is no run without failures."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest
from doctor_command import clean_environment
from locations import ROOT

TESTS = """
import pytest
pytestmark = pytest.mark.timed
def test_passes(): pass
def test_fails(): raise AssertionError("it has a fault")
"""


@pytest.fixture
def project(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_two.py").write_text(TESTS)
    (tmp_path / "others").mkdir()
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = timed\naddopts = -rfE -p no:cacheprovider\n")
    return tmp_path


def run(project: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The tool in that folder."""
    command = [sys.executable, str(ROOT / "tools/measure_flaky.py"), "--busy", "0", "--workers", "0"]
    return subprocess.run(
        [*command, *arguments], cwd=project, env=clean_environment(TMPDIR=str(project)), capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip


def test_failures_are_counted(project: pathlib.Path) -> None:
    done = run(project, "--runs", "2")
    assert "2 of 2  tests/test_two.py::test_fails" in done.stdout
    assert "it has a fault" in done.stdout
    assert "exit code" not in done.stdout
    assert done.returncode == 1


def test_tests_that_are_named_replace_all(project: pathlib.Path) -> None:
    done = run(project, "--runs", "2", "tests/test_two.py::test_passes")
    assert re.findall(r"run \d: (\d) passed in", done.stdout) == ["1", "1"]
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["others"], "exit code 5, no tests were collected"),
        (["-k", "others"], "exit code 5, no tests were collected"),
        (["--no-such-option"], "exit code 4, wrong usage:"),
        (["tests/test_two.py::test_absent"], "exit code 4, wrong usage:"),
        (["-p", "no_such_plugin"], "No module named 'no_such_plugin'"),
    ],
)
def test_a_run_without_tests_has_failed(arguments: list[str], told: str, project: pathlib.Path) -> None:
    done = run(project, "--runs", "1", *arguments)
    assert told in done.stdout
    assert re.search(r"^1 of 1  pytest ended with exit code \d$", done.stdout, re.MULTILINE)
    assert done.stderr == ""
    assert done.returncode == 1
