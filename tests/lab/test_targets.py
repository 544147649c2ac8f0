"""How the lab's targets are made, with pip itself and without a network."""

from __future__ import annotations

import pathlib
import types
import zipfile

import pytest
from lab import targets


def _wheel(folder: pathlib.Path) -> str:
    """The path of a wheel with one module, which pip installs without an index."""
    path = folder / "spare-1.0-py3-none-any.whl"
    about = "spare-1.0.dist-info/"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("spare.py", "")
        wheel.writestr(about + "METADATA", "Metadata-Version: 2.1\nName: spare\nVersion: 1.0\n")
        wheel.writestr(about + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(about + "RECORD", "")
    return str(path)


def test_a_part_bears_its_name_only_when_it_is_whole(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = _wheel(tmp_path)
    monkeypatch.setattr(targets, "RELEASES", ())
    monkeypatch.setattr(targets, "PARTS", {"whole": wheel, "lost": str(tmp_path / "lost-1.0-py3-none-any.whl")})
    with pytest.raises(SystemExit, match="could not install every target"):
        targets.make(tmp_path / "targets")
    assert (targets.part(tmp_path / "targets", "whole") / "spare.py").is_file()
    assert not targets.part(tmp_path / "targets", "lost").exists()

    monkeypatch.setitem(targets.PARTS, "lost", wheel)
    targets.make(tmp_path / "targets")
    assert (targets.part(tmp_path / "targets", "lost") / "spare.py").is_file()


def test_a_disk_that_is_too_small_is_told(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(targets.shutil, "disk_usage", lambda place: types.SimpleNamespace(free=5e9))
    targets.make(tmp_path)
    said, wrong = capfd.readouterr()
    assert said.startswith("The lab is skipped: its targets need ")
    assert said.endswith(", 5 GB are free. Make room, or name another disk in LAB_TARGETS and TMPDIR.\n")
    assert not wrong
    assert not list(tmp_path.iterdir())
