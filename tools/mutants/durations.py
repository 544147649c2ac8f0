"""A pytest plugin that writes each test's outcome and seconds, by phase, as JSON lines."""

from __future__ import annotations

import json
import os
import pathlib

import pytest


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Register only in the reporting process; with pytest-xdist, the workers report to it."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        with pathlib.Path(os.environ["TFGPU_MUTANT_TESTS"]).open("a") as file:
            file.write(json.dumps([report.nodeid, report.outcome, report.duration]) + "\n")
