"""A library of the doctor's own that is missing or broken: one line names it, and what to do."""

from __future__ import annotations

import os
import pathlib
import shlex
import subprocess
import sys

import pytest
from doctor_command import clean_environment


def broken_library(folder: pathlib.Path, content: str) -> str:
    """A PYTHONPATH with which the doctor finds that msgspec, as if it were in its own site-packages."""
    (folder / "site").mkdir()
    (folder / "site/msgspec.py").write_text(content)
    (folder / "start").mkdir()
    (folder / "start/sitecustomize.py").write_text(
        "import os, sys\n"
        f"sys.path.insert(sys.path.index(os.path.dirname(os.__file__)) + 1, {str(folder / 'site')!r})\n"  # before the real one
    )
    return str(folder / "start")


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
    path = broken_library(tmp_path, content)
    done = subprocess.run(
        [sys.executable, "-m", "tfgpu_doctor", "check", "--quick"], capture_output=True, text=True, check=False, timeout=120,
        env=clean_environment(PYTHONPATH=path),
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
    path = broken_library(tmp_path, "raise ImportError('this one is broken')")
    (tmp_path / "my env").symlink_to(sys.prefix)
    python = tmp_path / "my env" / os.path.relpath(sys.executable, sys.prefix)
    done = subprocess.run(
        [str(python), "-m", "tfgpu_doctor", "check", "--quick"], capture_output=True, text=True, check=False, timeout=120,
        env=clean_environment(PYTHONPATH=path),
    )  # fmt: skip
    _, _, again = done.stderr.partition("install it again, in a checkout of tfgpu-doctor: ")
    assert shlex.split(again) == [str(python), "-m", "pip", "install", "--force-reinstall", "."]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("dataclasses", "VALUE = 1"),  # a part of it is missing
        ("json", "raise ImportError('of the project')"),
        ("json", "this is no Python"),
        ("dataclasses", "raise KeyError(3)"),
        ("msgspec", "raise ImportError('an old copy')"),  # installed for the doctor too
    ],
)
def test_a_file_on_pythonpath_that_hides_a_module_is_named(tmp_path: pathlib.Path, name: str, content: str) -> None:
    """LLNL/maestrowf#175, iterative/dvc#1995: to install the doctor again does not help."""
    (tmp_path / f"{name}.py").write_text(content)
    done = subprocess.run(
        [sys.executable, "-m", "tfgpu_doctor", "check", "--quick"], capture_output=True, text=True, check=False, timeout=120,
        env=clean_environment(PYTHONPATH=str(tmp_path)),
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
    assert done.stderr.endswith(
        f": {tmp_path / name}.py hides the module {name}; rename that file, or take its folder out of PYTHONPATH "
        "(`unset PYTHONPATH`)\n"
    )
    assert "install it again" not in done.stderr


def test_a_library_that_is_on_pythonpath_alone_hides_nothing(tmp_path: pathlib.Path) -> None:
    (tmp_path / "no_such_library.py").write_text("raise ImportError('this one is broken')")
    path = f"{broken_library(tmp_path, 'import no_such_library')}:{tmp_path}"
    done = subprocess.run(
        [sys.executable, "-m", "tfgpu_doctor", "check", "--quick"], capture_output=True, text=True, check=False, timeout=120,
        env=clean_environment(PYTHONPATH=path),
    )  # fmt: skip
    assert "install it again" in done.stderr


def test_a_command_that_needs_a_temporary_folder_says_that_there_is_none(tmp_path: pathlib.Path) -> None:
    """In a container with a read-only root file system Python would take the working folder."""
    (tmp_path / "sitecustomize.py").write_text(
        "from tfgpu_doctor.host import scratch\nscratch._PLACES = ()\n"
        "import tempfile, os\ntempfile._candidate_tempdir_list = lambda: [os.getcwd()]\n"
    )
    work = tmp_path / "work"
    work.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "tfgpu_doctor", "trace", "--record-with", "true"], capture_output=True, text=True, check=False,
        timeout=120, cwd=work, env=clean_environment(PYTHONPATH=str(tmp_path), TMPDIR="/proc/nowhere", HOME=str(tmp_path / "home")),
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.splitlines()[-1].startswith(
        "tfgpu-doctor: no folder for temporary files can be written to (TMPDIR="
    )
    assert list(work.iterdir()) == []
