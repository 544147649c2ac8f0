"""Modules that hide others in a failed import: a real interpreter and a made-up TensorFlow, and once the real one."""

from __future__ import annotations

import os
import pathlib
import sys
from typing import Any

import pytest
from doctor_command import clean_environment, make_target
from installed import skip_without_tensorflow

from tfgpu_doctor.collect.import_path import copies_in_trouble
from tfgpu_doctor.collect.probe import Request
from tfgpu_doctor.collect.probes.runtime import runtime
from tfgpu_doctor.host import Files, Host
from tfgpu_doctor.model.facts.copies import Copy
from tfgpu_doctor.model.facts.python import Runtime

SIX = "from six.moves import range\n"


class Place:
    """A virtual environment with a TensorFlow of a few lines and a six, and a working folder."""

    def __init__(self, folder: pathlib.Path, tensorflow: str) -> None:
        self.python = make_target(folder / "venv", tensorflow) / "bin/python"
        (self.site,) = (folder / "venv").glob("lib/python3*/site-packages")
        self.install("six", "1.17.0", "six/__init__.py", "six/moves.py")
        self.folder = folder

    def install(self, name: str, version: str, *files: str) -> None:
        info = self.site / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))
        for file in files:
            write(self.site / file, "range = range\n")

    def run(self, **variables: str) -> Runtime:
        host = Host(environment=clean_environment(**variables))
        told: Runtime = runtime.function(host, Request(python=str(self.python), deadline_s=30))
        assert told.import_error or told.use_error
        return told


def write(path: pathlib.Path, text: str = "") -> pathlib.Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def place(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return Place(tmp_path, SIX)


def the_one(told: Runtime) -> Copy:
    (copy,) = told.copies
    return copy


def test_a_file_on_pythonpath(place: Place) -> None:
    file = write(place.folder / "lib/six.py", "x = 1\n")
    copy = the_one(place.run(PYTHONPATH=f"/nowhere{os.pathsep}{file.parent}"))
    assert (copy.name, copy.path, copy.named, copy.owner) == ("six", str(file), True, "")
    assert (copy.placed_by, copy.entry, copy.number, copy.others) == ("PYTHONPATH", str(file.parent), 2, ("/nowhere",))
    assert (copy.instead, copy.instead_owner) == (f"{place.site}/six/__init__.py", "six 1.17.0")


def test_a_relative_entry_of_pythonpath(place: Place) -> None:
    file = write(place.folder / "work/lib/six.py", "x = 1\n")
    copy = the_one(place.run(PYTHONPATH="lib"))
    assert (copy.path, copy.placed_by, copy.entry) == (str(file), "PYTHONPATH", "lib")


def test_a_relative_entry_of_pythonpath_with_a_safe_path(place: Place) -> None:
    """Then the working folder is not searched, but relative entries still begin there; older versions ignore the variable."""
    file = write(place.folder / "work/lib/six.py", "x = 1\n")
    copy = the_one(place.run(PYTHONPATH="lib", PYTHONSAFEPATH="1"))
    assert (copy.path, copy.placed_by, copy.entry) == (str(file), "PYTHONPATH", "lib")


def test_an_entry_of_pythonpath_by_a_link(place: Place) -> None:
    """Python follows no links when it puts an entry on its path."""
    write(place.folder / "lib/six.py", "x = 1\n")
    link = place.folder / "link"
    link.symlink_to(place.folder / "lib")
    copy = the_one(place.run(PYTHONPATH=str(link)))
    assert (copy.path, copy.placed_by, copy.entry) == (str(link / "six.py"), "PYTHONPATH", str(link))


def test_the_target_s_own_packages_by_a_link_hide_nothing(place: Place) -> None:
    """As with lib64 of a virtual environment, a link to lib: the file that comes later is the same one."""
    (place.site / "six/moves.py").unlink()
    link = place.folder / "link"
    link.symlink_to(place.site)
    assert place.run(PYTHONPATH=str(link)).copies == ()


def test_a_file_in_the_working_folder(place: Place) -> None:
    file = write(place.folder / "work/six.py", "raise SystemExit('usage: six')\n")
    copy = the_one(place.run())
    assert (copy.path, copy.placed_by, copy.entry) == (str(file), "working folder", str(file.parent))


def test_a_pth_file_that_puts_a_folder_first(place: Place) -> None:
    file = write(place.folder / "old/six/__init__.py")
    write(place.folder / "old/six-1.9.0.dist-info/RECORD", "six/__init__.py,,\n")
    write(place.site / "company.pth", f"# a comment\nimport sys; sys.path.insert(0, '{place.folder}/old')\n")
    copy = the_one(place.run())
    assert (copy.path, copy.owner, copy.instead_owner) == (str(file), "six 1.9.0", "six 1.17.0")
    assert (copy.placed_by, copy.file, copy.line) == (".pth file", f"{place.site}/company.pth", 2)


def test_code_at_the_start_that_hides_where_it_looks(place: Place) -> None:
    write(place.folder / "old/six.py")
    write(place.site / "sitecustomize.py", f"import sys\nsys.path.insert(0, '{place.folder}' + '/old')\n")
    assert the_one(place.run()).placed_by == "start of Python"


def test_a_package_that_becomes_none_by_a_file_named_init(place: Place) -> None:
    """`google` is a namespace that packages share: without __init__.py; one with it hides all of them."""
    write(place.site / "tensorflow/__init__.py", "import google.protobuf\n")
    place.install("protobuf", "5.28.3", "google/protobuf/__init__.py")
    file = write(place.folder / "lib/google/__init__.py")
    copy = the_one(place.run(PYTHONPATH=str(file.parent.parent)))
    assert (copy.name, copy.path, copy.instead) == ("google", str(file), f"{place.site}/google")


def test_a_package_in_a_namespace(place: Place) -> None:
    write(place.site / "tensorflow/__init__.py", "from google.protobuf import message\n")
    place.install("protobuf", "5.28.3", "google/protobuf/__init__.py", "google/protobuf/message.py")
    file = write(place.folder / "lib/google/protobuf/__init__.py")
    copy = the_one(place.run(PYTHONPATH=str(place.folder / "lib")))
    assert (copy.name, copy.path, copy.instead_owner) == ("google.protobuf", str(file), "protobuf 5.28.3")


def test_a_module_of_the_standard_library(place: Place) -> None:
    write(place.site / "tensorflow/__init__.py", "import colorsys\ncolorsys.rgb_to_hls(0, 0, 0)\n")
    write(place.folder / "work/colorsys.py")
    assert the_one(place.run()).instead == os.path.join(os.path.dirname(os.__file__), "colorsys.py")


def test_a_syntax_error_names_its_file(place: Place) -> None:
    file = write(place.folder / "lib/six.py", "print 'hello'\n")
    assert the_one(place.run(PYTHONPATH=str(file.parent))).named


def test_a_harmless_copy_is_not_blamed_for_what_an_installed_package_lacks(place: Place) -> None:
    """keras of the path asks for a part of the installed six, which is damaged."""
    write(place.site / "tensorflow/__init__.py", "import keras\n")
    place.install("keras", "3.10.0", "keras/__init__.py")
    (place.site / "six/moves.py").unlink()
    write(place.folder / "lib/keras/__init__.py", SIX)
    assert place.run(PYTHONPATH=str(place.folder / "lib")).copies == ()


def test_a_file_that_hides_nothing_is_not_told(place: Place) -> None:
    write(place.site / "tensorflow/__init__.py", "import ours\n")
    write(place.folder / "work/ours.py", "raise ValueError(1)\n")
    assert place.run().copies == ()


def test_the_user_site(tmp_path: pathlib.Path) -> None:
    site, mine = f"{tmp_path}/site", f"{tmp_path}/mine"
    for folder in (site, mine):
        write(pathlib.Path(folder) / "six.py")
    path = {"search_path": ["/lib/python3", mine, site], "standard": "/lib/python3", "sites": [site], "user_site": mine}
    (copy,) = copies_in_trouble(Files(), [{"file": f"{mine}/six.py", "named": True}], path, "")
    assert (copy["placed_by"], copy["instead"]) == ("user site", f"{site}/six.py")
    # An environment that comes before the user site is as it should be.
    path["search_path"] = ["/lib/python3", site, mine]
    assert copies_in_trouble(Files(), [{"file": f"{site}/six.py", "named": True}], path, "") == []


@pytest.mark.parametrize("said", [None, 3, [3], [{"file": 3}]])
def test_what_another_program_prints_is_ignored(said: Any) -> None:
    assert copies_in_trouble(Files(), said, {}, "") == []


@pytest.mark.tensorflow
def test_the_real_tensorflow(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The case that was reported: the exception names the file, and the cause was not known."""
    skip_without_tensorflow()
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path / "lib/typing_extensions.py", "Literal = None\n")
    host = Host(environment=clean_environment(PYTHONPATH=str(file.parent)))
    told: Runtime = runtime.function(host, Request(python=sys.executable, deadline_s=60))
    copy = the_one(told)
    assert (copy.name, copy.path, copy.placed_by) == ("typing_extensions", str(file), "PYTHONPATH")
    assert copy.instead_owner.startswith("typing_extensions ")
