"""The names of suites: the doctor's own, and the files of users."""

from __future__ import annotations

import os
from collections.abc import Sequence

import tfgpu_doctor.perf_tests
from tfgpu_doctor.host import Files

SUITES = os.path.dirname(os.path.abspath(tfgpu_doctor.perf_tests.__file__))


def is_own(word: str) -> bool:
    """Return whether a word is the path of a user's own suite, and no name of the doctor's."""
    return os.sep in word or word.endswith(".py")


def suite_of(word: str) -> str:
    """Return the name of a suite: of "perf/test_ingest.py" it is "ingest"."""
    return os.path.basename(word).removesuffix(".py").removeprefix("test_") if is_own(word) else word


def why_unusable(word: str, others: Sequence[str]) -> str:
    """Return why a path is no suite that can run beside the others; empty if it is one."""
    name = os.path.basename(word)
    if not (name.startswith("test_") and name.endswith(".py")):
        return f"{word}: a suite is a file named test_NAME.py"
    if not os.path.isfile(word):
        return f"{word} does not exist"
    if suite_of(word) in suite_names():
        return f"{word}: the doctor has a suite of this name; rename the file"
    if [suite_of(each) for each in others].count(suite_of(word)) > 1:
        return f"{word}: there are two suites of this name; rename one"
    return ""


def suite_names(folder: str = SUITES) -> list[str]:
    """Return the names of the available suites: test_pipeline.py is "pipeline"."""
    files = Files().names_if_any(folder)
    return sorted(
        name[len("test_") : -len(".py")] for name in files if name.startswith("test_") and name.endswith(".py")
    )
