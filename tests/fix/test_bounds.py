"""The bounds of a repair: what is part of an environment, for each kind of environment."""

from __future__ import annotations

import os
import pathlib
import sys

import pytest

from tfgpu_doctor.fix.bounds import Bounds, NotPossible, find_bounds
from tfgpu_doctor.host import Host


def program(path: pathlib.Path, answer: str) -> str:
    """Something that answers as an interpreter does that runs list_places.py."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{answer}'\n")
    path.chmod(0o755)
    return str(path)


def answer(prefix: pathlib.Path, *, virtual: bool = False, conda: bool = False) -> str:
    site = f"{prefix}/lib/python3.12/site-packages"
    paths = (
        f'"purelib": "{site}", "platlib": "{site}", "scripts": "{prefix}/bin", "include": "{prefix}/include/python3.12"'
    )
    flags = f'"virtual": {str(virtual).lower()}, "conda": {str(conda).lower()}'
    return f'{{"prefix": "{prefix}", {flags}, "paths": {{{paths}, "data": "{prefix}"}}}}'


def test_virtual_environment(venv: pathlib.Path) -> None:
    prefix = os.path.realpath(venv)
    (site,) = pathlib.Path(prefix).glob("lib/python3*/site-packages")
    assert find_bounds(Host(), str(venv / "bin/python")) == Bounds(prefix, "virtual", (prefix,), (str(site),))


def test_conda_environment_leaves_its_cache_and_the_others_alone(tmp_path: pathlib.Path) -> None:
    prefix = os.path.realpath(tmp_path)
    bounds = find_bounds(Host(), program(tmp_path / "bin/python", answer(tmp_path, conda=True)))
    assert bounds == Bounds(prefix, "conda", (prefix,), (f"{prefix}/lib/python3.12/site-packages",))
    assert bounds.left_out == (f"{prefix}/.tfgpu-doctor", f"{prefix}/pkgs", f"{prefix}/envs")


def test_another_python_is_changed_only_where_pip_installs(tmp_path: pathlib.Path) -> None:
    prefix = os.path.realpath(tmp_path)
    bounds = find_bounds(Host(), program(tmp_path / "bin/python", answer(tmp_path)))
    assert bounds.kind == "base"
    expected = ("lib/python3.12/site-packages", "bin", "share", "etc", "man", "include/python3.12")
    assert bounds.places == tuple(f"{prefix}/{place}" for place in expected)


def test_this_python() -> None:
    assert find_bounds(Host(), sys.executable).prefix == os.path.realpath(sys.prefix)


def test_broken_interpreter_of_a_virtual_environment(tmp_path: pathlib.Path) -> None:
    (tmp_path / "pyvenv.cfg").write_text("home = /gone\n")
    assert find_bounds(Host(), str(tmp_path / "bin/python")).prefix == str(tmp_path)


def test_no_interpreter(tmp_path: pathlib.Path) -> None:
    with pytest.raises(NotPossible, match="name one that runs"):
        find_bounds(Host(), str(tmp_path / "bin/python"))


@pytest.mark.parametrize("linked", ["lib", "lib/python3.12/site-packages"])
def test_packages_behind_a_link(tmp_path: pathlib.Path, linked: str) -> None:
    """A conda environment whose packages are on a larger disk."""
    prefix = tmp_path / "conda"
    python = program(prefix / "bin/python", answer(prefix, conda=True))
    place = tmp_path / "scratch" / linked
    place.mkdir(parents=True)
    (prefix / linked).parent.mkdir(parents=True, exist_ok=True)
    (prefix / linked).symlink_to(place)
    site = os.path.realpath(tmp_path / "scratch/lib/python3.12/site-packages")
    bounds = find_bounds(Host(), python)
    assert bounds.places == (os.path.realpath(prefix), site)
    assert bounds.packages == (site,)
    assert bounds.aliases == {"../scratch/lib/python3.12/site-packages": "lib/python3.12/site-packages"}
