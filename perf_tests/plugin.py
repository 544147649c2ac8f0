"""A pytest plugin: options and hooks for the perf suites, and for comparisons in the tests of users.

Every pytest of an environment with the doctor loads it (by `entry`), so it changes nothing where no test compares.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator
from typing import Any

import pytest

from tfgpu_doctor.perf_tests.budget import Budget, parse_budget
from tfgpu_doctor.perf_tests.notes import note
from tfgpu_doctor.perf_tests.replay import TIMER
from tfgpu_doctor.perf_tests.variables import JOURNAL_VARIABLE, START_AGAIN

_FIXTURES = "tfgpu_doctor.perf_tests.fixtures"
pytest_plugins = (_FIXTURES,)

LOWEST_PRIORITY = 9
BUDGET: pytest.StashKey[Budget] = pytest.StashKey()
METRICS: pytest.StashKey[list[dict[str, Any]]] = pytest.StashKey()
COMPARED: pytest.StashKey[bool] = pytest.StashKey()
_FOLDER = os.path.dirname(os.path.abspath(__file__))
_BENCHMARK = ("benchmark", "pytest_benchmark.plugin")  # its entry point, and as `-p` registers it
_LONGEST = 400  # characters of a reason
_OUTCOME: pytest.StashKey[tuple[str, str]] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; the last four are the doctor's own, which measures in several processes."""
    group = parser.getgroup("tfgpu-doctor")
    group.addoption("--tfgpu-budget", default="60s", help="time for all comparisons, 60s or 5m; full: no limit")
    group.addoption("--tfgpu-strict", action="store_true", help="without a GPU, too, a lost comparison fails")
    group.addoption("--tfgpu-even-if-busy", action="store_true", help="also measure GPUs that other processes use")
    group.addoption("--tfgpu-budget-ends", type=float, help="end of the time, in seconds since 1970")
    group.addoption("--tfgpu-share", type=float, help="seconds of each comparison in this process, one of several")
    group.addoption("--tfgpu-first-of", type=int, default=1, help="number of processes that measure the same")
    group.addoption("--tfgpu-comparisons-only", action="store_true", help="leave out tests that are no comparisons")


def pytest_configure(config: pytest.Config) -> None:
    """Start the time budget."""
    config.addinivalue_line(
        "markers",
        "priority(rank, needs_s=3): importance of a comparison, 1 is highest; a short budget runs it first, if it fits",
    )
    try:
        seconds = parse_budget(config.getoption("--tfgpu-budget"))
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error
    ends = config.getoption("--tfgpu-budget-ends")
    if ends is None and seconds is not None:
        ends = time.time() + seconds
    processes = config.getoption("--tfgpu-first-of")
    config.stash[BUDGET] = Budget(None if seconds is None else ends, processes=processes)
    config.stash[METRICS] = []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let pytest-benchmark take its times from the comparisons; sort the doctor's own suites by priority."""
    ids = [item.nodeid for item in items]
    if config.getoption("--tfgpu-comparisons-only"):
        config.hook.pytest_deselected(items=[item for item in items if not _compares(item)])
        items[:] = filter(_compares, items)
    for item in filter(_compares, items) if _has_benchmark(config) else ():
        name = item.name.removeprefix("test_")
        item.add_marker(pytest.mark.benchmark(timer=TIMER, group=f"{item.path.stem.removeprefix('test_')}/{name}"))
    if all(map(_is_ours, items)):
        first = config.getoption("--tfgpu-share") is not None  # every process measures them, in the same order
        items.sort(key=lambda item: (first and not _compares(item), _rank(item)))
    config.stash[BUDGET].expect(sum(map(_measures, items)))
    note("session", {"tests": len(items), "ids": ids})


def pytest_unconfigure() -> None:
    """Remove the doctor's temporary folder now: pytest-xdist kills a worker that takes long to end."""
    if scratch := sys.modules.get("tfgpu_doctor.host.scratch"):
        scratch.remove_run_folder()


def pytest_runtest_logstart(nodeid: str) -> None:
    """Note the start of a test in the journal."""
    note("test", {"id": nodeid})


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    """Note the outcome of a test and its reason in the journal: from its last phase, or from one that did not pass."""
    outcome = yield
    if not _is_ours(item):
        return
    report = outcome.get_result()
    outcomes = item.stash.setdefault(_OUTCOME, ("passed", ""))
    if report.outcome != "passed":
        outcomes = item.stash[_OUTCOME] = (report.outcome, str(call.excinfo.value) if call.excinfo else "")
    if isinstance(report.longrepr, tuple):
        # A skip: report the test's location, not the fixture's, which skips many tests.
        report.longrepr = (str(item.path), item.reportinfo()[1], report.longrepr[2])
    if report.when == "teardown":
        if _measures(item):
            item.config.stash[BUDGET].one_is_done()
        silent = _why_silent(item) if outcomes[0] == "failed" else ""
        reason = " ".join(outcomes[1].split())[:_LONGEST]
        note("test ended", {"id": item.nodeid, "outcome": outcomes[0], "reason": reason})
        if silent and JOURNAL_VARIABLE in os.environ:
            os._exit(START_AGAIN)


def _why_silent(item: pytest.Item) -> str:
    """Return why the GPU of a test stopped responding; empty if it responds, or if the test had no GPU."""
    from tfgpu_doctor.perf_tests.answering import why_silent

    given = getattr(item, "funcargs", {})
    return why_silent(given["tensorflow"], given["gpu"]) if {"gpu", "tensorflow"} <= set(given) else ""


def _is_ours(item: pytest.Item) -> bool:
    """Whether the doctor runs the test, or it belongs to the doctor's suites."""
    return JOURNAL_VARIABLE in os.environ or str(item.path).startswith(_FOLDER + os.sep)


def _measures(item: pytest.Item) -> bool:
    return "share_s" in getattr(item, "fixturenames", ())


def _compares(item: pytest.Item) -> bool:
    """Whether a test compares: it uses the doctor's fixture `compare`, which a user's own of that name may wrap."""
    if "compare" not in getattr(item, "fixturenames", ()):
        return False
    info = getattr(item, "_fixtureinfo", None)  # pytest has no public way to ask
    for each in reversed(info.name2fixturedefs.get("compare", ()) if info else ()):
        if each.func.__module__ == _FIXTURES:
            return True
        if "compare" not in each.argnames:
            break
    return JOURNAL_VARIABLE in os.environ


def _has_benchmark(config: pytest.Config) -> bool:
    """Whether pytest-benchmark is loaded: without it nobody knows its marker."""
    return any(map(config.pluginmanager.hasplugin, _BENCHMARK))


def _rank(item: pytest.Item) -> int:
    marker = item.get_closest_marker("priority")
    return int(marker.args[0]) if marker else LOWEST_PRIORITY


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_machine_info(config: pytest.Config, machine_info: dict[str, Any]) -> None:
    """Add the GPU, the driver and TensorFlow to the document of pytest-benchmark, which does not record them."""
    if not config.stash.get(COMPARED, False):
        return
    import tfgpu_doctor
    from tfgpu_doctor.bench import SUITE_VERSION, machine_part

    machine_info["tfgpu_doctor"] = machine_part(tfgpu_doctor.check(quick=True), SUITE_VERSION)


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_json(config: pytest.Config, benchmarks: Any, output_json: dict[str, Any]) -> None:
    """Add the measurements that are no comparisons."""
    if config.stash[METRICS]:
        output_json["tfgpu_doctor"] = {"metrics": config.stash[METRICS]}
