"""Trainings recorded by `tools/record_gpu.py` on an NVIDIA H100 with TensorFlow 2.21.0 (docs/results/h100.md).

The doctor of that day was right of two of these four: it called `long_calls` launch_bound, as its recording begins with the
first step; and of `layout` the expectation was wrong, as TensorFlow takes most of its transposes out.
"""

from __future__ import annotations

import pathlib

import made_trace
import pytest

from tfgpu_doctor.tracing.result import TraceReport

FOLDER = pathlib.Path(__file__).parent / "recorded/h100"
RIGHT = {
    "healthy": "compute_bound",
    "cpu_fallback": "cpu_fallback",
    "long_calls": "compute_bound",
    "layout": "compute_bound",
}


def judged(name: str, folder: pathlib.Path) -> TraceReport:
    return made_trace.judged_recording(FOLDER, name, folder)


def test_each_recording_has_an_answer() -> None:
    assert {file.name.partition(".")[0] for file in FOLDER.iterdir()} == set(RIGHT)


@pytest.mark.parametrize("name", RIGHT)
def test_a_training_on_a_gpu(name: str, tmp_path: pathlib.Path) -> None:
    report = judged(name, tmp_path)
    assert report.verdict == RIGHT[name]
    assert report.gpu
    assert report.gpu.kernels > 5


def test_the_first_step_that_loads_kernels_is_left_out(tmp_path: pathlib.Path) -> None:
    report = judged("long_calls", tmp_path)
    assert (report.steps.found_by, report.steps.count) == ("graph", 99)
    assert "the first step takes 932 ms" in report.why
    assert report.shares.compute == pytest.approx(0.92, abs=0.02)


def test_a_conversion_is_no_convolution(tmp_path: pathlib.Path) -> None:
    """Eigen's kernel that multiplies by a converted comparison (the gradient of relu) has TensorConversionOp in its name."""
    assert judged("layout", tmp_path).causes == ()
