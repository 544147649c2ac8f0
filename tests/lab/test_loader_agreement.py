"""What `tfgpu-doctor libraries` reads from the files against what the real loader does for a real TensorFlow."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess

import pytest
from doctor_command import clean_environment, run_doctor
from lab.targets import RELEASES, find_targets, folder, site_packages
from simulated import Simulate

pytestmark = pytest.mark.slow  # only the environment `full` has the lab's targets

# The profiler opens CUPTI; the listing of the GPUs all the rest.
USE = """
import tempfile, tensorflow as tf
print(len(tf.config.list_physical_devices("GPU")))
with tempfile.TemporaryDirectory() as folder:
    tf.profiler.experimental.start(folder)
    tf.profiler.experimental.stop()
"""
_ASKED = re.compile(r"find library=(\S+) \[0\]; searching")
_LOADED = re.compile(r"calling init: (\S+)")


@pytest.fixture(params=RELEASES)
def target(request: pytest.FixtureRequest) -> pathlib.Path:
    found = find_targets(folder()).get(request.param)
    if found is None:
        pytest.skip("the lab's targets are not there: `python tests/lab/targets.py` installs them (18 GB)")
    return found


def loader_says(target: pathlib.Path, **variables: str) -> tuple[set[str], dict[str, str]]:
    """The names that a real TensorFlow's process looked for, and the file loaded for each name that was found."""
    done = subprocess.run(
        [target / "bin/python", "-c", USE],
        env=clean_environment(LD_DEBUG="libs", TF_CPP_MIN_LOG_LEVEL="3", **variables),
        capture_output=True, text=True, timeout=600, check=True, errors="replace",
    )  # fmt: skip
    loaded = {os.path.basename(path): os.path.realpath(path) for path in _LOADED.findall(done.stderr)}
    return set(_ASKED.findall(done.stderr)), loaded


@pytest.mark.parametrize("helped", [False, True], ids=["as installed", "with LD_LIBRARY_PATH"])
def test_the_files_tell_what_the_loader_does(target: pathlib.Path, simulate: Simulate, helped: bool) -> None:
    driver = simulate()
    folders = [driver["LD_LIBRARY_PATH"], *(sorted(site_packages(target).glob("nvidia/*/lib")) if helped else ())]
    variables = {**driver, "LD_LIBRARY_PATH": ":".join(map(str, folders))}
    asked, loaded = loader_says(target, **variables)
    done = run_doctor("libraries", "--python", str(target), "--format", "json", environment=variables)
    rows = {row["soname"]: row for row in json.loads(done.stdout)["libraries"]}
    compared = set(rows) & asked
    assert {"libcudart.so.12", "libcublas.so.12", "libcusolver.so.11", "libcupti.so.12", "libcuda.so.1"} <= compared
    for name in sorted(compared):
        row = rows[name]
        assert row["found"] == (name in loaded), f"{name}: {row}"
        assert os.path.realpath(row["path"]) == loaded.get(name, os.path.realpath("")), name
