"""The temporary folder of a process, and which folders of others a start removes."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import types
from typing import Any

import pytest

from tfgpu_doctor.host import owner, scratch
from tfgpu_doctor.host.cache import cache_folder, make_folder, remove_abandoned

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc says which processes are alive")

DAY_S = 86400.0


@pytest.fixture
def parent(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A temporary folder for this test, in which this process has no folder yet."""
    scratch.remove_run_folder()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def left(folder: pathlib.Path, name: str = "tfgpu-doctor-dead", **changes: Any) -> pathlib.Path:
    """A folder of a process that has ended, but for what `changes` say of its owner."""
    place = folder / name
    (place / "tmp").mkdir(parents=True)
    (place / "tmp/file.py").write_text("x")
    owner.sign(str(place))
    signed = json.loads((place / ".owner").read_text())
    ended = subprocess.Popen(["true"])
    ended.wait()
    (place / ".owner").write_text(json.dumps({**signed, "pid": ended.pid, **changes}))
    return place


def age(place: pathlib.Path, seconds: float) -> None:
    os.utime(place, (time.time() - seconds,) * 2)


def start() -> list[str]:
    """Create this process's folder, and remove it; return what is in the temporary folder then."""
    folder = pathlib.Path(scratch.run_folder())
    scratch.remove_run_folder()
    return sorted(each.name for each in folder.parent.iterdir())


def test_it_is_private_signed_and_removed(parent: pathlib.Path) -> None:
    folder = pathlib.Path(scratch.run_folder())
    assert scratch.run_folder() == str(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert json.loads((folder / ".owner").read_text())["pid"] == os.getpid()
    with scratch.scratch_folder() as inside:
        assert pathlib.Path(inside).parent == folder
    scratch.remove_run_folder()
    assert list(parent.iterdir()) == []


def test_a_dead_owners_folder_is_removed(parent: pathlib.Path) -> None:
    left(parent)
    assert start() == []


def test_another_process_with_that_number_is_not_the_owner(parent: pathlib.Path) -> None:
    left(parent, pid=os.getpid(), started="1")
    assert start() == []


@pytest.mark.parametrize(
    "changes",
    [{"pid": os.getpid()}, {"host": "another"}, {"boot": "another"}, {"namespace": "pid:[1]"}, {"started": ""}, {"pid": "x"}],
    ids=lambda changes: next(iter(changes)),
)  # fmt: skip
def test_in_doubt_it_stays_for_a_month(parent: pathlib.Path, changes: dict[str, Any]) -> None:
    place = left(parent, **changes)
    assert start() == [place.name]
    age(place, 29 * DAY_S)
    assert start() == [place.name]
    age(place, 31 * DAY_S)
    assert start() == ([place.name] if changes == {"pid": os.getpid()} else [])


def test_a_folder_without_signature_is_anybodys(parent: pathlib.Path) -> None:
    (parent / "tfgpu-doctor-results").mkdir()
    (parent / "tfgpu-doctor-results/mine.json").write_text("{}")
    (parent / "tfgpu-doctor-empty").mkdir()
    for place in parent.iterdir():
        age(place, 400 * DAY_S)
    assert start() == ["tfgpu-doctor-results"]


def test_links_are_not_followed(parent: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    dead = left(elsewhere)
    (parent / "tfgpu-doctor-link").symlink_to(dead)
    (left(parent) / "tmp/link").symlink_to(dead)
    assert start() == ["tfgpu-doctor-link"]
    assert (dead / "tmp/file.py").exists()


def test_another_users_folder_stays(parent: pathlib.Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give a folder to another user")
    place = left(parent)
    os.chown(place, 12345, 12345)
    assert start() == [place.name]


def test_a_fork_has_its_own_and_leaves_its_parents(parent: pathlib.Path) -> None:
    mine = scratch.run_folder()
    child = os.fork()
    if child == 0:
        own = scratch.run_folder()
        scratch.end_run()
        os._exit(0 if own != mine and not os.path.exists(own) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert os.path.isdir(mine)
    scratch.remove_run_folder()


WITHOUT = (
    "import os, tempfile; from tfgpu_doctor.host import Host, scratch\n"
    "for name in scratch._VARIABLES: os.environ.pop(name, None)\n"
    "os.environ['TMPDIR'] = '/proc/nowhere'; scratch._PLACES = ('/proc/tmp',)\n"
    "tempfile._candidate_tempdir_list = lambda: ['/proc/nowhere', '/proc/tmp', os.getcwd()]\n"  # as in a read-only container
)


@pytest.mark.parametrize("chosen", [False, True], ids=["not chosen yet", "Python chose the working folder"])
def test_without_any_folder_nothing_is_written_to_the_working_folder(tmp_path: pathlib.Path, chosen: bool) -> None:
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    code = (
        WITHOUT
        + ("tempfile.gettempdir()\n" if chosen else "")
        + (
            f"before = os.stat({str(work)!r}).st_mtime_ns; scratch.choose_parent()\n"
            "try: scratch.run_folder()\n"
            "except scratch.NoTemporaryFolder as error: print(error.strerror)\n"
            f"assert os.stat({str(work)!r}).st_mtime_ns == before\n"  # not even for a moment
            f"variables = Host(environment={{'HOME': {str(home)!r}}}).variables()\n"
            "assert 'TMPDIR' not in variables; print(variables['KERAS_HOME'])\n"
        )
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=work,
        timeout=60,
        env=dict(os.environ),
    )
    assert done.stderr == ""
    why, keras = done.stdout.splitlines()
    assert why == (
        "no folder for temporary files can be written to (TMPDIR=/proc/nowhere, /proc/tmp): set TMPDIR to one that can be, or "
        "mount one at /tmp"
    )
    assert keras == "/dev/null/keras"
    assert [*work.iterdir(), *home.iterdir()] == []


def test_a_working_folder_that_is_named_for_temporary_files_is_one(tmp_path: pathlib.Path) -> None:
    code = "from tfgpu_doctor.host import scratch; print(scratch.run_folder())"
    for value in (str(tmp_path), "."):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path, timeout=60,
            env={**os.environ, "TMPDIR": value},
        )  # fmt: skip
        assert (tmp_path / done.stdout.strip()).parent == tmp_path
    assert list(tmp_path.iterdir()) == []


def run_code(code: str, parent: pathlib.Path, working_folder: pathlib.Path | None = None) -> None:
    """Run it in a process of its own, whose temporary files lie in `parent`."""
    variables = {**os.environ, "TMPDIR": str(parent)}
    subprocess.run([sys.executable, "-c", code], check=True, env=variables, cwd=working_folder, timeout=60)


def test_nothing_is_created_after_the_end(parent: pathlib.Path) -> None:
    code = (
        "from tfgpu_doctor.host import Host, scratch\n"
        "scratch.run_folder(); scratch.end_run()\n"
        "assert 'TMPDIR' not in Host(environment={}).variables()\n"
        "try: scratch.run_folder()\n"
        "except OSError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TMPDIR": str(parent)},
    )
    assert (done.stdout, done.stderr) == ("the run is over\n", "")
    assert list(parent.iterdir()) == []


def test_the_end_comes_while_a_thread_looks_for_what_was_left(parent: pathlib.Path) -> None:
    code = (
        "import os, sys, threading; from tfgpu_doctor.host import scratch\n"
        "began, ended = threading.Event(), threading.Event()\n"
        "scratch._sweep = lambda parent: (began.set(), ended.wait())\n"
        "sys.unraisablehook = threading.excepthook = lambda _: None\n"
        "thread = threading.Thread(target=scratch.run_folder); thread.start(); began.wait()\n"
        "scratch.end_run(); ended.set(); thread.join(); os._exit(0)\n"
    )
    run_code(code, parent)
    assert list(parent.iterdir()) == []


def test_a_thread_that_was_given_the_folder_does_not_create_it_again(
    parent: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = scratch.run_folder()
    scratch.remove_run_folder()  # in the moment before the thread goes on
    monkeypatch.setattr(scratch, "run_folder", lambda: folder)
    with pytest.raises(FileNotFoundError):
        scratch.children_folder()
    assert list(parent.iterdir()) == []


def test_the_end_waits_for_a_thread_whose_disk_is_slow(parent: pathlib.Path) -> None:
    code = (
        "import os, threading, time; from tfgpu_doctor.host import scratch\n"
        "began, make = threading.Event(), os.mkdir; scratch._PATIENCE_S = 30.0\n"
        "os.mkdir = lambda *given: (began.set(), time.sleep(0.4), make(*given))\n"
        "threading.Thread(target=scratch.run_folder, daemon=True).start(); began.wait()\n"
        "scratch.end_run(); time.sleep(0.6); os._exit(0)\n"
    )
    run_code(code, parent)
    assert list(parent.iterdir()) == []


def test_the_end_that_waited_in_vain_leaves_nothing_in_the_working_folder(parent: pathlib.Path) -> None:
    code = (
        "import os, threading; from tfgpu_doctor.host import scratch\n"
        "began, ended, make = threading.Event(), threading.Event(), os.mkdir\n"
        "os.mkdir = lambda *given: (make(*given), began.set(), ended.wait())\n"
        "threading.excepthook = lambda _: None; scratch._PATIENCE_S = 0.1\n"
        "thread = threading.Thread(target=scratch.children_folder); thread.start(); began.wait()\n"
        "scratch.end_run(); ended.set(); thread.join()\n"
    )
    folder = parent / "work"
    folder.mkdir()
    run_code(code, parent, folder)
    assert list(parent.rglob("*")) == [folder]


def test_many_entries_do_not_hold_up_a_start(parent: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that goes on a millisecond each time that it is read: the search ends after some four entries."""
    for number in range(100):
        (parent / f"other-{number}").touch()
    readings: list[float] = []

    def monotonic() -> float:
        readings.append(len(readings) / 1000)
        return readings[-1]

    monkeypatch.setattr(scratch, "_LISTED_BYTES", 0)
    monkeypatch.setattr(scratch, "time", types.SimpleNamespace(monotonic=monotonic))
    scratch.run_folder()
    assert 2 <= len(readings) <= 10
    scratch.remove_run_folder()


def test_a_part_of_a_cached_folder_goes_with_its_process(tmp_path: pathlib.Path) -> None:
    dead, alive = left(tmp_path, "driver.part-1"), left(tmp_path, "driver.part-2", pid=os.getpid())
    old = tmp_path / "driver.part-3"
    old.mkdir()
    (old / "file").touch()
    age(old, 7200)
    remove_abandoned(str(tmp_path))
    assert not dead.exists()
    assert not old.exists()
    assert alive.exists()
    make_folder(str(tmp_path / "whole"), lambda folder: pathlib.Path(folder, "file").touch())
    assert [each.name for each in (tmp_path / "whole").iterdir()] == ["file"]


@pytest.mark.parametrize("variables", [{}, {"XDG_CACHE_HOME": "relative"}])
def test_without_a_home_the_cache_is_where_a_container_has_it(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither HOME nor an entry in the user database: a container starts such a user in /."""
    import pwd  # Windows has none

    def nobody(uid: int) -> None:
        raise KeyError(uid)

    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    assert cache_folder(variables) == "/.cache/tfgpu-doctor"
