"""`tfgpu-doctor bench` as a user runs it."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess

import jsonschema
import pytest
from doctor_command import clean_environment, doctor_argv
from locations import ROOT

SCHEMA = json.loads((ROOT / "doctor/bench/bench.schema.json").read_text("utf-8"))


def bench(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**clean_environment(), **variables}
    return subprocess.run(
        doctor_argv("bench", *words), capture_output=True, text=True, timeout=300, check=False, env=environment
    )


def test_the_suites_are_listed() -> None:
    done = bench("--list")
    assert done.returncode == 0
    assert {"device_placement", "pipeline", "training"} <= set(done.stdout.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [(("no_such_suite",), "there is no suite 'no_such_suite'"), (("--budget", "soon"), "a budget is a time")],
)
def test_what_cannot_be_meant_is_refused(words: tuple[str, ...], said: str) -> None:
    done = bench(*words)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stdout == ""


@pytest.mark.tensorflow
@pytest.mark.slow
def test_a_run_is_measured_kept_and_compared_with(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed in this Python")
    pytest.importorskip("scipy", reason="the benchmarks' own packages are not installed")
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    kept = tmp_path / "pytest-benchmark.json"
    options = ("graph_execution", "--budget", "60s", "--format", "json")
    first = bench(*options, "--save", "before", "--benchmark-json", str(kept), **cache)
    document = json.loads(first.stdout)
    jsonschema.validate(document, SCHEMA)
    measured = [comparison for comparison in document["comparisons"] if comparison["ratio"]]
    if not measured:
        pytest.skip(f"this machine is too slow today to measure anything in a minute: {document['problems']}")
    assert all(
        comparison["rounds"] >= 12 and comparison["interval"][0] <= comparison["ratio"] <= comparison["interval"][1]
        for comparison in measured
    )
    if not os.path.exists("/proc/driver/nvidia"):
        assert first.returncode == 1
        assert document["causes"][0]["label"] == "no_gpu_in_machine"
    if kept.exists():
        assert json.loads(kept.read_text())["benchmarks"][0]["extra_info"]["verdict"]
    else:
        assert "was not written" in first.stderr
    again = json.loads(bench(*options, "--compare", "before", **cache).stdout)
    assert again["reference"] == "before"
    assert {row["status"] for row in again["regressions"]} <= {
        "within", "slower", "faster", "unstable", "missing", "no reference",
    }  # fmt: skip
    assert any(row.get("reference") for row in again["regressions"])
