"""Environments to mend: a virtual environment with pip and a made-up package, of which there is a newer version."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys

import pytest
from made_up_repairs import apply, make_plan, pip_step
from made_up_wheels import make_wheel, offline, pip


@pytest.fixture(autouse=True)
def posix() -> None:
    if sys.platform == "win32":
        pytest.skip("fixes are applied where files can be locked and linked")


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with the wheels colours 1.0 and 2.0, and paint."""
    folder = tmp_path_factory.mktemp("wheels")
    old = {"colours/__init__.py": "NUMBER = 1\n", "colours/red.py": "RED = 'old'\n", "colours/gone/__init__.py": ""}
    new = {
        "colours/__init__.py": "NUMBER = 2\n",
        "colours/red.py": "RED = 'new'\n",
        "colours/more/blue.py": "BLUE = 1\n",
    }
    new["colours-2.0.data/data/share/colours/table.txt"] = "blue\n"
    make_wheel(folder, "colours", "1.0", old, {"say-colour": "colours:main", "old-colour": "colours:main"})
    make_wheel(folder, "colours", "2.0", new, {"say-colour": "colours.red:main"})
    make_wheel(folder, "paint", "1.0", {"paint.py": "PAINT = 1\n"})
    return folder


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory, wheels: pathlib.Path) -> pathlib.Path:
    """A virtual environment with pip and colours 1.0."""
    folder = tmp_path_factory.mktemp("template") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip(folder, "install", "colours==1.0", wheels=wheels)
    return folder


@pytest.fixture
def venv(
    tmp_path: pathlib.Path, template: pathlib.Path, wheels: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> pathlib.Path:
    """A copy of the template of one's own; pip finds the wheels."""
    for name, value in offline(wheels).items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "venv"
    shutil.copytree(template, folder, symlinks=True)
    return folder


@pytest.fixture(scope="session")
def fixed_template(
    tmp_path_factory: pytest.TempPathFactory, template: pathlib.Path, wheels: pathlib.Path
) -> pathlib.Path:
    """A copy of the template into which a fix has installed colours 2.0."""
    folder = tmp_path_factory.mktemp("fixed") / "venv"
    shutil.copytree(template, folder, symlinks=True)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in offline(wheels).items():
            patch.setenv(name, value)
        assert apply(make_plan(pip_step(folder, "install", "colours==2.0")), folder).repaired
    return folder


@pytest.fixture
def site(venv: pathlib.Path) -> pathlib.Path:
    """Its folder of packages."""
    (folder,) = venv.glob("lib/python3*/site-packages")
    return folder
