"""What stands in the way of an undo: the files of another user, folders that are read-only, other disks, and a full one."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from made_up_repairs import apply, bounds_of, make_plan, make_report, pip_step, undo
from made_up_wheels import tree

from tfgpu_doctor.fix.archive import has_records, is_unfinished
from tfgpu_doctor.fix.bounds import NotPossible
from tfgpu_doctor.fix.installer import StepFailed

_COLLEAGUE = 65534  # nobody, in every Linux and macOS that counts users in 16 bits
_PAGE = bytes(4096)
Pip = Callable[[object, int, object], None]


@contextmanager
def colleague() -> Iterator[None]:
    """Act as another user, who shares the group with the one who runs the tests."""
    os.seteuid(_COLLEAGUE)
    try:
        yield
    finally:
        os.seteuid(0)


def fill(folder: pathlib.Path) -> pathlib.Path:
    """An environment with a package of three files, the first of which an update leaves alone."""
    package = folder / "lib/python3/site-packages/colours"
    package.mkdir(parents=True)
    for name in ("blue.py", "green.py", "red.py"):
        (package / name).write_text(f"SHADE = 'old {name}'\n")
    return package


def update(package: pathlib.Path) -> None:
    """Do as pip: replace files, add some in a folder of their own, and remove none in place."""
    for name in ("green.py", "red.py"):
        (package / name).unlink()
        (package / name).write_text("SHADE = 'new'\n")
    (package / "more").mkdir()
    (package / "more/pink.py").write_text("SHADE = 'pink'\n")


def updating(package: pathlib.Path) -> Pip:
    """A pip that does nothing else."""
    return lambda step, lock, beat: update(package)


def own_entries(folder: pathlib.Path) -> dict[str, tuple[object, ...]]:
    """The tree of an environment without the records, and the owner of everything in it."""
    found = {name: seen for name, seen in tree(folder).items() if not name.startswith(".tfgpu-doctor")}
    return {name: (*seen, (folder / name).lstat().st_uid) for name, seen in found.items()}


@pytest.fixture
def shared_environment() -> Iterator[pathlib.Path]:
    """An environment of the tests' own user in which the members of the group may change everything."""
    if sys.platform == "win32" or os.geteuid() != 0:
        pytest.skip("only root can act as another user")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # pytest's own folders are closed to other users
        package = fill(pathlib.Path(folder))
        for path in (pathlib.Path(folder), *pathlib.Path(folder).rglob("*")):
            path.chmod(0o2775 if path.is_dir() else 0o664)
        with colleague():
            is_open = os.access(package / "red.py", os.W_OK, effective_ids=True)
        if not is_open:
            pytest.skip(f"{folder} is not open to other users")
        yield pathlib.Path(folder)


@pytest.fixture
def package(shared_environment: pathlib.Path) -> pathlib.Path:
    """The package in the shared environment."""
    return shared_environment / "lib/python3/site-packages/colours"


def test_fix_of_a_shared_environment_is_taken_back(shared_environment: pathlib.Path, package: pathlib.Path) -> None:
    before = own_entries(shared_environment)
    plan = make_plan(pip_step(shared_environment, "install", "x"))
    with colleague():
        applied = apply(plan, shared_environment, pip=updating(package), look_again=lambda: make_report("fail"))
    assert not applied.repaired
    assert own_entries(shared_environment) == before
    assert not has_records(bounds_of(shared_environment))


def test_fix_of_a_shared_environment_is_undone(shared_environment: pathlib.Path, package: pathlib.Path) -> None:
    before = own_entries(shared_environment)
    with colleague():
        assert apply(make_plan(pip_step(shared_environment, "x")), shared_environment, pip=updating(package)).repaired
        assert undo(shared_environment) is not None
    assert own_entries(shared_environment) == before


def test_a_path_that_cannot_be_restored_does_not_hold_up_the_others(
    shared_environment: pathlib.Path, package: pathlib.Path
) -> None:
    """The group may no longer write to the package's folder, but to one beside it."""
    beside = package.parent / "zinc"
    beside.mkdir()
    beside.chmod(0o2775)
    (beside / "white.py").write_text("SHADE = 'old'\n")
    (beside / "white.py").chmod(0o664)
    before = own_entries(shared_environment)

    def pip(step: object, lock: int, beat: object) -> None:
        update(package)
        (beside / "white.py").unlink()
        (beside / "white.py").write_text("SHADE = 'new'\n")

    with colleague():
        assert apply(make_plan(pip_step(shared_environment, "x")), shared_environment, pip=pip).repaired
    package.chmod(0o2755)
    said = rf"{package}/\S+ \(and 2 more\) cannot be restored: Permission denied\. .* `tfgpu-doctor fix --undo`"
    with colleague(), pytest.raises(NotPossible, match=said):
        undo(shared_environment)
    assert (beside / "white.py").read_text() == "SHADE = 'old'\n"
    assert not (package / "more/pink.py").exists()
    package.chmod(0o2775)
    with colleague():
        assert undo(shared_environment) is not None
    assert own_entries(shared_environment) == before


def test_a_path_that_cannot_be_removed_does_not_hold_up_the_others(
    shared_environment: pathlib.Path, package: pathlib.Path
) -> None:
    before = own_entries(shared_environment)
    with colleague():
        assert apply(make_plan(pip_step(shared_environment, "x")), shared_environment, pip=updating(package)).repaired
    os.chown(package / "more", 0, 0)
    (package / "more").chmod(0o2755)
    said = f"{package}/more/pink.py cannot be restored: Permission denied"
    with colleague(), pytest.raises(NotPossible, match=said):
        undo(shared_environment)
    assert (package / "red.py").read_text() == "SHADE = 'old red.py'\n"
    (package / "more").chmod(0o2775)
    with colleague():
        assert undo(shared_environment) is not None
    assert own_entries(shared_environment) == before


def test_bytecode_that_another_user_wrote_stays(shared_environment: pathlib.Path, package: pathlib.Path) -> None:
    """Python wrote it into a folder that the group may not change."""
    with colleague():
        assert apply(make_plan(pip_step(shared_environment, "x")), shared_environment, pip=updating(package)).repaired
    cache = package / "more/__pycache__"
    cache.mkdir(mode=0o755)
    (cache / "pink.cpython-313.pyc").write_bytes(b"x")
    with colleague():
        undone = undo(shared_environment)
    assert undone is not None
    assert undone.left == (str(package / "more"),)
    assert not (package / "more/pink.py").exists()
    assert (package / "red.py").read_text() == "SHADE = 'old red.py'\n"
    assert not has_records(bounds_of(shared_environment))


@pytest.fixture
def own_environment(shared_environment: pathlib.Path) -> pathlib.Path:
    """An environment of another user, to whom modes apply as they do not to root."""
    for path in (shared_environment, *shared_environment.rglob("*")):
        os.chown(path, _COLLEAGUE, -1)
    return shared_environment


@pytest.mark.parametrize("end", ["kept", "undone once", "not fixed", "pip fails"])
def test_read_only_packages_are_restored(own_environment: pathlib.Path, package: pathlib.Path, end: str) -> None:
    """pip moves a folder aside in which it may not write, makes a new one, and gives itself the right to remove the old."""

    def pip(step: object, lock: int, beat: object) -> None:
        aside = package.parent / "~olours"
        package.rename(aside)
        package.mkdir()
        (package / "green.py").write_text("SHADE = 'new'\n")
        if end == "pip fails":
            raise StepFailed("pip ended with exit code 1")
        for folder in (aside, aside / "deep"):
            folder.chmod(0o755)
        shutil.rmtree(aside)

    with colleague():
        (package / "deep").mkdir()
        (package / "deep/grey.py").write_text("SHADE = 'old'\n")
        for folder in (package / "deep", package):
            folder.chmod(0o555)
    before = own_entries(own_environment)
    plan = make_plan(pip_step(own_environment, "install", "x"))
    with colleague():
        report = make_report("fail" if end == "not fixed" else "pass")
        applied = apply(plan, own_environment, pip=pip, look_again=lambda: report)
        if end == "undone once":
            package.chmod(0o555)  # as an undo does that is interrupted before its end
        if applied.repaired:
            assert undo(own_environment) is not None
    assert own_entries(own_environment) == before
    assert not has_records(bounds_of(own_environment))


@contextmanager
def small_disk(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """A file system of 1 MiB in a new folder."""
    folder.mkdir(parents=True)
    try:
        words = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
        mounted = subprocess.run(words, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("no file system can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def disk(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A file system of 1 MiB."""
    with small_disk(tmp_path / "disk") as folder:
        yield folder


def use_up(disk: pathlib.Path, file: pathlib.Path) -> None:
    """Write to a file until the disk is full."""
    with suppress(OSError), open(file, "wb", buffering=0) as filler:
        while True:
            filler.write(_PAGE)
    assert os.statvfs(disk).f_bavail == 0


def test_fix_that_filled_the_disk_is_taken_back(disk: pathlib.Path) -> None:
    package = fill(disk / "venv")

    def pip(step: object, lock: int, beat: object) -> None:
        update(package)
        use_up(disk, package / "more/libred.so")
        raise StepFailed("pip ended with exit code 1")

    before = tree(disk / "venv")
    applied = apply(make_plan(pip_step(disk / "venv", "install", "x")), disk / "venv", pip=pip)
    assert not applied.repaired
    assert applied.why == "pip ended with exit code 1"
    assert tree(disk / "venv") == before


def test_fix_that_changed_nothing_on_a_full_disk_leaves_nothing(disk: pathlib.Path) -> None:
    """pip's download cache is on the same disk, and stays."""

    def pip(step: object, lock: int, beat: object) -> None:
        use_up(disk, disk / "cache")
        raise StepFailed("pip ended with exit code 1")

    fill(disk / "venv")
    before = tree(disk / "venv")
    assert not apply(make_plan(pip_step(disk / "venv", "install", "x")), disk / "venv", pip=pip).repaired
    assert tree(disk / "venv") == before


def test_fix_is_undone_on_a_full_disk(disk: pathlib.Path) -> None:
    package = fill(disk / "venv")
    before = tree(disk / "venv")
    assert apply(make_plan(pip_step(disk / "venv", "install", "x")), disk / "venv", pip=updating(package)).repaired
    use_up(disk, disk / "data")
    assert undo(disk / "venv") is not None
    assert tree(disk / "venv") == before


def test_full_disk_that_stays_full_is_said_with_what_to_do(disk: pathlib.Path) -> None:
    package = fill(disk / "venv")

    def pip(step: object, lock: int, beat: object) -> None:
        update(package)
        (package / "more/pink.py").write_text("")
        use_up(disk, disk / "data")
        raise StepFailed("pip ended with exit code 1")

    before = tree(disk / "venv")
    said = (
        rf"{disk}/venv/\.tfgpu-doctor/0001 cannot be written: No space left on device\. .* not fully restored: free space, "
        "then run `tfgpu-doctor fix --undo`"
    )
    with pytest.raises(NotPossible, match=said):
        apply(make_plan(pip_step(disk / "venv", "install", "x")), disk / "venv", pip=pip)
    assert is_unfinished(bounds_of(disk / "venv"))
    (disk / "data").unlink()
    assert undo(disk / "venv") is not None
    assert tree(disk / "venv") == before


@pytest.mark.parametrize(("name", "is_kept"), [("data/set.tfrecord", False), ("lib/python3/site-packages/x.py", True)])
def test_of_another_disk_only_folders_of_pip_are_kept(tmp_path: pathlib.Path, name: str, is_kept: bool) -> None:
    """`python -m venv .` in a project into which a data set is mounted, and an environment whose lib is another disk."""
    kept: dict[str, str] = {}

    def pip(step: object, lock: int, beat: object) -> None:
        kept.update(json.loads((venv / ".tfgpu-doctor/0001/manifest.json").read_bytes())["kept"])
        update(package)

    venv = tmp_path / "project"
    with small_disk(venv / name.split("/", maxsplit=1)[0]):
        package = fill(venv)
        (venv / name).write_text("content")
        before = tree(venv)
        assert apply(make_plan(pip_step(venv, "install", "x")), venv, pip=pip).repaired
        assert undo(venv) is not None
        assert tree(venv) == before
    assert "lib/python3/site-packages/colours/red.py" in kept
    assert (name in kept) == is_kept


def test_copies_for_which_there_is_no_space_are_not_begun(disk: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file system has no hard links."""
    package = fill(disk / "venv")
    (package / "big.so").write_bytes(bytes(700 << 10))
    monkeypatch.setattr(os, "link", lambda *_, **__: (_ for _ in ()).throw(OSError(1, "Operation not permitted")))
    before = tree(disk)
    said = (
        r"0\.7 MiB of \S+/venv must be copied, .*/\.tfgpu-doctor has 0\.\d MiB free: nothing was changed\. Free space"
    )
    with pytest.raises(NotPossible, match=said):
        apply(make_plan(pip_step(disk / "venv", "install", "x")), disk / "venv", pip=updating(package))
    assert tree(disk) == before
