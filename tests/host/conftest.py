"""Fixtures of the tests of the host."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator

import pytest

from tfgpu_doctor.host import Processes


@pytest.fixture(autouse=True)
def no_core_files() -> Iterator[None]:
    """Children that die of a signal leave no core file in the working folder, though the limit allows it, as in a container."""
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_CORE)
    before = set(os.listdir())
    resource.setrlimit(resource.RLIMIT_CORE, (limits[1], limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_CORE, limits)
    assert not [name for name in set(os.listdir()) - before if name.startswith("core")]


@pytest.fixture
def processes() -> Iterator[Processes]:
    """Processes that are all killed at the end of the test."""
    processes = Processes()
    yield processes
    processes.stop()


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    """The root folder of a made-up machine, with an /etc; what lies beside it lies outside the machine."""
    folder = tmp_path / "machine"
    (folder / "etc").mkdir(parents=True)
    return folder


@pytest.fixture
def as_user(tmp_path: pathlib.Path) -> None:
    """Skip where permissions do not bind the one who runs the tests."""
    closed = tmp_path / "closed to all"
    closed.touch(mode=0)
    readable = os.access(closed, os.R_OK)
    closed.unlink()
    if readable:
        pytest.skip("the one who runs the tests may read everything")
