"""Environments with folders behind links: what pip writes there is undone, or the fix is refused."""

from __future__ import annotations

import os
import pathlib
import shutil
from collections.abc import Callable

import pytest
from healthy import ANSWERED
from made_up_repairs import apply, make_plan, make_report, pip_step, undo
from made_up_wheels import tree

from tfgpu_doctor.fix.bounds import Bounds, NotPossible, check_bounds, find_bounds
from tfgpu_doctor.fix.installer import run_pip
from tfgpu_doctor.fix.plan import PipStep
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts.python import Distribution, Target


def real_bounds(venv: pathlib.Path) -> Bounds:
    return find_bounds(Host(), str(venv / "bin/python"))


def target_of(venv: pathlib.Path) -> Target:
    pip = Distribution(name="pip", version="25.0", folder=str(venv))
    return Target(attempt=ANSWERED, executable=str(venv / "bin/python"), prefix=str(venv), distributions=(pip,))


def move_behind_link(folder: pathlib.Path, place: pathlib.Path, *, relative: bool = False) -> None:
    """Move a folder to another place, and leave a link to it."""
    place.parent.mkdir(parents=True, exist_ok=True)
    folder.rename(place)
    folder.symlink_to(os.path.relpath(place, folder.parent) if relative else place)


@pytest.mark.slow
@pytest.mark.parametrize("helps", [True, False])
@pytest.mark.parametrize("linked", ["site-packages", "lib", "bin", "site-packages inside"])
def test_what_is_behind_a_link_is_restored(
    venv: pathlib.Path, site: pathlib.Path, tmp_path: pathlib.Path, linked: str, helps: bool
) -> None:
    """An upgrade replaces programs and adds data: the lists of its files lead there through the link.

    The pip of a virtual environment removes nothing that is outside of it; that of conda does.
    """
    if linked == "site-packages inside":
        move_behind_link(site, venv / "all/packages", relative=True)
    else:
        move_behind_link({"site-packages": site}.get(linked, venv / linked), tmp_path / "scratch" / linked)

    def pip(step: PipStep, lock: int, beat: Callable[[], None]) -> None:
        run_pip(step, Host(), folder=str(venv), lock=lock, on_tick=beat)
        (venv / "bin/mine.sh").write_text("mine")

    before, bounds = tree(tmp_path), real_bounds(venv)
    plan = make_plan(pip_step(venv, "install", "colours==2.0"))
    check_bounds(bounds, plan, target_of(venv))
    applied = apply(plan, venv, pip=pip, look_again=lambda: make_report("pass" if helps else "fail"), bounds=bounds)
    assert applied.repaired == helps
    if helps:
        assert (site / "colours/red.py").read_text() == "RED = 'new'\n"
        assert (venv / "bin/old-colour").exists() == (linked != "site-packages inside")
        assert (venv / "share/colours/table.txt").exists()
        assert undo(venv, bounds=bounds) is not None
    (venv / "bin/mine.sh").unlink()  # a person's, which stays
    assert tree(tmp_path) == before


def test_packages_behind_a_link_are_put_back(venv: pathlib.Path, site: pathlib.Path, tmp_path: pathlib.Path) -> None:
    move_behind_link(site, tmp_path / "scratch/site-packages")

    def pip(step: object, lock: int, beat: object) -> None:
        (site / "colours/red.py").unlink()
        (site / "colours/red.py").write_text("RED = 'new'\n")
        (site / "colours/more.py").write_text("")
        shutil.rmtree(site / "colours/gone")
        (venv / "bin/old-colour").unlink()

    before, bounds = tree(tmp_path), real_bounds(venv)
    assert apply(make_plan(pip_step(venv, "install", "x")), venv, pip=pip, bounds=bounds).repaired
    assert list((venv / ".tfgpu-doctor/0001/kept").iterdir())
    assert undo(venv, bounds=bounds) is not None
    assert tree(tmp_path) == before


@pytest.mark.parametrize("name", ["nvidia", "nvidia/cudnn", "nvidia/cudnn/lib"])
def test_a_package_of_another_environment_is_not_written_to(
    venv: pathlib.Path, site: pathlib.Path, tmp_path: pathlib.Path, name: str
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (site / name).parent.mkdir(parents=True, exist_ok=True)
    (site / name).symlink_to(shared)
    with pytest.raises(NotPossible, match=rf"{site / name} is a link to {shared}: .*or run the commands yourself"):
        check_bounds(real_bounds(venv), make_plan(pip_step(venv, "install", "x")), target_of(venv))
    check_bounds(real_bounds(venv), make_plan(), target_of(venv))  # no pip


def test_links_of_ordinary_environments_are_no_hindrance(
    venv: pathlib.Path, site: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """The environment itself, lib64, a folder in it (conda's PyTorch), files (uv --link-mode symlink), an editable install."""
    (tmp_path / "cache").write_text("")
    (site / "alias").symlink_to("colours")
    (venv / "include/ATen").mkdir(parents=True)
    (site / "colours/ATen").symlink_to(venv / "include/ATen")
    (site / "loop").symlink_to("loop")
    (site / "colours/file.py").symlink_to(tmp_path / "cache")
    (site / "nowhere").symlink_to(tmp_path / "gone")
    (site / "__editable__.mine.pth").write_text(f"{tmp_path}\n")
    if not (venv / "lib64").exists():
        (venv / "lib64").symlink_to("lib")
    (tmp_path / "alias").symlink_to(venv)
    for folder in (venv, tmp_path / "alias"):
        bounds = real_bounds(folder)
        assert bounds.aliases == {}
        check_bounds(bounds, make_plan(pip_step(folder, "install", "x")), target_of(folder))
