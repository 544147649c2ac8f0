"""What is installed is what the folders hold: nothing forgotten, nothing beside the package."""

from __future__ import annotations

import importlib.metadata
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest
from locations import ROOT
from packaging.requirements import Requirement

from tfgpu_doctor.host.toml_text import decode_toml

FOLDERS = {"doctor": "tfgpu_doctor", "checks": "tfgpu_doctor/checks", "perf_tests": "tfgpu_doctor/perf_tests"}


def expected() -> set[str]:
    """The files of the three folders, as they are to be named in the package."""
    found = set()
    for folder, package in FOLDERS.items():
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and not {"__pycache__", ".pytest_cache"} & set(path.parts):
                found.add(f"{package}/{path.relative_to(ROOT / folder).as_posix()}")
    return found


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with the source distribution and the wheel built from it, as they would be published."""
    if importlib.util.find_spec("setuptools") is None:
        pytest.skip("building needs setuptools in this environment")
    tree, out = tmp_path_factory.mktemp("tree") / "checkout", tmp_path_factory.mktemp("dist")
    ours = shutil.ignore_patterns(".*", "*.egg-info", "build", "dist", "__pycache__")
    shutil.copytree(ROOT, tree, ignore=ours)  # setuptools leaves files behind in the tree that it builds
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(tree)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return out


def test_the_wheel_holds_every_file_and_no_other(built: pathlib.Path) -> None:
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        inside = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert inside == expected()


@pytest.mark.slow
def test_what_would_be_published_is_well_formed(built: pathlib.Path) -> None:
    pytest.importorskip("twine")
    files = sorted(map(str, built.iterdir()))
    assert len(files) == 2
    for command in (
        ["twine", "check", "--strict", *files],
        ["check_wheel_contents", "--toplevel", "tfgpu_doctor", files[0]],
    ):
        done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_what_is_installed_can_be_found() -> None:
    found = [each for each in importlib.metadata.distributions(name="tfgpu-doctor") if each.read_text("RECORD")]
    names = {file.as_posix() for file in (found[0].files or [] if found else [])}
    if any("editable" in name for name in names):
        pytest.skip("an editable installation lists no files")
    assert expected() <= names
    tops = {name.split("/")[0] for name in names if not name.startswith((".", "__")) and ".dist-info" not in name}
    assert tops == {"tfgpu_doctor"}


@pytest.mark.parametrize(
    ("system", "machine", "python", "has_wheels"),
    [
        ("linux", "x86_64", "3.13", True),
        ("linux", "aarch64", "3.13", True),
        ("darwin", "arm64", "3.10", True),
        ("win32", "AMD64", "3.14", True),
        ("win32", "ARM64", "3.13", False),
        ("linux", "ppc64le", "3.13", False),
        ("linux", "x86_64", "3.15", False),
    ],
)
def test_what_is_written_in_rust_is_required_where_it_has_wheels(
    system: str, machine: str, python: str, has_wheels: bool
) -> None:
    project = decode_toml((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (marker,) = [Requirement(each).marker for each in project["dependencies"] if each.startswith("ahocorasick-rs")]
    assert marker
    environment = {"sys_platform": system, "platform_machine": machine, "python_version": python}
    assert marker.evaluate(environment) == has_wheels
