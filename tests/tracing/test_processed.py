"""What TensorBoard's plugin has made of a profile: its steps, the slowest stage, and what is no such file."""

from __future__ import annotations

import struct

import made_trace
import pytest

from tfgpu_doctor.tracing.processed import read_processed
from tfgpu_doctor.tracing.processed_report import processed_report
from tfgpu_doctor.tracing.tables import StageRow


def summary(*stages: str, input_ms: float, own_ms: float = 300.0, steps: int = 4) -> bytes:
    step = made_trace.message(2, _double(2, 100.0) + _double(6, 90.0 - input_ms) + _double(11, input_ms))
    rows = b"".join(
        made_trace.message(6, made_trace.message(1, stage) + made_trace.number(2, 5) + _double(5, own_ms + at))
        for at, stage in enumerate(stages)
    )
    return made_trace.message(4, step) * steps + rows


def of_parts(parts: dict[int, float], *, hardware: str = "GPU") -> bytes:
    """Four steps of 100 ms, with these fields of PerGenericStepDetails."""
    step = made_trace.message(2, _double(2, 100.0) + b"".join(_double(*each) for each in parts.items()))
    return made_trace.message(4, step) * 4 + made_trace.message(9, hardware)


UNKNOWN, OUTPUT, COMPUTE, WITHIN, HOST, PREPARE, INPUT = 3, 5, 6, 7, 8, 9, 11


def test_the_public_summary_of_a_gpu_that_waits_for_other_things() -> None:
    """0.0 % input, 18.1 % launching ("high"), 39.7 % all others: XProf's figures of its compute-bound example."""
    parts = {UNKNOWN: 39.7, COMPUTE: 42.2, PREPARE: 18.1, INPUT: 0.0}
    report = processed_report(read_processed(of_parts(parts)), "x.input_pipeline.pb")
    assert (report.verdict, report.healthy) == ("unexplained", None)
    assert "39.7 of 100.0 ms" in report.why
    assert [(each.label, each.confidence) for each in report.causes] == [("launch_bound", "low")]


def test_launching_that_xprof_calls_high() -> None:
    report = processed_report(read_processed(of_parts({COMPUTE: 78.0, PREPARE: 18.0})), "x.input_pipeline.pb")
    assert (report.verdict, report.healthy) == ("launch_bound", False)


@pytest.mark.parametrize(
    ("parts", "hardware", "shares"),
    [
        ({COMPUTE: 50.0, WITHIN: 20.0}, "GPU", {"compute": 0.7, "copies": 0.0}),
        ({COMPUTE: 50.0, HOST: 20.0, PREPARE: 5.0}, "GPU", {"host": 0.2, "launch": 0.05}),
        ({COMPUTE: 0.0, HOST: 90.0}, "CPU_ONLY", {"compute": 0.9, "host": 0.0}),
        ({COMPUTE: 70.0, OUTPUT: 10.0}, "GPU", {"copies": 0.1}),
    ],
)
def test_the_parts_of_a_summary(parts: dict[int, float], hardware: str, shares: dict[str, float]) -> None:
    report = processed_report(read_processed(of_parts(parts, hardware=hardware)), "x.input_pipeline.pb")
    assert {name: getattr(report.shares, name) for name in shares} == pytest.approx(shares)


def test_operations_on_the_host_leave_a_summary_unexplained() -> None:
    report = processed_report(read_processed(of_parts({COMPUTE: 50.0, HOST: 40.0})), "x.input_pipeline.pb")
    assert report.verdict == "unexplained"


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
        ((), 80.0, "unexplained", ""),
        (("Iterator::Root::MaxIntraOpParallelism", "Iterator::Root::Prefetch"), 80.0, "unexplained", ""),
        (("Iterator::Prefetch::Map",), 5.0, "compute_bound", ""),
    ],
)  # fmt: skip
def test_a_summary_of_tensorboard(stages: tuple[str, ...], input_ms: float, verdict: str, said: str) -> None:
    report = processed_report(read_processed(summary(*stages, input_ms=input_ms)), "x.input_pipeline.pb")
    assert report.verdict == verdict
    assert report.steps.count == 4
    assert report.shares.input == input_ms / 100
    assert report.healthy is {"compute_bound": True, "unexplained": None}.get(verdict, False)
    assert bool(report.why) == (verdict == "unexplained")
    assert all(cause.fix.text.startswith(said) for cause in report.causes)
    assert bool(report.causes) == bool(said)


def test_a_stage_that_hardly_works_is_not_what_the_steps_wait_for() -> None:
    """Of 320 ms of waiting the map takes 1: the reason is outside of the stages, and a parallel map would not help."""
    content = summary("Iterator::Prefetch::Map", input_ms=80.0, own_ms=1.0)
    report = processed_report(read_processed(content), "x.input_pipeline.pb")
    assert (report.verdict, report.healthy, report.causes) == ("unexplained", None, ())
    assert report.why.startswith("the steps wait 80.0 of 100.0 ms for input, and the summary does not say which stage")


@pytest.mark.parametrize("input_ms", [0.0, 80.0])
@pytest.mark.parametrize("steps", [1, 2])
def test_few_steps_do_not_tell(steps: int, input_ms: float) -> None:
    """As with the profile itself: one step is no verdict, neither a good one nor a bad one."""
    report = processed_report(
        read_processed(summary("Iterator::Prefetch::Map", input_ms=input_ms, steps=steps)), "x.input_pipeline.pb"
    )
    assert (report.verdict, report.healthy) == ("too_short", None)
    assert report.why.startswith(f"it holds {steps} whole step")


def test_the_stages_of_a_summary() -> None:
    """300 and 301 of 600 ms, in four digits; a summary holds no event."""
    longer = made_trace.message(4, made_trace.message(2, _double(2, 200.0)))
    content = summary("Iterator::Prefetch", "Iterator::Prefetch::Map", input_ms=80.0) + longer
    report = processed_report(read_processed(content), "x.input_pipeline.pb")
    assert report.pipeline == (
        StageRow(path="Prefetch", name="", calls=5, busy_share=0.5, parallelism=0, is_slowest=False),
        StageRow(path="Prefetch::Map", name="", calls=5, busy_share=0.5017, parallelism=0, is_slowest=False),
    )
    assert report.events == 0


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -5.0])
def test_a_summary_with_odd_times(odd: float) -> None:
    """What is no time counts as none."""
    step = made_trace.message(4, made_trace.message(2, _double(2, odd) + _double(11, odd)))
    content = summary("Iterator::Prefetch::Map", input_ms=80.0) + step
    report = processed_report(read_processed(content), "x.input_pipeline.pb")
    assert (report.verdict, report.shares.input, report.steps.count) == ("input_serial_map", 0.8, 5)
    with pytest.raises(ValueError, match="no steps"):
        read_processed(step)


@pytest.mark.parametrize("content", [b"", b"\x08\x01", b"\x22\x90\x01", b"hello world"])
def test_what_is_no_summary(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read_processed(content)
