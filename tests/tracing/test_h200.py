"""Trainings recorded by the doctor on an NVIDIA H200 with TensorFlow 2.21.0, most cut to their first seconds.

What is right was written down before the recording, with one mistake: the program called healthy copies 134 MB from the
host in each step, and is `copies` here (docs/results/h200.md).
"""

from __future__ import annotations

import pathlib

import made_trace
import pytest

from tfgpu_doctor.tracing.python_samples import FILE
from tfgpu_doctor.tracing.result import TraceReport

FOLDER = pathlib.Path(__file__).parent / "recorded/h200"
RIGHT = {
    "py_function": "input_python",
    "serial_map": "input_serial_map",
    "compressed_records": "input_slow_source",
    "tiny_steps": "launch_bound",
    "float32": "fp32",
    "run_eagerly": "eager",
    "retracing": "retracing",
    "copies": "copies",
    "long_calls": "compute_bound",
}


def judged(name: str, folder: pathlib.Path) -> TraceReport:
    return made_trace.judged_recording(FOLDER, name, folder)


def evidence(report: TraceReport, label: str) -> str:
    return "; ".join(next(cause for cause in report.causes if cause.label == label).evidence)


def test_each_recording_has_an_answer() -> None:
    assert {file.name.partition(".")[0] for file in FOLDER.glob("*.xplane.pb.xz")} == set(RIGHT)


@pytest.mark.parametrize("name", RIGHT)
def test_a_training_on_a_gpu(name: str, tmp_path: pathlib.Path) -> None:
    report = judged(name, tmp_path)
    assert report.verdict == RIGHT[name]
    assert report.gpu
    assert report.gpu.device == "/device:GPU:0"
    assert report.gpu.compute_capability == "9.0"
    assert report.gpu.kernels > 5
    at_best = report.gain.step_ms_at_best
    assert at_best is None if report.healthy else at_best and at_best < report.steps.mean_ms


def test_making_the_iterator_of_each_call_starts_no_step(tmp_path: pathlib.Path) -> None:
    """TensorFlow 2.22.0rc0, a loop in a graph: it was called sync_each_step, and launch_bound."""
    report = judged("long_calls", tmp_path)
    assert report.steps.found_by == "graph"
    assert report.causes[0].label == "new_iterators"
    assert report.causes[0].share == pytest.approx(0.14, abs=0.03)
    assert "an iterator is made (MakeIterator)" in evidence(report, "new_iterators")


def test_the_first_run_of_a_graph_on_a_gpu_ends_no_epoch(tmp_path: pathlib.Path) -> None:
    """It waits 0.3 s for kernels that are loaded and compiled, while the thread of Python stands still."""
    assert (FOLDER / f"retracing.{FILE}.xz").exists()
    assert [cause.label for cause in judged("retracing", tmp_path).causes] == ["retracing"]


def test_copies_say_how_much_and_how_fast(tmp_path: pathlib.Path) -> None:
    told = evidence(judged("copies", tmp_path), "copies")
    assert "134.2 MB a step, at 7.24 GB/s" in told
    assert "pageable" in told


def test_a_slow_kernel_is_named(tmp_path: pathlib.Path) -> None:
    told = evidence(judged("copies", tmp_path), "slow_kernel")
    assert "BiasGradNHWC_Naive" in told
    assert "11.0 of 38.6 ms" in told
    assert "3 calls" in told


def test_the_same_kernel_is_no_cause_where_it_is_fast(tmp_path: pathlib.Path) -> None:
    assert [cause.label for cause in judged("float32", tmp_path).causes] == ["fp32", "copies"]
