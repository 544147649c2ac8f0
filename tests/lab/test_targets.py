"""How the lab's targets are made, with the installer itself and without a network."""

from __future__ import annotations

import pathlib
import shutil
import sys
import types
import zipfile

import pytest
from lab import targets


def _wheel(folder: pathlib.Path, name: str) -> str:
    """The path of a wheel with the module `spare`, which can be installed without an index."""
    path = folder / f"{name}-1.0-py3-none-any.whl"
    about = f"{name}-1.0.dist-info/"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("spare.py", "")
        wheel.writestr(about + "METADATA", "Metadata-Version: 2.1\nName: %s\nVersion: 1.0\n" % name)
        wheel.writestr(about + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(about + "RECORD", "")
    return str(path)


def test_a_part_bears_its_name_only_when_it_is_whole(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = _wheel(tmp_path, "whole")
    monkeypatch.setattr(targets, "RELEASES", ())
    monkeypatch.setattr(targets, "why_not", str)
    monkeypatch.setattr(targets, "PARTS", {"whole": wheel, "lost": str(tmp_path / "lost-1.0-py3-none-any.whl")})
    with pytest.raises(SystemExit, match="not every target"):
        targets.make(tmp_path / "targets")
    assert (targets.part(tmp_path / "targets", "whole") / "spare.py").is_file()
    assert not targets.part(tmp_path / "targets", "lost").exists()

    _wheel(tmp_path, "lost")
    targets.make(tmp_path / "targets")
    assert (targets.part(tmp_path / "targets", "lost") / "spare.py").is_file()


def test_a_folder_is_named_after_all_that_it_holds(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    before = targets.part(tmp_path, "cudart-11")
    monkeypatch.setitem(targets.PARTS, "cudart-11", "nvidia-cuda-runtime-cu11==11.7.99")
    assert targets.part(tmp_path, "cudart-11") != before


def test_an_environment_that_is_not_whole_is_no_target(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tmp_path / targets._keyed("2.18.1", targets._requirement("2.18.1"))
    made.mkdir()
    assert targets.find_targets(tmp_path) == {}
    (made / targets._DONE).touch()
    assert targets.find_targets(tmp_path) == {"2.18.1": made}
    monkeypatch.setattr(sys, "base_prefix", "/opt/another/python")
    assert targets.find_targets(tmp_path) == {}


def test_a_disk_that_is_too_small_is_told(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(targets, "why_not", str)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: types.SimpleNamespace(free=5e9))
    targets.make(tmp_path)
    said, wrong = capfd.readouterr()
    assert said.startswith("The lab is skipped: its targets need ")
    assert said.endswith(", 5 GB are free. Make room, or name another disk in LAB_TARGETS and TMPDIR.\n")
    assert not wrong
    assert not list(tmp_path.iterdir())
