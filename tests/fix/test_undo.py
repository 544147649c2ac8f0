"""Undo takes back what the fix did and nothing else, and refuses where somebody changed the same files since."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess

import msgspec
import pytest
from doctor_command import clean_environment, run_doctor
from every import sampled
from made_up_repairs import apply, make_plan, pip_step, undo
from made_up_wheels import pip, tree

from tfgpu_doctor.fix.bounds import NotPossible
from tfgpu_doctor.fix.page import describe_undone
from tfgpu_doctor.fix.record import Unreadable


@pytest.fixture
def fixed(venv: pathlib.Path, fixed_template: pathlib.Path) -> dict[str, tuple[object, ...]]:
    """The environment before colours 2.0 was installed into it by a fix, as it is now."""
    before = tree(venv)
    shutil.rmtree(venv)
    shutil.copytree(fixed_template, venv, symlinks=True)
    return before


def test_nothing_to_undo_changes_nothing(venv: pathlib.Path) -> None:
    before = tree(venv)
    assert undo(venv) is None
    assert tree(venv) == before


@pytest.mark.slow
def test_what_was_installed_since_stays(venv: pathlib.Path, fixed: dict[str, object], wheels: pathlib.Path) -> None:
    pip(venv, "install", "paint", wheels=wheels)
    assert undo(venv) is not None
    after = tree(venv)
    theirs = ("paint", "site-packages/__pycache__")
    assert {name: entry for name, entry in after.items() if not any(each in name for each in theirs)} == fixed
    assert any(name.endswith("paint.py") for name in after)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["edited", "of the same size", "a link", "a folder", "removed", "back again"])
def test_file_that_somebody_changed_is_named_and_kept(
    venv: pathlib.Path, site: pathlib.Path, fixed: dict[str, object], how: str
) -> None:
    file = site / "colours/red.py"
    if how == "edited":
        file.write_text("RED = 'mine'\n")
    elif how == "of the same size":
        file.write_text("RED = 'NEW'\n")
    elif how == "back again":
        file = site / "colours/gone/__init__.py"
        file.parent.mkdir()
        file.write_text("mine")
    else:
        file.unlink()
    if how == "a link":
        file.symlink_to("blue.py")
    if how == "a folder":
        file.mkdir()
    changed = tree(venv)
    record = os.path.realpath(venv / ".tfgpu-doctor/0001")
    with pytest.raises(NotPossible, match=f"{file} changed after the fix.* then delete {record}"):
        undo(venv)
    assert tree(venv) == changed


def test_without_the_record_that_no_undo_can_use_the_next_fix_can_begin(
    venv: pathlib.Path, site: pathlib.Path, fixed: dict[str, object]
) -> None:
    (site / "colours/red.py").write_text("RED = 'mine'\n")
    with pytest.raises(NotPossible, match="then delete "):
        undo(venv)
    shutil.rmtree(venv / ".tfgpu-doctor/0001")
    assert undo(venv) is None
    assert (site / "colours/red.py").read_text() == "RED = 'mine'\n"
    assert apply(make_plan(pip_step(venv, "install", "x")), venv, pip=lambda *_: None).repaired


@pytest.mark.slow
def test_touched_file_is_not_changed(venv: pathlib.Path, site: pathlib.Path, fixed: dict[str, object]) -> None:
    (site / "colours/red.py").touch()
    undo(venv)
    assert tree(venv) == fixed


def test_added_file_that_somebody_removed_is_no_hindrance(
    venv: pathlib.Path, site: pathlib.Path, fixed: dict[str, object]
) -> None:
    (site / "colours/more/blue.py").unlink()
    undo(venv)
    assert tree(venv) == fixed


@pytest.mark.slow
def test_bytecode_written_since_goes_with_its_module(
    venv: pathlib.Path, site: pathlib.Path, fixed: dict[str, object]
) -> None:
    code = "import colours.more.blue"
    subprocess.run([venv / "bin/python", "-OO", "-c", code], check=True, env=clean_environment())
    assert list((site / "colours/more/__pycache__").glob("*.opt-2.pyc"))
    undo(venv)
    assert {name: entry for name, entry in tree(venv).items() if ".opt-2." not in name} == fixed
    assert not (site / "colours/more").exists()


def test_bytecode_that_another_python_wrote_goes_with_its_module(
    venv: pathlib.Path, site: pathlib.Path, fixed: dict[str, object]
) -> None:
    cache = site / "colours/more/__pycache__"
    cache.mkdir(exist_ok=True)
    (cache / "blue.cpython-38.pyc").write_bytes(b"code")
    undone = undo(venv)
    assert undone is not None
    assert undone.left == ()
    assert tree(venv) == fixed


def test_files_that_others_put_into_a_new_folder_stay(
    venv: pathlib.Path, site: pathlib.Path, fixed: dict[str, object]
) -> None:
    (site / "colours/more/mine.txt").write_text("mine")
    undone = undo(venv)
    assert undone is not None
    assert undone.left == (os.path.realpath(site / "colours/more"),)
    assert (site / "colours/more/mine.txt").read_text() == "mine"
    assert not (site / "colours/more/blue.py").exists()


def test_undo_of_one_fix_leaves_no_trace_of_the_record(venv: pathlib.Path, fixed: dict[str, object]) -> None:
    undo(venv)
    assert not (venv / ".tfgpu-doctor").exists()


def test_damaged_record_is_said_to_be_so(venv: pathlib.Path, fixed: dict[str, object]) -> None:
    (venv / ".tfgpu-doctor/0001/journal.json").write_text("{")
    with pytest.raises(Unreadable, match=r"journal\.json cannot be read"):
        undo(venv)


def test_record_of_a_newer_doctor_is_left_to_it(venv: pathlib.Path, fixed: dict[str, object]) -> None:
    path = venv / ".tfgpu-doctor/0001/journal.json"
    path.write_bytes(msgspec.json.encode({**msgspec.json.decode(path.read_bytes()), "schema": 99}))
    with pytest.raises(Unreadable, match="newer tfgpu-doctor"):
        undo(venv)


@pytest.mark.parametrize("schema", sampled(["1", None, [], {"a": 1}], 2))
def test_record_of_a_schema_that_is_no_number_is_said_to_be_so(
    venv: pathlib.Path, fixed: dict[str, object], schema: object
) -> None:
    path = venv / ".tfgpu-doctor/0001/journal.json"
    path.write_bytes(msgspec.json.encode({**msgspec.json.decode(path.read_bytes()), "schema": schema}))
    with pytest.raises(Unreadable, match="is not a record of a fix"):
        undo(venv)


@pytest.mark.slow
@pytest.mark.parametrize("remains", ["gone-0002/kept", "0002"])
def test_remains_of_what_was_cut_short_are_cleared_and_no_other_fix_undone(
    venv: pathlib.Path, fixed: dict[str, object], remains: str
) -> None:
    after = tree(venv)
    (venv / ".tfgpu-doctor" / remains).mkdir(parents=True)
    undone = undo(venv)
    assert undone is not None and undone.journal is None
    assert tree(venv) == after
    undo(venv)
    assert tree(venv) == fixed


def test_a_lost_journal_is_said_and_nothing_removed(venv: pathlib.Path, fixed: dict[str, object]) -> None:
    (venv / ".tfgpu-doctor/0001/journal.json").unlink()
    before = tree(venv)
    with pytest.raises(NotPossible, match=r"0001 has no journal\.json any more: what that fix changed is not known"):
        undo(venv)
    assert tree(venv) == before != fixed


def test_a_lost_journal_holds_up_the_next_fix(venv: pathlib.Path, fixed: dict[str, object]) -> None:
    (venv / ".tfgpu-doctor/0001/journal.json").unlink()
    before = tree(venv)
    with pytest.raises(NotPossible, match="nothing can be undone"):
        apply(make_plan(pip_step(venv, "install", "paint")), venv)
    assert tree(venv) == before


def test_without_a_journal_the_list_of_files_suffices(venv: pathlib.Path, site: pathlib.Path) -> None:
    before = tree(venv)
    with pytest.raises(KeyboardInterrupt):
        apply(make_plan(pip_step(venv, "install", "colours==2.0")), venv, pip=lambda *_: killed(venv, site))
    assert tree(venv) != before
    undone = undo(venv)
    assert undone is not None
    assert describe_undone(undone, str(venv)).startswith(
        "Undone: a fix whose journal is lost, from the list of all files"
    )
    assert tree(venv) == before


def killed(venv: pathlib.Path, site: pathlib.Path) -> None:
    """Change the environment, and end the process in the only way in which nothing is undone; the journal goes."""
    (site / "colours/red.py").unlink()
    (site / "colours/more.py").write_text("")
    (venv / ".tfgpu-doctor/0001/journal.json").unlink()
    raise KeyboardInterrupt


def test_leftovers_of_an_undo_that_ended_early_are_told_as_such(tmp_path: pathlib.Path) -> None:
    (tmp_path / ".tfgpu-doctor/gone-0001/kept").mkdir(parents=True)
    said = describe_undone(undo(tmp_path), str(tmp_path))
    assert said.startswith("Undone: the leftovers of an interrupted fix are removed, and ")
    assert not (tmp_path / ".tfgpu-doctor").exists()


def test_an_empty_record_promises_nothing(venv: pathlib.Path) -> None:
    (venv / ".tfgpu-doctor/0001").mkdir(parents=True)
    undone = undo(venv)
    said = describe_undone(undone, str(venv))
    assert said.startswith("Nothing to undo: a fix ended before it recorded anything")
    assert "as it was before" not in said
    assert not (venv / ".tfgpu-doctor").exists()


def test_the_record_of_another_user_is_not_undone_by_root(venv: pathlib.Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder to another user")
    (venv / ".tfgpu-doctor/0001").mkdir(parents=True)
    os.chown(venv / ".tfgpu-doctor", 65534, -1)
    done = run_doctor("fix", "--undo", "--python", str(venv))
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{os.path.realpath(venv)}/.tfgpu-doctor belongs to the user nobody" in done.stderr
    assert (venv / ".tfgpu-doctor/0001").exists()
