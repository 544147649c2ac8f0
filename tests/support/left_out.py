"""What a run of the tests did not look at: the slow tests unless `--full` is given, and what this machine lacks, counted.

A plugin of tests/conftest.py. With pytest-xdist the workers choose, and tell the process that prints.
"""

from __future__ import annotations

import collections
from typing import Any

import pytest

_SLOW = "tfgpu_slow_tests"
_COUNT: pytest.StashKey[int] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --full."""
    parser.addoption("--full", action="store_true", help="run the slow tests as well")


@pytest.hookimpl(trylast=True)  # after others have marked what is slow
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is slow, unless all is wanted."""
    if config.getoption("full"):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    config.stash[_COUNT] = len(slow)
    if hasattr(config, "workeroutput"):
        config.workeroutput[_SLOW] = len(slow)
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if not item.get_closest_marker("slow")]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Keep what a worker left out: each leaves out the same."""
    if error is None:
        node.config.stash[_COUNT] = node.workeroutput.get(_SLOW, 0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Skips by reason, and the command that runs what was left out."""
    skipped = terminalreporter.getreports("skipped")
    reasons = collections.Counter(str(each.longrepr[2]).removeprefix("Skipped: ") for each in skipped if each.longrepr)
    slow = terminalreporter.config.stash.get(_COUNT, 0)
    if reasons or slow:
        terminalreporter.section("not looked at")
    for reason, count in sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0])):
        terminalreporter.write_line(f"{count:5}  {' '.join(reason.split())}")
    if slow:
        terminalreporter.write_line(f"{slow:5}  slow tests: `tox -e full` runs them, or pytest with --full")
