"""Killed with SIGKILL at any moment, a fix or an undo leaves the environment as it was, or to be undone."""

from __future__ import annotations

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import made_up_repairs
import pytest
from made_up_repairs import apply, bounds_of, make_plan, pip_step, undo
from made_up_wheels import entry, pip, tree

from tfgpu_doctor.fix.archive import has_records
from tfgpu_doctor.fix.bounds import NotPossible
from tfgpu_doctor.fix.installer import StepFailed
from tfgpu_doctor.host.changes import Changes

pytestmark = pytest.mark.usefixtures("own_tmpdir")
Condition = Callable[[pathlib.Path], bool]
UNDO_S = "0.2"  # for each change: the moment is not missed


def start(*words: str) -> subprocess.Popen[bytes]:
    """The program of made_up_repairs, in a process of its own."""
    folder = pathlib.Path(made_up_repairs.__file__).parent
    return subprocess.Popen(
        [sys.executable, str(folder / "made_up_repairs.py"), *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def kill_when(process: subprocess.Popen[bytes], condition: Callable[[], bool]) -> bool:
    """Kill it as soon as that is so; False if it ended by itself."""
    while process.poll() is None:
        if condition():
            process.send_signal(signal.SIGKILL)
            return process.wait() == -signal.SIGKILL
    return False


def phase(venv: pathlib.Path) -> str:
    """The phase that the journal is in; empty without one."""
    try:
        return str(json.loads((venv / ".tfgpu-doctor/0001/journal.json").read_bytes())["phase"])
    except (OSError, ValueError):
        return ""


def kept(venv: pathlib.Path) -> int:
    try:
        return len(list((venv / ".tfgpu-doctor/0001/kept").iterdir()))
    except OSError:
        return 0


def has_new(venv: pathlib.Path) -> bool:
    return bool(list(venv.glob("lib/python3*/site-packages/colours/more")))


MOMENTS: dict[str, Condition] = {
    "the record is begun": lambda venv: (venv / ".tfgpu-doctor/0001").exists(),
    "preparing": lambda venv: phase(venv) == "preparing",
    "files are being kept": lambda venv: kept(venv) > 300,
    "the manifest is written": lambda venv: (venv / ".tfgpu-doctor/0001/manifest.json").exists(),
    "applying": lambda venv: phase(venv) == "applying",
    "pip uninstalls": lambda venv: bool(list(venv.glob("lib/python3*/site-packages/~*"))) or has_new(venv),
    "pip has installed": has_new,
    "applied": lambda venv: phase(venv) == "applied",
    "the record is pruned": lambda venv: phase(venv) == "applied" and kept(venv) < 50,
}


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_fix_can_be_undone(venv: pathlib.Path, moment: str) -> None:
    before = tree(venv)
    process = start("apply", str(venv), "60")
    assert kill_when(process, lambda: MOMENTS[moment](venv)), f"it ended before {moment}"
    undo(venv)
    assert tree(venv) == before


@pytest.mark.slow
def test_fix_killed_at_random_can_be_undone(venv: pathlib.Path) -> None:
    before = tree(venv)
    chance = random.Random(20261121)
    for _ in range(4):
        process, until = start("apply", str(venv), "60"), time.monotonic() + chance.uniform(0.2, 3)
        assert kill_when(process, lambda until=until: time.monotonic() > until)  # type: ignore[misc]
        undo(venv)
        assert tree(venv) == before


@pytest.mark.slow
@pytest.mark.parametrize("paths", [0, 1, 5, 20])
def test_killed_undo_can_be_begun_again(venv: pathlib.Path, paths: int) -> None:
    """Killed once that many of the paths are as they were."""

    def is_on_its_way() -> bool:
        if paths == 0:
            return phase(venv) == "undoing"
        return sum(entry(venv / name) == before.get(name, ()) for name in changed) >= paths

    before = tree(venv)
    apply(make_plan(pip_step(venv, "install", "colours==2.0")), venv)
    after = {name: entry for name, entry in tree(venv).items() if not name.startswith(".tfgpu-doctor")}
    changed = [name for name in before.keys() | after.keys() if before.get(name) != after.get(name)]
    assert kill_when(start("undo", str(venv), UNDO_S), is_on_its_way)
    assert has_records(bounds_of(venv))
    undo(venv)
    assert tree(venv) == before


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["an added file is removed", "undoing"])
def test_killed_undo_of_a_killed_fix(venv: pathlib.Path, moment: str) -> None:
    before = tree(venv)
    assert kill_when(start("apply", str(venv), "60"), lambda: has_new(venv))
    added = [name for name in tree(venv) if name not in before and not name.startswith(".tfgpu-doctor")]

    def is_on_its_way() -> bool:
        return phase(venv) == "undoing" if moment == "undoing" else not all((venv / name).exists() for name in added)

    assert kill_when(start("undo", str(venv), UNDO_S), is_on_its_way)
    assert has_records(bounds_of(venv))
    undo(venv)
    assert tree(venv) == before


def test_what_was_done_long_after_a_killed_fix_is_not_thrown_away(venv: pathlib.Path, wheels: pathlib.Path) -> None:
    before = tree(venv)
    assert kill_when(start("apply", str(venv), "60"), lambda: phase(venv) == "applying")
    long_ago = time.time() - 60
    os.utime(venv / ".tfgpu-doctor/0001/pulse", (long_ago, long_ago))
    pip(venv, "install", "paint", wheels=wheels)
    with pytest.raises(NotPossible, match="changed after the fix was interrupted"):
        undo(venv)
    undo(venv, force=True)
    assert tree(venv) == before


@pytest.mark.slow
def test_two_at_once(venv: pathlib.Path) -> None:
    first = start("apply", str(venv), "4")
    while phase(venv) != "applied":
        assert first.poll() is None
        time.sleep(0.02)
    first.send_signal(signal.SIGSTOP)
    second = start("apply", str(venv), "0")
    assert second.wait() == 1
    first.send_signal(signal.SIGCONT)
    assert first.wait() == 0
    undo(venv)


class Killed(BaseException):
    """The end of a process, as nothing in it sees it."""


@pytest.mark.parametrize("phase", ["applying", "applied"])
def test_undo_stopped_before_any_of_its_changes_can_be_begun_again(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, phase: str
) -> None:
    """Each kind of change is among those of the fix."""
    venv, check, left = tmp_path / "venv", Changes._check, 0
    site = venv / "lib/python3.12/site-packages"

    def pip(step: object, lock: int, beat: object) -> None:
        for name in ("replaced", "removed", "now a folder", "link"):
            (site / name).unlink()
        (site / "replaced").write_text("new")
        (site / "now a folder").mkdir()
        (site / "now a folder/added").write_text("added")
        shutil.rmtree(site / "now a file")
        (site / "now a file").write_text("new")
        (site / "link").symlink_to("removed")
        (site / "added").mkdir()
        (site / "added/one").write_text("1")
        (site / "added/two").write_text("2")
        if phase == "applying":
            raise StepFailed("pip was killed")

    def stopping(self: Changes, path: str) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed
        check(self, path)

    (site / "now a file").mkdir(parents=True)
    for name in ("replaced", "removed", "now a folder", "now a file/inner"):
        (site / name).write_text("old")
    (site / "link").symlink_to("replaced")
    before = tree(venv)
    for changes in range(1, 100):
        with monkeypatch.context() as patch:
            patch.setattr("tfgpu_doctor.fix.apply._take_back", lambda *_: None)
            assert apply(make_plan(pip_step(venv, "install", "x")), venv, pip=pip).repaired is (phase == "applied")
        left = changes
        with monkeypatch.context() as patch:
            patch.setattr(Changes, "_check", stopping)
            try:
                undo(venv)
                break
            except Killed:
                pass
        undo(venv)
        assert tree(venv) == before, f"stopped before change {changes}"
    assert changes > 15
    assert tree(venv) == before
