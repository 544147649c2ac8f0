"""What a run of the tests did not look at: the slow ones unless `--full` is given, what this machine lacks, counted, and
what `--beside-tensorflow` and `--left-out` leave to another run.

A plugin of tests/conftest.py. With pytest-xdist the workers choose, and tell the process that prints.
"""

from __future__ import annotations

import collections
import pathlib
import re
from typing import Any

import pytest
from locations import TESTS

_SLOW = "tfgpu_slow_tests"
_QUICK = "tfgpu_quick_tests"
_UNREAD = "tfgpu_files_of_quick_tests"
_COUNT: pytest.StashKey[int] = pytest.StashKey()
_COUNT_QUICK: pytest.StashKey[int] = pytest.StashKey()
_FILES_UNREAD: pytest.StashKey[set[pathlib.Path]] = pytest.StashKey()
_COUNT_UNREAD: pytest.StashKey[int] = pytest.StashKey()
# Without one of these words a file holds quick tests alone: the mark, what gives it to some, what hypothesis repeats.
_NOT_QUICK_ALONE = re.compile(r"\b(?:slow|browser|given|sampled|each_machine|interpreter)\b")
# Tests that open no file of an installed TensorFlow, as an audit hook in every process of a run saw (open, os.listdir,
# os.scandir, import), but for the list of its entry points, which is read with those of all packages: they judge recorded
# facts, read logs, write pages, and play made-up machines. Python's own import does not show there a second time:
# tests/project/test_ci.py looks for what asks for TensorFlow.
_NO_DIFFERENCE = (
    "accept/",
    "advise/",
    "bench/test_children.py",
    "bench/test_other_work.py",
    "bench/test_run.py",
    "bench/test_telemetry.py",
    "checks/",
    "cli/test_libraries.py",
    "collect/ldso/",
    "collect/probes/",
    "collect/workers/test_gpu_health.py",
    "collect/workers/test_sample_nvml.py",
    "collect/workers/test_simulated_driver.py",
    "diagnose/",
    "fix/",
    "fleet/",
    "knowledge/",
    "log/",
    "model/",
    "project/",
    "rehearse/",
    "render/",
    "ticket/",
    "tools/",
    "tracing/",
    "watching/",
)
# The others, and those that stop, watch or sample processes: there a newer Python may make a difference.
_BUT = (
    "accept/test_accept_command.py",
    "accept/test_comparisons_table.py",
    "accept/test_learning.py",
    "collect/ldso/test_gpu_code.py",
    "fleet/test_ray_task.py",
    "fleet/test_run.py",
    "rehearse/test_real_tensorflow.py",
    "tools/test_calibrate_bench.py",
    "tools/test_record_gpu.py",
    "tracing/test_programs.py",
    "tracing/test_recorder.py",
    "tracing/test_startup.py",
    "watching/test_program_signals.py",
    "watching/test_watch_command.py",
)

# In files of which other tests need TensorFlow: these read at most the metadata of its distribution.
_TESTS = {
    "cli/test_output_files.py::test_a_file_that_may_not_grow_is_not_begun",
    "cli/test_output_files.py::test_a_stream_by_any_name_is_written_to_and_its_file_is_not_replaced",
    "cli/test_output_files.py::test_an_open_stream_is_written_to_and_its_file_is_not_replaced",
    "pytest_plugin/test_pytest_plugin.py::test_typos_in_a_marker_are_errors_of_its_file",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --full, --left-out and --beside-tensorflow."""
    parser.addoption("--full", action="store_true", help="run the slow tests as well")
    parser.addoption(
        "--left-out",
        action="store_true",
        help="with --full: leave out the quick tests, except those that hypothesis repeats, which --full repeats more often",
    )
    parser.addoption(
        "--beside-tensorflow",
        action="store_true",
        help="leave out the tests to which it makes no difference whether TensorFlow is installed",
    )


def pytest_ignore_collect(collection_path: pathlib.Path, config: pytest.Config) -> bool | None:
    """Leave out what another run looks at, before it is imported."""
    if config.getoption("beside_tensorflow") and makes_no_difference(collection_path):
        return True
    if config.getoption("full") and config.getoption("left_out") and _quick_alone(collection_path):
        config.stash.setdefault(_FILES_UNREAD, set()).add(collection_path)
        return True
    return None


def _quick_alone(path: pathlib.Path) -> bool:
    """Whether all tests in this file are quick; what is wrong here ends a run of the quick tests with an error."""
    return path.match("test_*.py") and path.is_file() and not _NOT_QUICK_ALONE.search(path.read_text("utf-8"))


def makes_no_difference(path: pathlib.Path) -> bool:
    """Whether the tests in this file are the same beside any TensorFlow."""
    name = _below_tests(path)
    return path.is_file() and name.startswith(_NO_DIFFERENCE) and name not in _BUT


@pytest.hookimpl(trylast=True)  # after others have marked what is slow
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is slow, unless all is wanted; or what the quick tests have looked at."""
    if config.getoption("beside_tensorflow"):
        items[:] = [item for item in items if _name(item) not in _TESTS]
    chosen = [_slow(item) or _repeated(item) for item in items]
    if not config.getoption("full"):
        unseen = {item.path for item, one in zip(items, chosen, strict=True) if one and _quick_alone(item.path)}
        if unseen:
            raise pytest.UsageError(
                f"--left-out would not see the slow tests in {', '.join(map(str, sorted(unseen)))}: name their mark there"
            )
        kept, key, name = [not _slow(item) for item in items], _COUNT, _SLOW
    elif config.getoption("left_out"):
        kept, key, name = chosen, _COUNT_QUICK, _QUICK
    else:
        return
    left = [item for item, keep in zip(items, kept, strict=True) if not keep]
    config.stash[key] = len(left)
    if hasattr(config, "workeroutput"):
        config.workeroutput[name] = len(left)
        config.workeroutput[_UNREAD] = len(config.stash.get(_FILES_UNREAD, ()))
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item, keep in zip(items, kept, strict=True) if keep]


def _name(item: pytest.Item) -> str:
    """The file, below the folder of all tests, and the function."""
    return f"{_below_tests(item.path)}::{item.name.partition('[')[0]}"


def _below_tests(path: pathlib.Path) -> str:
    return path.relative_to(TESTS).as_posix() if path.is_relative_to(TESTS) else ""


def _slow(item: pytest.Item) -> bool:
    return item.get_closest_marker("slow") is not None


def _repeated(item: pytest.Item) -> bool:
    return bool(getattr(getattr(item, "obj", None), "is_hypothesis_test", False))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Keep what a worker left out: each leaves out the same."""
    if error is None:
        node.config.stash[_COUNT] = node.workeroutput.get(_SLOW, 0)
        node.config.stash[_COUNT_QUICK] = node.workeroutput.get(_QUICK, 0)
        node.config.stash[_COUNT_UNREAD] = node.workeroutput.get(_UNREAD, 0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Skips by reason, and the command that runs what was left out."""
    skipped = terminalreporter.getreports("skipped")
    reasons = collections.Counter(str(each.longrepr[2]).removeprefix("Skipped: ") for each in skipped if each.longrepr)
    stash = terminalreporter.config.stash
    slow, quick = stash.get(_COUNT, 0), stash.get(_COUNT_QUICK, 0)
    files = stash.get(_COUNT_UNREAD, 0) or len(stash.get(_FILES_UNREAD, ()))
    beside_tensorflow = terminalreporter.config.getoption("beside_tensorflow")
    if reasons or slow or quick or files or beside_tensorflow:
        terminalreporter.section("not looked at")
    for reason, count in sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0])):
        terminalreporter.write_line(f"{count:5}  {' '.join(reason.split())}")
    if slow:
        terminalreporter.write_line(f"{slow:5}  slow tests: `tox -e full` runs them, or pytest with --full")
    if quick or files:
        terminalreporter.write_line(
            f"{quick:5}  quick tests, and those of {files} files: `tox` runs them, or pytest with --full and without --left-out"
        )
    if beside_tensorflow:
        folders = ", ".join(each.strip("/") for each in _NO_DIFFERENCE if each.endswith("/"))
        terminalreporter.write_line(
            f"       most tests of {folders}: the same beside any TensorFlow; `tox -e oldest` runs them"
        )
