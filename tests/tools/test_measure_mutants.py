"""What is sampled for planted faults, that a switch plants exactly one, and what a run that was killed leaves."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import types
import venv

import measure_mutants
import pytest
from doctor_command import clean_environment
from locations import ROOT
from mutants import installed
from mutants.sites import SWITCH, planted, sites_of

CODE = """
def is_older(version, minimum):
    found = []
    if version < minimum:
        found.append(version)
    return found
"""


def test_every_pattern_finds_modules(tmp_path: pathlib.Path) -> None:
    for entry in [*(ROOT / "doctor").iterdir(), ROOT / "checks"]:  # as they lie once installed
        (tmp_path / entry.name).symlink_to(entry)
    sampled = measure_mutants.files_of(tmp_path)
    assert [pattern for pattern in measure_mutants._FILES if not any(tmp_path.glob(pattern))] == []

    judging = [path for path in (ROOT / "checks").rglob("*.py") if "\n@check(" in path.read_text("utf-8")]
    assert len(judging) > 40
    assert [path for path in judging if path.relative_to(ROOT).as_posix() not in sampled] == []


@pytest.mark.parametrize("place", range(3))
def test_a_switch_plants_one_fault(place: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("code")
    (folder / "code.py").write_text(CODE)
    sites = sites_of(folder, "code.py")
    assert [site.kind for site in sites] == ["condition", "comparison", "statement"]

    switch = types.ModuleType(SWITCH)
    on: list[int] = []
    switch.active = lambda number: number in on  # type: ignore[attr-defined]
    room: dict[str, types.FunctionType] = {}
    sys.modules[SWITCH] = switch
    try:
        exec(planted(CODE, {place: 7}), room)
    finally:
        del sys.modules[SWITCH]
    cases = [(1, 2), (2, 2), (3, 2)]
    assert [room["is_older"](*case) for case in cases] == [[1], [], []]
    on.append(7)
    assert [room["is_older"](*case) for case in cases] == {
        "condition": [[], [2], [3]],
        "comparison": [[1], [2], []],
        "statement": [[], [], []],
    }[sites[place].kind]


TEST = """
import os, signal
from tfgpu_doctor.checks.age import is_older

def test_it():
    assert is_older(1, 2) == [1] and is_older(2, 2) == []

def test_the_run_goes_on():
    if os.path.exists("ends"):
        os.kill(os.getppid(), signal.SIGKILL)
"""


@pytest.fixture
def package(tmp_path: pathlib.Path) -> pathlib.Path:
    """An installed package with one module."""
    package = tmp_path / "site/tfgpu_doctor"
    (package / "checks").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "checks/age.py").write_text(CODE)
    return package


@pytest.fixture
def original(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out/original"


def test_what_a_killed_run_planted_is_undone_by_the_next(package: pathlib.Path, original: pathlib.Path) -> None:
    installed.plant(package, sites_of(package, "checks/age.py"), original)
    assert installed.is_planted(package)
    assert installed.make_clean(package, original) == ""
    assert (package / "checks/age.py").read_text() == CODE
    assert [each.name for each in package.parent.iterdir()] == ["tfgpu_doctor"]
    assert list(original.parent.iterdir()) == []


def test_a_run_that_was_killed_while_it_restored_is_undone(package: pathlib.Path, original: pathlib.Path) -> None:
    installed.plant(package, sites_of(package, "checks/age.py"), original)
    package.rename(package.with_name("tfgpu_doctor.planted"))
    assert installed.make_clean(package, original) == ""
    assert (package / "checks/age.py").read_text() == CODE
    assert [each.name for each in package.parent.iterdir()] == ["tfgpu_doctor"]


def test_a_project_that_was_installed_again_stays(package: pathlib.Path, original: pathlib.Path) -> None:
    installed.plant(package, sites_of(package, "checks/age.py"), original)
    (package / "checks/age.py").write_text(f"# newer\n{CODE}")
    assert installed.make_clean(package, original) == ""
    assert (package / "checks/age.py").read_text().startswith("# newer")
    assert not original.exists()


def test_faults_without_their_original_are_refused(package: pathlib.Path, original: pathlib.Path) -> None:
    installed.plant(package, sites_of(package, "checks/age.py"), original)
    shutil.rmtree(original)
    assert "install the project again" in installed.make_clean(package, original)
    shutil.rmtree(package)
    assert "does not exist" in installed.make_clean(package, original)


@pytest.fixture
def environment(tmp_path: pathlib.Path) -> pathlib.Path:
    """A Python with that package, and the packages of this one; a test of it."""
    folder = tmp_path / "environment"
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for name in ("__init__.py", "checks/age.py", "perf_tests/entry.py"):  # pytest loads the last by its entry point
        (site / "tfgpu_doctor" / name).parent.mkdir(parents=True, exist_ok=True)
        (site / "tfgpu_doctor" / name).write_text(CODE if name == "checks/age.py" else "")
    (site / "behind.pth").write_text(sysconfig.get_path("purelib"))
    (tmp_path / "test_age.py").write_text(TEST)
    return folder


def measure(environment: pathlib.Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [str(environment / "bin/python"), str(ROOT / "tools/measure_mutants.py"), "out", "--workers", "1"]
    return subprocess.run(
        [*command, *options, "--pytest", "test_age.py -p no:cacheprovider"], cwd=environment.parent,
        env=clean_environment(), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_a_run_resumes_with_the_same_faults_alone(environment: pathlib.Path) -> None:
    """The first is ended in the middle of its tests: what it noted of them is not taken for all."""
    out = environment.parent / "out"
    (environment.parent / "ends").touch()
    ended = measure(environment)
    assert ended.returncode != 0
    assert not (out / "tests.jsonl").exists()
    (environment.parent / "ends").unlink()

    done = measure(environment)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((out / "mutants.json").read_text())
    assert [(row["kind"], row["verdict"]) for row in rows] == [
        ("condition", "killed"), ("comparison", "killed"), ("statement", "killed")
    ]  # fmt: skip
    (code,) = environment.glob("lib/python*/site-packages/tfgpu_doctor/checks/age.py")
    assert code.read_text() == CODE

    other = measure(environment, "--count", "2")
    assert other.returncode == 1
    assert "out has the results of another sample: count 300 is now 2, faults" in other.stderr
    (out / "sample.json").unlink()
    assert "does not say of which faults" in measure(environment).stderr
