"""The causes of real logs that people reported; the folder with them is the developers' own."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest

COMMAND = f"{sys.executable} -m tfgpu_doctor log - --format json"


def score(shared: pathlib.Path, *options: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, str(shared / "corpus/score.py"), "--command", COMMAND, *options],
        capture_output=True, text=True, check=True, timeout=600,
    )  # fmt: skip
    return {name: float(value) for name, value in re.findall(r"(\w+) ([\d.]+)", done.stdout.splitlines()[-1])}


def test_with_what_is_known_of_the_machine(shared: pathlib.Path) -> None:
    pytest.importorskip("yaml")
    found = score(shared, "--facts")
    assert found["failed"] == 0
    assert found["top1"] >= 0.90
    assert found["top3"] >= 0.97
    assert found["wrong"] <= 6  # a launch that failed speaks of the program first; a crash is quoted as undetermined


@pytest.mark.slow
def test_with_the_log_alone(shared: pathlib.Path) -> None:
    pytest.importorskip("yaml")
    found = score(shared)
    assert found["failed"] == 0
    assert found["top1"] >= 0.78
