"""`tfgpu-doctor bench` as a user runs it."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import jsonschema
import pytest
from doctor_command import clean_environment, doctor_argv, hear_interrupts
from installed import skip_without_scipy, skip_without_tensorflow
from locations import ROOT

SCHEMA = json.loads((ROOT / "doctor/bench/bench.schema.json").read_text("utf-8"))


def bench(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return bench_in(None, *words, **variables)


def bench_in(folder: pathlib.Path | None, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        doctor_argv("bench", *words), capture_output=True, text=True, timeout=300, check=False,
        env={**clean_environment(), **variables}, cwd=folder,
    )  # fmt: skip


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


def test_a_misspelt_reference_is_refused_before_the_work(tmp_path: pathlib.Path) -> None:
    skip_without_tensorflow()
    skip_without_scipy()
    done = bench("graph_execution", "--compare", "befor", XDG_CACHE_HOME=str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("tfgpu-doctor: error: no run is saved to compare with")


@pytest.mark.skipif(sys.platform == "win32", reason="the signals are POSIX's")
@pytest.mark.parametrize("format_", ["json", "text", "markdown"])
def test_interrupted_before_anything_was_measured_it_says_so(tmp_path: pathlib.Path, format_: str) -> None:
    skip_without_scipy()
    process = subprocess.Popen(
        doctor_argv("bench", "--format", format_), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**clean_environment(), "TMPDIR": str(tmp_path)}, preexec_fn=hear_interrupts,
    )  # fmt: skip
    until = time.monotonic() + 60
    while not list(tmp_path.glob("tfgpu-doctor-*/tmp")):  # the examination has begun
        assert time.monotonic() < until
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    text, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    if format_ == "json":
        document = json.loads(text)
        jsonschema.validate(document, SCHEMA)
        assert document["interrupted"]
        assert document["exit_code"] == 130
        assert document["why"][0].startswith("the run was interrupted")
        assert document["comparisons"] == []
    else:
        assert "interrupted · no comparison was measured" in text


def test_settings_that_cannot_be_meant_are_refused(tmp_path: pathlib.Path) -> None:
    skip_without_scipy()
    (tmp_path / "tfgpu-doctor.toml").write_text("deadline = 0\n")
    for words in ((), ("--history",)):
        done = bench_in(tmp_path, *words)
        assert (done.returncode, done.stdout) == (2, "")
        assert "deadline is 0" in done.stderr


# A TensorFlow that never starts the first time, and never can after that.
HANGS = """
import os, time
try:
    os.mkdir({folder!r})
except FileExistsError:
    raise ImportError("not again")
time.sleep(600)
"""


@pytest.mark.slow
def test_the_time_limit_of_the_settings_counts(tmp_path: pathlib.Path) -> None:
    skip_without_scipy()
    for deadline_s in (5, 20, 60):
        folder = tmp_path / str(deadline_s)
        (folder / "modules/tensorflow").mkdir(parents=True)
        (folder / "tfgpu-doctor.toml").write_text(f"deadline = {deadline_s}\n")
        (folder / "modules/tensorflow/__init__.py").write_text(HANGS.format(folder=str(folder / "began")))
        variables = {"PYTHONPATH": str(folder / "modules"), "XDG_CACHE_HOME": str(folder / "cache")}
        done = bench_in(folder, "graph_execution", "--budget", "5s", **variables)
        if (folder / "began").exists():  # else this machine was too slow to come to TensorFlow in time
            break
    assert (folder / "began").exists()
    assert f"within {deadline_s} s" in done.stdout, (done.stdout, done.stderr)


@pytest.mark.tensorflow
@pytest.mark.slow
def test_a_run_is_measured_kept_and_compared_with(tmp_path: pathlib.Path) -> None:
    skip_without_tensorflow()
    skip_without_scipy()
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    kept = tmp_path / "pytest-benchmark.json"
    options = ("graph_execution", "--budget", "40s", "--format", "json")
    first = bench(*options, "--save", "before", "--benchmark-json", str(kept), **cache)
    document = json.loads(first.stdout)
    jsonschema.validate(document, SCHEMA)
    measured = [comparison for comparison in document["comparisons"] if comparison["ratio"]]
    if not measured:
        pytest.skip(f"this machine is too slow today to measure anything in 40 s: {document['problems']}")
    assert all(
        comparison["rounds"] >= 9 and comparison["interval"][0] <= comparison["ratio"] <= comparison["interval"][1]
        for comparison in measured
    )
    if not os.path.exists("/proc/driver/nvidia"):
        assert first.returncode == 1
        assert document["causes"][0]["label"] == "no_gpu_in_machine"
    if kept.exists():
        assert json.loads(kept.read_text())["benchmarks"][0]["extra_info"]["verdict"]
        assert document["exit_code"] == first.returncode
        assert bool(document["why"]) == bool(first.returncode)
    else:
        assert "was not written" in first.stderr
    again = json.loads(bench(*options, "--compare", "before", **cache).stdout)
    assert again["reference"] == "before"
    assert {row["status"] for row in again["regressions"]} <= {
        "within", "slower", "faster", "unstable", "missing", "no reference",
    }  # fmt: skip
    assert any(row.get("reference") for row in again["regressions"])
