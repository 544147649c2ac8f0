"""The door through which environments are changed: nothing outside of the folders given, and each file in one step."""

from __future__ import annotations

import os
import pathlib

import pytest

from tfgpu_doctor.host.changes import Changes, OutsideTarget
from tfgpu_doctor.host.entries import look


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """A target with a link out of it."""
    folder = tmp_path / "target"
    folder.mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("theirs")
    (folder / "way-out").symlink_to(tmp_path / "outside")
    return folder


@pytest.mark.parametrize("where", ["../outside/new", "way-out/new", "../target-of-another", "way-out/../../new"])
def test_nothing_is_made_outside(folder: pathlib.Path, where: str) -> None:
    changes = Changes([str(folder)])
    path = f"{folder}/{where}"
    for act in (
        lambda: changes.make_folder(path),
        lambda: changes.write(path, b""),
        lambda: changes.make_link(path, "x"),
        lambda: changes.put_back(str(folder / "x"), path),
        lambda: changes.keep(str(folder / "x"), path),
        lambda: changes.copy(str(folder / "x"), path),
    ):
        with pytest.raises(OutsideTarget):
            act()
    assert not os.path.lexists(path)


def test_nothing_is_removed_outside(folder: pathlib.Path) -> None:
    changes = Changes([str(folder)])
    path = str(folder / "way-out/file")
    entry = look(path)
    assert entry is not None
    for act in (
        lambda: changes.remove(path, entry), lambda: changes.forget(path), lambda: changes.set_mode(path, 0o777),
        lambda: changes.discard(str(folder / "..")), lambda: changes.rename(path, str(folder / "mine")),
    ):  # fmt: skip
        with pytest.raises(OutsideTarget):
            act()
    assert pathlib.Path(path).read_text() == "theirs"


def test_a_link_out_is_removed_itself(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path = str(folder / "way-out")
    entry = look(path)
    assert entry is not None and Changes([str(folder)]).remove(path, entry)
    assert (tmp_path / "outside/file").exists()


def test_kept_file_survives_that_the_first_is_replaced(folder: pathlib.Path) -> None:
    changes = Changes([str(folder)])
    (folder / "a").write_text("old")
    assert changes.keep(str(folder / "a"), str(folder / "kept"))
    (folder / "b").write_text("new")
    (folder / "b").replace(folder / "a")
    changes.put_back(str(folder / "kept"), str(folder / "a"))
    assert (folder / "a").read_text() == "old"
    assert sorted(os.listdir(folder)) == ["a", "kept", "way-out"]


@pytest.mark.parametrize("name", ["easy-install.pth", "colours.egg-link"])
def test_files_that_pip_rewrites_are_copied(folder: pathlib.Path, name: str) -> None:
    changes = Changes([str(folder)])
    (folder / name).write_text("old")
    assert not changes.keep(str(folder / name), str(folder / "kept"))
    changes.copy(str(folder / name), str(folder / "kept"))
    (folder / name).write_text("new")
    assert (folder / "kept").read_text() == "old"


def test_leftover_of_a_killed_put_back_is_replaced(folder: pathlib.Path) -> None:
    changes = Changes([str(folder)])
    (folder / "kept").write_text("old")
    (folder / ".tfgpu-doctor-part").write_text("half")
    changes.put_back(str(folder / "kept"), str(folder / "a"))
    changes.put_back(str(folder / "kept"), str(folder / "a"))
    assert sorted(os.listdir(folder)) == ["a", "kept", "way-out"]


def test_folder_with_something_in_it_stays(folder: pathlib.Path) -> None:
    entry = look(str(folder))
    assert entry is not None
    assert not Changes([str(folder)]).remove(str(folder), entry)
    assert folder.exists()


def test_mode_that_is_there_already_is_not_set(folder: pathlib.Path) -> None:
    """Only its owner may set the mode of a file, even to what it is."""
    changes = Changes([str(folder)])
    file = folder / "a"
    file.touch(mode=0o640)
    file.chmod(0o640)
    at_ns = file.stat().st_ctime_ns
    changes.set_mode(str(file), 0o640)
    assert file.stat().st_ctime_ns == at_ns
    changes.set_mode(str(file), 0o600)
    assert file.stat().st_mode & 0o777 == 0o600
