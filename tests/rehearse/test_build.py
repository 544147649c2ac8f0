"""The simulated driver is built with what the machine has, whole or not at all, and says what it lacks."""

from __future__ import annotations

import concurrent.futures
import importlib.util
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest
from rehearse.children import cuda_says
from simulated import machine, simulate_in

from tfgpu_doctor.host import Host
from tfgpu_doctor.host.cache import discard_folder
from tfgpu_doctor.rehearse import build as subject
from tfgpu_doctor.rehearse.build import BuildError, build_driver

BOTH = ["libcuda.so.1", "libnvidia-ml.so.1"]
NOBODY = "every user is root here, and may write everything"


@pytest.fixture(autouse=True)
def _compiler(driver_folder: pathlib.Path) -> None:
    """Skips where the driver cannot be built at all."""


def build(cache: pathlib.Path, **variables: str) -> pathlib.Path:
    return pathlib.Path(build_driver(Host(environment={**os.environ, "XDG_CACHE_HOME": str(cache), **variables})))


def script(place: pathlib.Path, text: str) -> str:
    """A compiler of one's own making; gives the folder it lies in."""
    place.parent.mkdir(exist_ok=True)
    place.write_text(f"#!/bin/sh\n{text}\n")
    place.chmod(0o755)
    return str(place.parent)


def names(folder: pathlib.Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_it_is_built_once(tmp_path: pathlib.Path) -> None:
    folder = build(tmp_path)
    assert names(folder) == BOTH
    assert folder.parent == tmp_path / "tfgpu-doctor"
    before = [(each.name, each.stat().st_mtime_ns) for each in folder.iterdir()]
    assert build(tmp_path, PATH="/nowhere") == folder
    assert [(each.name, each.stat().st_mtime_ns) for each in folder.iterdir()] == before


def test_the_cache_is_where_the_user_has_it(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert build(tmp_path / "x", HOME=str(tmp_path)).is_relative_to(tmp_path / "x")
    for relative in ("", "relative"):
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        monkeypatch.setenv("XDG_CACHE_HOME", relative)
        assert pathlib.Path(build_driver(Host())).is_relative_to(tmp_path / "home/.cache/tfgpu-doctor")


def test_no_compiler_is_said_with_what_to_install(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BuildError, match=r"requires a C compiler: install gcc, or pip install '\.\[rehearse\]'"):
        build(tmp_path, PATH=str(tmp_path))
    assert names(tmp_path / "tfgpu-doctor") == []


def test_a_compiler_that_cannot_gives_way_to_one_that_can(tmp_path: pathlib.Path) -> None:
    broken = script(tmp_path / "bin/cc", "echo 'cc: fatal error: no headers here' >&2; exit 1")
    real = os.path.dirname(shutil.which("gcc") or shutil.which("clang") or "")
    if not real:
        pytest.skip("there is no second compiler")
    assert names(build(tmp_path / "cache", PATH=f"{broken}:{real}:{os.environ['PATH']}")) == BOTH


def test_a_compiler_that_writes_nothing_gives_way_to_one_that_does(tmp_path: pathlib.Path) -> None:
    silent = script(tmp_path / "bin/cc", "exit 0")
    assert names(build(tmp_path / "cache", PATH=f"{silent}:{os.environ['PATH']}")) == BOTH


@pytest.mark.parametrize("content", [None, b"", b"no library"])
def test_what_a_silent_compiler_left_is_built_again(tmp_path: pathlib.Path, content: bytes | None) -> None:
    folder = build(tmp_path)
    for each in folder.iterdir():
        each.unlink() if content is None else each.write_bytes(content)
    assert build(tmp_path) == folder
    assert names(folder) == BOTH
    assert all(each.read_bytes()[:4] == b"\x7fELF" for each in folder.iterdir())
    assert names(tmp_path / "tfgpu-doctor") == [folder.name]


def test_what_another_doctor_has_built_meanwhile_stays(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its children load from there. At the first look it was not there yet."""
    folder = build(tmp_path)
    before = [(each.name, each.stat().st_mtime_ns) for each in folder.iterdir()]
    looks, is_whole = iter([False]), subject._is_whole
    monkeypatch.setattr(subject, "_is_whole", lambda place: next(looks, True) and is_whole(place))
    assert build(tmp_path) == folder
    assert [(each.name, each.stat().st_mtime_ns) for each in folder.iterdir()] == before
    assert names(tmp_path / "tfgpu-doctor") == [folder.name]


def test_what_another_doctor_discards_at_the_same_time_is_gone(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = build(tmp_path)
    (folder / BOTH[0]).unlink()

    def discard_twice(place: str) -> None:
        discard_folder(place)
        discard_folder(place)

    monkeypatch.setattr(subject, "discard_folder", discard_twice)
    assert build(tmp_path) == folder
    assert names(folder) == BOTH
    assert names(tmp_path / "tfgpu-doctor") == [folder.name]


def test_what_a_compiler_says_is_told(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    broken = script(
        tmp_path / "bin/cc", "echo 'In file included from x:' >&2; echo 'x.h:3: error: no stdio.h' >&2; exit 1"
    )
    with pytest.raises(BuildError, match=r"could not be built \(cc: x\.h:3: error: no stdio\.h\)"):
        build(tmp_path / "cache", PATH=broken)
    assert names(tmp_path / "cache/tfgpu-doctor") == []


def test_a_cache_that_cannot_be_made_is_said(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BuildError, match=r"cannot be written .*XDG_CACHE_HOME"):
        build(tmp_path / "file")


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() == 0, reason=NOBODY)
def test_a_cache_that_is_read_only_is_said(tmp_path: pathlib.Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(BuildError, match="Permission denied"):
        build(tmp_path)


def test_several_at_once_do_no_harm(tmp_path: pathlib.Path) -> None:
    code = "from tfgpu_doctor.rehearse.build import build_driver; print(build_driver())"
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    running = [
        subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE) for _ in range(4)
    ]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        folders = {output[0] for output in pool.map(subprocess.Popen.communicate, running)}
    assert [process.returncode for process in running] == [0] * 4
    (folder,) = folders
    assert names(pathlib.Path(folder.decode().strip())) == BOTH
    assert len(names(tmp_path / "tfgpu-doctor")) == 1


@pytest.mark.usefixtures("own_tmpdir")
def test_a_build_that_is_killed_leaves_nothing_half(tmp_path: pathlib.Path) -> None:
    slow = script(tmp_path / "bin/cc", f'exec >/dev/null; touch "{tmp_path}/started"; sleep 10')
    code = "from tfgpu_doctor.rehearse.build import build_driver; build_driver()"
    cache = tmp_path / "cache"
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "PATH": f"{slow}:{os.environ['PATH']}"}
    process = subprocess.Popen([sys.executable, "-c", code], env=environment)
    while not (tmp_path / "started").exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    (left,) = (cache / "tfgpu-doctor").iterdir()
    assert ".part-" in left.name
    os.utime(left, (0, 0))  # as if it had been left long ago
    folder = build(cache)
    assert names(folder) == BOTH
    assert names(cache / "tfgpu-doctor") == [folder.name]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="ziglang is not installed")
def test_ziglang_builds_it(tmp_path: pathlib.Path) -> None:
    folder = build(tmp_path / "cache", PATH="/nowhere")
    assert names(folder) == BOTH
    found = cuda_says(simulate_in(tmp_path / "stage", folder, machine({"count": 2})))
    assert found["count"] == 2
