"""What TensorBoard's plugin has made of a profile: its steps, the slowest stage, and what is no such file."""

from __future__ import annotations

import struct

import made_trace
import pytest

from tfgpu_doctor.tracing.processed import read_processed
from tfgpu_doctor.tracing.processed_report import processed_report


def summary(*stages: str, input_ms: float) -> bytes:
    step = made_trace.message(2, _double(2, 100.0) + _double(6, 90.0 - input_ms) + _double(11, input_ms))
    rows = b"".join(
        made_trace.message(6, made_trace.message(1, stage) + made_trace.number(2, 5) + _double(5, 10.0 + at))
        for at, stage in enumerate(stages)
    )
    return made_trace.message(4, step) * 4 + rows


def _double(key: int, value: float) -> bytes:
    return made_trace.varint(key << 3 | 1) + struct.pack("<d", value)


@pytest.mark.parametrize(
    ("stages", "input_ms", "verdict", "said"),
    [
        (
            ("Iterator::Prefetch::Generator", "Iterator::Model::Prefetch::TFRecord"), 80.0, "input_slow_source",
            "Let Model::Prefetch::TFRecord read several files at once, ",
        ),
        (
            ("Iterator::Prefetch::MapAndBatch", "Iterator::Prefetch"), 80.0, "input_cpu_bound",
            "Do the work of Prefetch::MapAndBatch once ",
        ),
        (("Iterator::Prefetch::Map[3]",), 80.0, "input_serial_map", "Let Prefetch::Map run in parallel. "),
        ((), 80.0, "input_cpu_bound", "Do the work once "),
        (("Iterator::Prefetch::Map",), 5.0, "compute_bound", ""),
    ],
)  # fmt: skip
def test_a_summary_of_tensorboard(stages: tuple[str, ...], input_ms: float, verdict: str, said: str) -> None:
    report = processed_report(read_processed(summary(*stages, input_ms=input_ms)), "x.input_pipeline.pb")
    assert report.verdict == verdict
    assert report.steps.count == 4
    assert report.shares.input == input_ms / 100
    assert report.healthy is (verdict == "compute_bound")
    assert all(cause.fix.text.startswith(said) for cause in report.causes)
    assert bool(report.causes) == bool(said)


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -5.0])
def test_a_summary_with_odd_times(odd: float) -> None:
    """What is no time counts as none."""
    step = made_trace.message(4, made_trace.message(2, _double(2, odd) + _double(11, odd)))
    report = processed_report(read_processed(summary(input_ms=80.0) + step), "x.input_pipeline.pb")
    assert (report.verdict, report.shares.input, report.steps.count) == ("input_cpu_bound", 0.8, 5)
    with pytest.raises(ValueError, match="no steps"):
        read_processed(step)


@pytest.mark.parametrize("content", [b"", b"\x08\x01", b"\x22\x90\x01", b"hello world"])
def test_what_is_no_summary(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read_processed(content)
