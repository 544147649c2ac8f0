"""pytest-benchmark's own document: its tools read what is written, and what they write is read."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

from tfgpu_doctor.bench.pytest_document import DocumentError, read_document, write_document
from tfgpu_doctor.bench.regression import compare
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.bench import Bench, Comparison, Side

MEASURED = Comparison(
    suite="pipeline", name="prefetch[ahead]", verdict="faster", ratio=1.5, interval=(1.4, 1.6), rounds=3,
    device="CPU:0", candidate=Side(name="a", seconds=(0.1, 0.11, 0.1)), baseline=Side(name="b", seconds=(0.15, 0.16, 0.15)),
)  # fmt: skip
LOST = Comparison(suite="pipeline", name="cache", verdict="not run", reason="out of memory")
RUN = Bench(suite_version="1", comparisons=(MEASURED, LOST))
SUITE = """
def test_prefetch(benchmark):
    benchmark.extra_info.update(verdict="faster", ratio=2.0, interval=[1.9, 2.1])
    benchmark.pedantic(lambda: None, rounds=3)
"""


def document(run: Bench = RUN) -> str:
    return write_document(run, diagnose(Facts(bench=run)))


def test_what_is_written_is_read_again() -> None:
    read = read_document(document().encode())
    (comparison,) = read.bench.comparisons
    assert (comparison.key, comparison.verdict, comparison.ratio, comparison.interval, comparison.rounds) == (
        MEASURED.key, "faster", 1.5, (1.4, 1.6), 3,
    )  # fmt: skip
    assert read.bench.suite_version == "1"
    assert read.machine is not None
    assert [row.status for row in compare(RUN, [read.bench])] == ["within", "no reference"]


def test_its_own_tool_shows_what_is_written(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "0001_run.json"
    file.write_text(document())
    done = subprocess.run(
        [sys.executable, "-m", "pytest_benchmark", "compare", str(file), "--csv", str(tmp_path / "table.csv")],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "pipeline/prefetch[ahead]" in done.stdout
    assert "test_pipeline.py::test_prefetch[ahead]" in (tmp_path / "table.csv").read_text()


def test_what_pytest_writes_is_read(tmp_path: pathlib.Path) -> None:
    (tmp_path / "test_pipeline.py").write_text(SUITE)
    file = tmp_path / "kept.json"
    # Where pytest-xdist runs, pytest-benchmark measures nothing.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "pytest_benchmark.plugin", f"--benchmark-json={file}", "."]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stdout
    read = read_document(file.read_bytes())
    assert [(comparison.key, comparison.ratio) for comparison in read.bench.comparisons] == [
        ("pipeline::prefetch", 2.0)
    ]
    assert read.machine is None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "not a pytest-benchmark document"),
        (b"[]", "not a pytest-benchmark document"),
        (b'{"machine_info": {}, "benchmarks": []}', "none of its benchmarks is a tfgpu-doctor comparison"),
        (b'{"machine_info": 7, "benchmarks": []}', "not a pytest-benchmark document"),
        (
            json.dumps(
                {"machine_info": {}, "benchmarks": [{"fullname": "a::b", "extra_info": {"ratio": "fast"}}]}
            ).encode(),
            "not a pytest-benchmark document",
        ),
    ],
)
def test_what_is_no_such_document_is_named(content: bytes, said: str) -> None:
    with pytest.raises(DocumentError, match=said):
        read_document(content)
