"""What looks for what the tests left finds it."""

from __future__ import annotations

import json
import pathlib
import socket
import tempfile

import leftovers
import pytest
from leftovers import RunFolders, places_of_all

from tfgpu_doctor.host.owner import sign


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "_SETTLES_S", 0.3)


def test_a_socket_and_a_lock_in_the_temporary_folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    (tmp_path / "s-1").mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("s-1/s")
    (tmp_path / "facts.json.lock").touch()
    (tmp_path / "facts.json").touch()
    assert RunFolders(tmp_path).sockets_and_locks() == ["facts.json.lock", "s-1/s"]


def test_what_is_new_in_the_places_of_all_and_nobody_s(tmp_path: pathlib.Path) -> None:
    sockets, cache = tmp_path / "tmp", tmp_path / "cache"
    for folder in (sockets / "tfgpu-before", cache):
        folder.mkdir(parents=True)
    with places_of_all(sockets, cache) as left:
        assert left() == []
        (sockets / "tfgpu-new").mkdir()
        (sockets / "tfgpu-doctor-other").mkdir()
        for name in ("driver-1.part-x", "driver-1.part-mine"):
            (cache / name).mkdir()
            sign(str(cache / name))
        owner = cache / "driver-1.part-x/.owner"
        owner.write_text(json.dumps({**json.loads(owner.read_text()), "started": 1}))  # another process had the number
        (cache / "x.lock").touch()
        expected = [cache / "driver-1.part-x", cache / "x.lock", sockets / "tfgpu-new"]
        assert left() == sorted(map(str, expected))


def test_a_socket_at_which_somebody_listens_is_in_nobody_s_way() -> None:
    with tempfile.TemporaryDirectory(prefix="x-", dir="/tmp") as name, places_of_all(pathlib.Path(name)) as left:
        folder = pathlib.Path(name) / "tfgpu-a"
        folder.mkdir()
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(folder / "s"))
            listening.listen()
            assert left() == []
        assert left() == [str(folder)]
