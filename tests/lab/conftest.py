"""The lab: where its targets are, and the table of its results."""

from __future__ import annotations

import os
import pathlib
import shutil
from collections.abc import Iterator

import pytest
from lab import targets
from lab.answers import Answers
from lab.machines import MACHINES
from tabulate import tabulate

_HEADERS = ("machine", "expected", "first cause", "seconds", "")


@pytest.fixture(scope="session")
def lab_targets() -> Iterator[pathlib.Path]:
    """The folder of the lab's targets, which `tox -e full` fills; no test may change them."""
    if reason := targets.why_not():
        pytest.skip(reason)
    folder = targets.folder()
    if set(targets.RELEASES) - set(targets.find_targets(folder)):
        pytest.skip("the lab's targets are not there: `python tests/lab/targets.py` installs them (18 GB)")
    before = _changed_at(folder)
    yield folder
    assert _changed_at(folder) == before, "a machine of the lab has changed a target itself, and not its copy"


def _changed_at(folder: pathlib.Path) -> dict[pathlib.Path, int]:
    """When those files and folders of the targets were changed that the lab's machines may damage (nanoseconds)."""
    site = "lib/python3*/site-packages"
    places = ("bin/*", f"{site}/*", f"{site}/nvidia/*/*", f"{site}/tensorflow/include/*")
    environments = targets.find_targets(folder).values()
    found = [path for each in environments for place in places for path in each.glob(place)]
    return {path: path.lstat().st_mtime_ns for path in found if path.name != "__pycache__"}


@pytest.fixture
def bench(tmp_path: pathlib.Path, lab_targets: pathlib.Path) -> Iterator[pathlib.Path]:
    """An empty folder, on the file system of the targets: a copy is made of hard links. Gone after the test."""
    folder = tmp_path / "bench"
    if tmp_path.stat().st_dev != lab_targets.stat().st_dev:
        folder = lab_targets / f"bench-{os.getpid()}"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """What was said of the single machines; the tests may run in several processes."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if own.name.startswith("popen-") else own) / "answers"
    folder.mkdir(exist_ok=True)
    return Answers(folder)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print one table of all machines, from what their tests noted; those may have run in other processes."""
    reports = [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
    noted = [dict(report.user_properties) for report in reports if report.when == "call"]
    rows = {
        note["machine"]: [note[name] for name in ("machine", *_HEADERS[1:4], "right")]
        for note in noted
        if "machine" in note
    }
    if rows:
        table = [rows[machine.name] for machine in MACHINES if machine.name in rows]
        terminalreporter.section("the lab")
        terminalreporter.write_line(tabulate(table, headers=_HEADERS, floatfmt=".1f"))
        right = sum(row[-1].startswith("ok") for row in table)
        terminalreporter.write_line(f"\n{right} of {len(table)} machines got the right first cause")
    if pairs := [note["pair"] for note in noted if "pair" in note]:
        terminalreporter.section("two faults at once: the first cause, and what is named once it is mended")
        terminalreporter.write_line("\n".join(pairs))
