"""What is installed beside the tests, found without importing it: TensorFlow's import takes three seconds and 400 MB."""

from __future__ import annotations

import functools
import importlib.util

import pytest


@functools.cache
def _is_installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def skip_without_tensorflow() -> None:
    """For tests, and modules of tests, whose own processes import it."""
    if not _is_installed("tensorflow"):
        pytest.skip("TensorFlow is not installed in this Python", allow_module_level=True)


def skip_without_scipy() -> None:
    """For tests, and modules of tests, whose own processes measure."""
    if not _is_installed("scipy"):
        pytest.skip("the benchmarks' own packages are not installed", allow_module_level=True)
