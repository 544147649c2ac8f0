"""A library of the doctor's own that is missing or broken: one line names it, and what to do."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest
from doctor_command import clean_environment


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("raise ImportError('this one is broken')", "ImportError: this one is broken"),
        ("import no_such_library", "ModuleNotFoundError: No module named 'no_such_library'"),
        ("this is no Python", "SyntaxError: "),
        ("raise KeyError(3)", "KeyError: 3, in "),
    ],
    ids=["broken", "missing", "damaged", "other"],
)
def test_it_is_named(tmp_path: pathlib.Path, content: str, said: str) -> None:
    (tmp_path / "msgspec.py").write_text(content)
    done = subprocess.run(
        [sys.executable, "-m", "tfgpu_doctor", "check", "--quick"], capture_output=True, text=True, check=False, timeout=120,
        env=clean_environment(PYTHONPATH=str(tmp_path)),
    )  # fmt: skip
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "its own packages cannot be imported" in done.stderr
    assert said in done.stderr
    assert "install it again: " in done.stderr
    assert "ulimit" not in done.stderr
