"""A library of the doctor's own that is missing or broken: one line names it, and what to do."""

from __future__ import annotations

import os
import pathlib
import shlex
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
    assert "install it again, in a checkout of tfgpu-doctor: " in done.stderr
    assert "ulimit" not in done.stderr


def test_the_command_that_repairs_it_works_from_a_checkout(tmp_path: pathlib.Path) -> None:
    """The doctor is on no index; and a folder's name may contain a space."""
    (tmp_path / "msgspec.py").write_text("raise ImportError('this one is broken')")
    (tmp_path / "my env").symlink_to(sys.prefix)
    python = tmp_path / "my env" / os.path.relpath(sys.executable, sys.prefix)
    done = subprocess.run(
        [str(python), "-m", "tfgpu_doctor", "check", "--quick"], capture_output=True, text=True, check=False, timeout=120,
        env=clean_environment(PYTHONPATH=str(tmp_path)),
    )  # fmt: skip
    _, _, again = done.stderr.partition("install it again, in a checkout of tfgpu-doctor: ")
    assert shlex.split(again) == [str(python), "-m", "pip", "install", "--force-reinstall", "."]
