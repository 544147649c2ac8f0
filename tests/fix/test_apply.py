"""A fix is applied with the real pip, kept if it mends, taken back if not, and undone byte for byte."""

from __future__ import annotations

import os
import pathlib
import stat
import subprocess
import sys
from collections.abc import Callable

import pytest
from made_up_repairs import apply, bounds_of, make_plan, make_report, pip_step, undo
from made_up_wheels import pip, tree

from tfgpu_doctor.cli.main import run
from tfgpu_doctor.fix import command
from tfgpu_doctor.fix.archive import has_records, is_unfinished, open_archive
from tfgpu_doctor.fix.bounds import NotPossible, NotRestored
from tfgpu_doctor.fix.failures import not_restored
from tfgpu_doctor.fix.installer import StepFailed, run_pip
from tfgpu_doctor.fix.links import LinkStep
from tfgpu_doctor.fix.plan import PipStep
from tfgpu_doctor.fix.record import Unreadable
from tfgpu_doctor.host import Host


def version_of(venv: pathlib.Path) -> str:
    code = "import colours; print(colours.NUMBER)"
    done = subprocess.run([venv / "bin/python", "-B", "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.slow
def test_upgrade_is_kept_and_undone_byte_for_byte(venv: pathlib.Path) -> None:
    before = tree(venv)
    applied = apply(make_plan(pip_step(venv, "install", "colours==2.0")), venv)
    assert applied.repaired
    assert version_of(venv) == "2"
    assert not (venv / "bin/old-colour").exists()
    assert (venv / "share/colours/table.txt").exists()
    undone = undo(venv)
    assert undone is not None and undone.left == ()
    assert tree(venv) == before


def test_record_holds_only_what_the_fix_replaced(venv: pathlib.Path) -> None:
    apply(make_plan(pip_step(venv, "install", "colours==2.0")), venv)
    kept = list((venv / ".tfgpu-doctor/0001/kept").iterdir())
    assert 0 < len(kept) < 25
    assert all(file.stat().st_nlink == 1 for file in kept)


@pytest.mark.slow
def test_uninstall_and_install_are_one_fix(venv: pathlib.Path) -> None:
    before = tree(venv)
    steps = (pip_step(venv, "uninstall", "-y", "colours"), pip_step(venv, "install", "paint"))
    assert apply(make_plan(*steps), venv).repaired
    assert not list(venv.glob("lib/python3*/site-packages/colours*"))
    undo(venv)
    assert tree(venv) == before


@pytest.mark.slow
@pytest.mark.parametrize("outcome", ["fail", "skip", "blocked", "crash"])
def test_fix_that_does_not_make_the_check_pass_is_taken_back(venv: pathlib.Path, outcome: str) -> None:
    before = tree(venv)
    plan = make_plan(pip_step(venv, "install", "colours==2.0"))
    applied = apply(plan, venv, look_again=lambda: make_report(outcome))
    assert not applied.repaired
    assert applied.why == (
        "ACME001 is still there (acme is old)" if outcome == "fail" else f"ACME001 did not pass ({outcome})"
    )
    assert tree(venv) == before


@pytest.mark.slow
def test_pip_that_fails_is_taken_back(venv: pathlib.Path) -> None:
    before = tree(venv)
    steps = (pip_step(venv, "install", "colours==2.0"), pip_step(venv, "install", "no-such-package"))
    applied = apply(make_plan(*steps), venv)
    assert not applied.repaired
    assert "exit code 1" in applied.why
    assert tree(venv) == before


@pytest.mark.slow
def test_second_look_that_breaks_is_taken_back(venv: pathlib.Path) -> None:
    def look_again() -> None:
        raise OSError(5, "the disk is gone")

    before = tree(venv)
    with pytest.raises(OSError, match="the disk is gone"):
        apply(make_plan(pip_step(venv, "install", "colours==2.0")), venv, look_again=look_again)  # type: ignore[arg-type]
    assert tree(venv) == before


def test_interrupt_takes_everything_back(venv: pathlib.Path, site: pathlib.Path) -> None:
    def pip(step: PipStep, lock: int, beat: object) -> None:
        (site / "half-done").write_text("x")
        raise KeyboardInterrupt

    before = tree(venv)
    with pytest.raises(KeyboardInterrupt):
        apply(make_plan(pip_step(venv, "install", "colours==2.0")), venv, pip=pip)
    assert tree(venv) == before
    assert not is_unfinished(bounds_of(venv))


@pytest.mark.parametrize("error", [OSError(28, "no space left"), Unreadable("0001 is not a record of a fix")])
@pytest.mark.parametrize("end", [KeyboardInterrupt, StepFailed("pip failed")])
def test_a_fix_that_cannot_be_taken_back_says_so(
    venv: pathlib.Path, site: pathlib.Path, monkeypatch: pytest.MonkeyPatch, end: BaseException, error: Exception
) -> None:
    def pip(step: PipStep, lock: int, beat: object) -> None:
        (site / "half-done").write_text("x")
        raise end

    def failing(*_: object) -> None:
        raise error

    monkeypatch.setattr("tfgpu_doctor.fix.apply.undo", failing)
    with pytest.raises(NotRestored, match=r"The environment is not (fully )?restored"):
        apply(make_plan(pip_step(venv, "install", "colours==2.0")), venv, pip=pip)


@pytest.mark.parametrize("words", [("--apply",), ("--undo",)])
def test_an_environment_that_is_not_restored_is_no_ordinary_finding(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    """Also where Ctrl-C began the taking back."""

    def failing(*_: object) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise not_restored("/venv/x.py", OSError(28, "no space left"), "cannot be restored")

    for name in ("_mend", "_undo"):
        monkeypatch.setattr(command, name, failing)
    assert run(["fix", *words]) == 3
    assert "The environment is not fully restored: free space" in capsys.readouterr().err


def test_links_alone_keep_no_copy_of_the_environment(venv: pathlib.Path, site: pathlib.Path) -> None:
    before = tree(venv)
    link = LinkStep(str(site / "colours/libred.so.1"), "red.py")
    assert apply(make_plan(link), venv).repaired
    assert (site / "colours/libred.so.1").read_text() == "RED = 'old'\n"
    assert list((venv / ".tfgpu-doctor/0001/kept").iterdir()) == []
    undo(venv)
    assert tree(venv) == before


def test_link_never_takes_the_place_of_a_file(venv: pathlib.Path, site: pathlib.Path) -> None:
    (site / "colours/libred.so.1").write_text("mine")
    before = tree(venv)
    with pytest.raises(NotPossible, match="already exists"):
        apply(make_plan(LinkStep(str(site / "colours/libred.so.1"), "red.py")), venv)
    assert tree(venv) == before


def test_fixes_stack(venv: pathlib.Path) -> None:
    states = [tree(venv)]
    apply(make_plan(pip_step(venv, "install", "colours==2.0")), venv)
    states.append({name: entry for name, entry in tree(venv).items() if not name.startswith(".tfgpu-doctor")})
    apply(make_plan(pip_step(venv, "install", "paint")), venv)
    undo(venv)
    assert {name: entry for name, entry in tree(venv).items() if not name.startswith(".tfgpu-doctor")} == states[1]
    undo(venv)
    assert tree(venv) == states[0]
    assert not has_records(bounds_of(venv))


def test_files_rewritten_in_place_are_restored(venv: pathlib.Path, site: pathlib.Path) -> None:
    """pip rewrites .pth files where they lie; a second name of such a file would be rewritten with it."""

    def pip(step: PipStep, lock: int, beat: object) -> None:
        with open(site / "easy-install.pth", "r+b") as file:
            file.truncate()
            file.write(b"./nowhere\n")

    (site / "easy-install.pth").write_text("./somewhere\n")
    before = tree(venv)
    applied = apply(make_plan(pip_step(venv, "install", "x")), venv, pip=pip, look_again=lambda: make_report("fail"))
    assert not applied.repaired
    assert tree(venv) == before


def test_what_a_running_program_writes_on_is_left_alone(venv: pathlib.Path) -> None:
    def pip(step: PipStep, lock: int, beat: object) -> None:
        with open(log, "a") as file:
            file.write("and on\n")

    log = venv / "training.log"
    log.write_text("on\n")
    assert apply(make_plan(pip_step(venv, "install", "x")), venv, pip=pip).repaired
    undo(venv)
    assert log.read_text() == "on\nand on\n"


@pytest.mark.slow
def test_without_hard_links_files_are_copied(venv: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*args: object, **named: object) -> None:
        raise OSError(1, "Operation not permitted")

    before = tree(venv)
    monkeypatch.setattr(os, "link", no_links)
    apply(make_plan(pip_step(venv, "install", "colours==2.0")), venv)
    assert version_of(venv) == "2"
    undo(venv)
    assert tree(venv) == before


def test_all_that_can_change_of_a_file_is_undone(venv: pathlib.Path, site: pathlib.Path) -> None:
    """Modes, links, a file in place of a folder and the reverse, empty folders, names that are no UTF-8."""

    def pip(step: PipStep, lock: int, beat: object) -> None:
        (site / "colours/red.py").chmod(0o600)
        (site / "colours/gone").chmod(0o700)
        (site / "link").unlink()
        (site / "link").symlink_to("elsewhere")
        (site / "folder/inner").unlink()
        (site / "folder").rmdir()
        (site / "folder").write_text("now a file")
        (site / "file").unlink()
        (site / "file/deep").mkdir(parents=True)
        (site / "file/deep/new").write_text("new")
        (site / "empty").rmdir()
        os.unlink(odd)
        (site / "dangling").unlink()
        (site / "dangling").write_text("there now")

    odd = os.fsencode(site) + b"/name-\xff.py"
    with open(odd, "wb") as file:
        file.write(b"odd")
    (site / "link").symlink_to("colours")
    (site / "folder").mkdir()
    (site / "folder/inner").write_text("inner")
    (site / "file").write_text("a file")
    (site / "empty").mkdir(mode=0o750)
    (site / "dangling").symlink_to("nowhere")
    before = tree(venv)
    assert apply(make_plan(pip_step(venv, "install", "x")), venv, pip=pip).repaired
    undo(venv)
    assert tree(venv) == before


@pytest.mark.slow
def test_pip_holds_the_lock(venv: pathlib.Path) -> None:
    def pip(step: PipStep, lock: int, beat: object) -> None:
        os.fstat(lock)
        with pytest.raises(NotPossible, match=r"another fix .* is in progress"), open_archive(bounds_of(venv)):
            pass

    assert apply(make_plan(pip_step(venv, "install", "x")), venv, pip=pip).repaired


def test_unfinished_fix_refuses_another(venv: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*args: object) -> None:
        raise StepFailed("killed")

    monkeypatch.setattr("tfgpu_doctor.fix.apply._take_back", lambda *args: None)
    apply(make_plan(pip_step(venv, "install", "colours==2.0")), venv, pip=killed)
    assert is_unfinished(bounds_of(venv))
    with pytest.raises(NotPossible, match="was interrupted"):
        apply(make_plan(pip_step(venv, "install", "colours==2.0")), venv)


def test_environment_reached_by_a_link(venv: pathlib.Path, tmp_path: pathlib.Path, site: pathlib.Path) -> None:
    (tmp_path / "alias").symlink_to(venv)
    before = tree(venv)
    alias = tmp_path / "alias" / site.relative_to(venv)
    assert apply(make_plan(LinkStep(str(alias / "colours/libred.so.1"), "red.py")), tmp_path / "alias").repaired
    undo(tmp_path / "alias")
    assert tree(venv) == before


@pytest.mark.slow
def test_environment_that_moved_is_undone_where_it_is(venv: pathlib.Path, tmp_path: pathlib.Path) -> None:
    before = tree(venv)
    apply(make_plan(pip_step(venv, "install", "colours==2.0")), venv)
    venv.rename(tmp_path / "moved")
    undo(tmp_path / "moved")
    assert tree(tmp_path / "moved") == before


def test_modes_of_the_record_are_no_wider_than_the_environments(venv: pathlib.Path, site: pathlib.Path) -> None:
    secret = site / "secret"
    secret.write_text("x")
    secret.chmod(0o600)
    steps = (pip_step(venv, "install", "x"),)
    apply(make_plan(*steps), venv, pip=lambda step, lock, beat: secret.unlink())
    (kept,) = (venv / ".tfgpu-doctor/0001/kept").iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


@pytest.mark.slow
def test_pip_of_the_environment_itself_can_be_replaced(venv: pathlib.Path, wheels: pathlib.Path) -> None:
    before = tree(venv)
    apply(make_plan(pip_step(venv, "uninstall", "-y", "pip")), venv)
    assert not list(venv.glob("lib/python3*/site-packages/pip"))
    undo(venv)
    assert tree(venv) == before
    pip(venv, "--version", wheels=wheels)


def test_what_a_person_writes_meanwhile_is_not_undone(venv: pathlib.Path) -> None:
    """The environment may be the folder of a project: `python -m venv .`."""

    def pip(step: PipStep, lock: int, beat: Callable[[], None]) -> None:
        run_pip(step, Host(), folder=str(venv), lock=lock, on_tick=beat)
        (venv / "results").mkdir()
        (venv / "results/weights.h5").write_text("an hour's work")
        (venv / "bin/new.sh").write_text("mine")
        (venv / "share/mine.txt").write_text("mine")
        (venv / "half").rename(venv / "whole")
        os.replace(written(venv / "train.py.new", "edited"), venv / "train.py")  # as editors save
        os.replace(written(venv / "bin/run.new", "edited"), venv / "bin/run")

    def written(path: pathlib.Path, text: str) -> pathlib.Path:
        path.write_text(text)
        return path

    before = tree(venv)
    for name in ("train.py", "bin/run", "half"):
        written(venv / name, "before")
    step = pip_step(venv, "install", "colours==2.0")
    assert not apply(make_plan(step), venv, pip=pip, look_again=lambda: make_report("fail")).repaired
    own = ["results/weights.h5", "bin/new.sh", "share/mine.txt", "whole", "train.py", "bin/run"]
    assert [(venv / name).read_text() for name in own] == [
        "an hour's work",
        "mine",
        "mine",
        "before",
        "edited",
        "edited",
    ]
    assert not (venv / "half").exists()
    after = tree(venv)
    assert {name: after.get(name) for name in before} == before
    assert set(after) - set(before) == {*own, "results", "share"}


def test_where_nobody_knows_the_folders_of_installers_everything_is_undone(tmp_path: pathlib.Path) -> None:
    """Beside lib/python3.12/site-packages and the like: an unusual layout."""
    (tmp_path / "odd/packages").mkdir(parents=True)
    (tmp_path / "odd/packages/old.py").write_text("old")
    before = tree(tmp_path)

    def pip(step: PipStep, lock: int, beat: object) -> None:
        (tmp_path / "odd/packages/new.py").write_text("new")

    assert not apply(
        make_plan(pip_step(tmp_path, "install", "x")), tmp_path, pip=pip, look_again=lambda: make_report("fail")
    ).repaired
    assert tree(tmp_path) == before


def test_a_pip_that_is_killed_is_not_told_as_one_that_failed(tmp_path: pathlib.Path) -> None:
    """The kernel does so where memory runs out: then pip has said nothing."""
    step = PipStep((sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"))
    with (
        open(tmp_path / "lock", "w") as lock,
        pytest.raises(StepFailed, match=r"^pip was ended by SIGKILL \(the kernel"),
    ):
        run_pip(step, Host(), folder=str(tmp_path), lock=lock.fileno(), on_tick=lambda: None)
