"""Fixtures that several tests share."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
from leftovers import RunFolders, marked_processes, own_temporary_folder, places_of_all
from locations import TESTS
from simulated import Simulate, machine, simulate_in
from timed import TIMED

from tfgpu_doctor.host import Host
from tfgpu_doctor.host.scratch import remove_run_folder
from tfgpu_doctor.rehearse.build import BuildError, build_driver

pytest_plugins = ["left_out"]

# No test fails because the machine is slow; and --full looks deeper.
hypothesis.settings.register_profile("quick", deadline=None, max_examples=25)
hypothesis.settings.register_profile("full", deadline=None, max_examples=200)


@pytest.hookimpl(optionalhook=True)  # without pytest-xdist nobody asks
def pytest_xdist_auto_num_workers() -> int:
    """Two workers a processor: a third of the time a test waits for a process, a deadline or a signal."""
    return (os.cpu_count() or 1) * 2


def pytest_configure(config: pytest.Config) -> None:
    """How deep hypothesis looks."""
    hypothesis.settings.load_profile("full" if config.getoption("full") else "quick")


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunFolders]:
    """After all tests no process that they started runs, and no folder, socket or lock of the doctor's is anywhere."""
    tmp_path_factory.getbasetemp()  # where pytest keeps what failed tests wrote
    with places_of_all() as left_elsewhere, own_temporary_folder() as folders, marked_processes() as running:
        yield folders
        remove_run_folder()
        assert running() == []
        assert folders.left() == []
        assert folders.sockets_and_locks() == []
        assert left_elsewhere() == []


@pytest.fixture(scope="module", autouse=True)
def which_file_left_it(nothing_is_left: RunFolders, request: pytest.FixtureRequest) -> Iterator[None]:
    """For the message of the fixture above."""
    yield
    nothing_is_left.look(request.node.name)


@pytest.fixture
def own_tmpdir(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that kill a doctor with SIGKILL: what it leaves lies in a temporary folder that nobody else looks at."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))


@pytest.fixture(scope="session")
def shared() -> pathlib.Path:
    """The folder that stands beside the checkout for the project's own developers."""
    folder = TESTS.parent.parent / "shared"
    if not folder.is_dir():
        pytest.skip("the folder ../shared is not there")
    return folder


@pytest.fixture(scope="session")
def driver_folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The folder of the simulated driver's libcuda.so.1 and libnvidia-ml.so.1, built with the machine's C compiler."""
    cache = {"XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache"))}
    try:
        return pathlib.Path(build_driver(Host(environment={**os.environ, **cache})))
    except BuildError as error:
        pytest.skip(str(error))


@pytest.fixture
def simulate(driver_folder: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Simulate:
    """Gives the variables for a machine: `simulate({"memory_used_bytes": 5}, faults={"cuInit": 999})`."""

    def make(*gpus: dict[str, Any], **fields: Any) -> dict[str, str]:
        folder = tmp_path_factory.mktemp("machine") / "stage"
        return simulate_in(folder, driver_folder, machine(*gpus, **fields))

    return make


@pytest.hookimpl(tryfirst=True)  # before -m chooses, and before the slow ones are left out
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What a browser looks at does not depend on the Python that made it; what waits is known by its file, and begins."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)
        if item.path.is_relative_to(TESTS) and item.path.relative_to(TESTS).as_posix() in TIMED:
            item.add_marker(pytest.mark.timed)
    if not config.getoption("full"):  # they wait more than they compute: not all at the end, when no others are left
        items.sort(key=lambda item: item.get_closest_marker("timed") is None)
