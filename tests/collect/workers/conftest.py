"""Fixtures of the tests of what runs in child processes: every Python of this machine that a target may be."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from every import sampled

import tfgpu_doctor.collect.workers

PROGRAMS = pathlib.Path(tfgpu_doctor.collect.workers.__file__).parent
VERSIONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
LONG_S = 120


@dataclass(frozen=True)
class Interpreter:
    """A virtual environment of one version of Python, and the interpreter that it was made of."""

    version: tuple[int, int]
    python: pathlib.Path
    site: pathlib.Path
    base: pathlib.Path

    @property
    def prefix(self) -> pathlib.Path:
        return self.python.parent.parent

    def run(
        self, *arguments: str | pathlib.Path, cwd: pathlib.Path, python: pathlib.Path | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run this Python in a folder, with a clean environment and `variables`."""
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "CONDA", "VIRTUAL"))
        }
        command = [str(python or self.python), *map(str, arguments)]
        return subprocess.run(
            command, cwd=cwd, env={**kept, "PYTHONDONTWRITEBYTECODE": "1", **variables}, capture_output=True, text=True,
            timeout=LONG_S, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def answers(
        self,
        program: str,
        *arguments: str | pathlib.Path,
        cwd: pathlib.Path,
        python: pathlib.Path | None = None,
        **variables: str,
    ) -> list[dict[str, Any]]:
        """The JSON objects that a program of `workers/` says."""
        done = self.run(PROGRAMS / f"{program}.py", *arguments, cwd=cwd, python=python, **variables)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]


# The Python below, where the one found is that of a virtual environment: its links lead there. (sys._base_executable
# names the environment's own before 3.11.)
_WHICH = """
import os, sys, venv
print('%d.%d' % sys.version_info[:2], os.path.realpath(sys.executable))
"""


def candidates(version: str) -> list[str]:
    """Where an interpreter of that version may be: on $PATH, and among pyenv's."""
    found = [shutil.which(f"python{version}") or ""]
    for folder in (os.environ.get("PYENV_ROOT", ""), os.path.expanduser("~/.pyenv")):
        found += map(
            str, sorted(pathlib.Path(folder).glob(f"versions/{version}.*/bin/python{version}")) if folder else ()
        )
    return [each for each in found if each]


def found_python(version: str) -> pathlib.Path | None:
    """An interpreter of that version that runs; a shim of pyenv may be there without the version that it stands for."""
    for candidate in candidates(version):
        said = subprocess.run(
            [candidate, "-c", _WHICH],
            capture_output=True, text=True, timeout=LONG_S, check=False,
        )  # fmt: skip
        if said.returncode == 0 and said.stdout.split(" ", 1)[0] == version:
            return pathlib.Path(said.stdout.split(" ", 1)[1].strip())
    return None


TRIED = tuple(version for version in VERSIONS if candidates(version))


@pytest.fixture(scope="session")
def tried_versions() -> tuple[str, ...]:
    """The versions of Python that the programs run on here."""
    return TRIED


@pytest.fixture(scope="session", params=sampled(TRIED, max(len(TRIED) - 1, 1)))  # the oldest and the newest always
def interpreter(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Interpreter:
    """A virtual environment without any package, of each version of Python in turn."""
    base = found_python(request.param)
    if base is None:
        pytest.skip(f"no Python {request.param} of this machine runs")
    folder = tmp_path_factory.mktemp(f"python{request.param}") / "venv"
    subprocess.run([str(base), "-m", "venv", "--without-pip", str(folder)], check=True, timeout=LONG_S)
    (site,) = folder.glob("lib/python3*/site-packages")
    major, minor = map(int, request.param.split("."))
    return Interpreter((major, minor), folder / "bin/python", site, base)


@pytest.fixture(autouse=True)
def no_core_files() -> Iterator[None]:
    """Children that die of a signal leave no core file in the working folder, though the limit allows it, as in a container."""
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_CORE)
    before = set(os.listdir())
    resource.setrlimit(resource.RLIMIT_CORE, (limits[1], limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_CORE, limits)
    assert not [name for name in set(os.listdir()) - before if name.startswith("core")]
