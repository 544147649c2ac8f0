"""tools/measure_watch.py and tools/record_traces.py: programs that are named from another folder, or that never ran."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest
from doctor_command import clean_environment
from installed import skip_without_tensorflow
from locations import ROOT

MARKS = "import pathlib; pathlib.Path(__file__).with_suffix('.ran').touch()"


@pytest.fixture
def here(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with programs, and a TensorFlow by name alone, whose release the tools read."""
    for name, text in {"marks": MARKS, "fails": "raise SystemExit('it has a fault')"}.items():
        (tmp_path / "programs").mkdir(exist_ok=True)
        (tmp_path / f"programs/{name}.py").write_text(text)
    for place in ("tensorflow", "tensorflow-2.98.0.dist-info"):
        (tmp_path / "site" / place).mkdir(parents=True)
    (tmp_path / "site/tensorflow/__init__.py").touch()
    return tmp_path


def run(here: pathlib.Path, tool: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The tool in that folder, with its Python named relative to it."""
    python = os.path.relpath(sys.executable, here)
    command = [sys.executable, str(ROOT / "tools" / tool), *arguments, "--python", python]
    environment = clean_environment(PYTHONPATH=os.pathsep.join([str(here / "site"), os.environ.get("PYTHONPATH", "")]))
    return subprocess.run(command, capture_output=True, text=True, cwd=here, env=environment, timeout=300, check=False)


def truth(here: pathlib.Path, *programs: str, **row: str) -> tuple[str, ...]:
    rows = [{"program": name, **row} for name in programs]
    (here / "truth.json").write_text(json.dumps(rows))
    return "--truth", "truth.json", "--folder", "programs"


def test_a_program_that_never_ran_is_not_silent(here: pathlib.Path) -> None:
    done = run(here, "measure_watch.py", "hangs", *truth(here, "absent", "fails", "marks", kind=""))
    assert [line.split()[0] for line in done.stdout.splitlines() if "not run" in line][:3] == [
        "absent",
        "fails",
        "marks",
    ]
    assert " ok" not in done.stdout
    assert done.returncode == 1, done.stderr


def test_the_watched_program_is_found_from_another_folder(here: pathlib.Path) -> None:
    done = run(here, "measure_watch.py", "verdicts", "--seconds", "1", *truth(here, "marks", verdict="no_tensorflow"))
    assert (here / "programs/marks.ran").exists(), done.stderr
    assert "not run" in done.stdout
    assert done.returncode == 1


def test_programs_may_follow_options(here: pathlib.Path) -> None:
    done = run(
        here, "measure_watch.py", "verdicts", *truth(here, "marks", "fails", verdict="eager"), "--seconds", "1", "fails"
    )
    assert "fails eager" in done.stdout, done.stderr
    assert not (here / "programs/marks.ran").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["measure_watch.py", "cost", "marks"], "cost measures a training of its own: leave out marks"),
        (["measure_watch.py", "verdicts", "mark"], "no program is named mark; there are marks"),
        (["record_traces.py", "mark"], "no program is named mark; there are marks"),
    ],
)
def test_a_program_that_is_not_measured_is_refused(arguments: list[str], told: str, here: pathlib.Path) -> None:
    done = run(here, *arguments, *truth(here, "marks", verdict="eager"))
    assert told in done.stderr
    assert done.returncode == 2


def test_the_recorded_program_is_found_from_another_folder(here: pathlib.Path) -> None:
    """It is no training: there is nothing to record, and the exit code says so."""
    done = run(here, "record_traces.py", "--seconds", "1", *truth(here, "marks", verdict="eager"), "marks")
    assert (here / "programs/marks.ran").exists(), done.stdout + done.stderr
    assert "marks 2.98.0 eager not recorded WRONG" in done.stdout
    assert done.returncode == 1


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_training_that_is_silent_is_right(tmp_path: pathlib.Path) -> None:
    skip_without_tensorflow()
    programs = os.path.relpath(ROOT / "tests/tracing", tmp_path)
    (tmp_path / "truth.json").write_text(json.dumps([{"program": "short_epochs", "kind": ""}]))
    done = run(tmp_path, "measure_watch.py", "hangs", "--truth", "truth.json", "--folder", programs, "--seconds", "30")
    assert done.returncode == 0, done.stdout + done.stderr
