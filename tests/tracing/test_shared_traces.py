"""Profiles of real GPUs: the doctor's figures against those that XProf gives for the same files."""

from __future__ import annotations

import pathlib

import pytest

from tfgpu_doctor.tracing.command import examined
from tfgpu_doctor.tracing.examine import examine
from tfgpu_doctor.tracing.reading import find_file, read_profile
from tfgpu_doctor.tracing.result import TraceReport, make_report


@pytest.fixture(scope="module")
def bert(shared: pathlib.Path) -> TraceReport:
    file = find_file(str(shared / "traces/bert-8xV100-one-step"))
    profile = read_profile(file)
    return make_report(profile, examine(profile), file)


def test_the_step_of_bert_on_v100(bert: TraceReport) -> None:
    assert bert.steps.median_ms == pytest.approx(21.3, rel=0.03)
    assert bert.gpu is not None
    assert bert.gpu.compute_ms == pytest.approx(14.9, rel=0.03)
    assert bert.gpu.in_16_bit == pytest.approx(0.305, rel=0.03)
    assert bert.gpu.gpus == 2
    assert bert.gpu.kernels == 665
    assert bert.gpu.compute_capability == "7.0"


def test_one_step_is_too_short_for_a_verdict(bert: TraceReport) -> None:
    assert bert.verdict == "too_short"
    assert bert.healthy is None
    assert bert.exit_code == 3
    assert not bert.causes


def test_the_memory_of_bert(bert: TraceReport) -> None:
    rows = {row.allocator: row for row in bert.memory}
    assert [row.allocator for row in bert.memory][:3] == ["GPU_1_bfc", "GPU_4_bfc", "GPU_6_bfc"]
    assert rows["GPU_6_bfc"].peak_bytes == 6210111488
    assert rows["GPU_6_bfc"].limit_bytes == 6210111488 + 9266990912
    assert rows["GPU_6_bfc"].holders[0].operation.endswith("word_embeddings/GatherV2/Cast")
    assert not any(row.warning for row in bert.memory)


def test_the_summary_of_an_input_bound_training(shared: pathlib.Path) -> None:
    """XProf: 81.4 % of the step waits for input, step 1,114 ms, 11 steps."""
    report, _ = examined(str(shared / "traces/gpu-input-bound"))
    assert report.shares.input == pytest.approx(0.814, abs=0.001)
    assert report.steps.mean_ms == pytest.approx(1114.5, rel=0.001)
    assert report.steps.count == 11
    assert report.verdict == "input_cpu_bound"
    assert report.causes[0].confidence == "low"
    assert "MapAndBatch" in report.causes[0].evidence[1]
