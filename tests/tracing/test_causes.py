"""The rules behind the verdicts, each on a made-up profile: what real programs showed, in small."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable

import made_trace
import pytest
from made_trace import MadeEvent, MadeLine, MadePlane, Ref, training

from tfgpu_doctor.tracing.processed import read_processed
from tfgpu_doctor.tracing.processed_report import processed_report
from tfgpu_doctor.tracing.python_samples import FILE
from tfgpu_doctor.tracing.result import TraceReport


def judged(folder: pathlib.Path, planes: list[MadePlane]) -> TraceReport:
    made_trace.save(folder, planes)
    return made_trace.judged(folder)[0]


def every_step(
    event: str, at_ms: float, duration_ms: float, steps: int = 13, **stats: made_trace.Stat
) -> list[MadeEvent]:
    return [MadeEvent(event, step * 20.0 + at_ms, duration_ms, dict(stats)) for step in range(steps)]


def waiting(*stages: str) -> list[MadePlane]:
    """Steps of 20 ms that wait 16 ms for the last of the stages, on a thread of the pipeline's own."""
    planes = training(step_ms=20.0, compute_ms=3.0, input_ms=16.0, stage="Iterator::Root::Prefetch")
    line = MadeLine("tf_data_iterator_resource/3", number=3)
    for stage in stages:
        line.events += every_step(f"Iterator::Root::Prefetch::{stage}", 0.1, 15.8, name=stage)
    planes[0].lines.append(line)
    return planes


def test_a_generator_of_tf_distribute_is_no_python(tmp_path: pathlib.Path) -> None:
    report = judged(tmp_path, waiting("Generator", "Rebatch", "Rebatch::Map"))
    assert report.verdict == "input_serial_map"
    assert not any("Generator" in stage.path for stage in report.pipeline)


def test_a_generator_of_the_user_is_python(tmp_path: pathlib.Path) -> None:
    planes = waiting("Generator", "BatchV2")
    planes[0].lines[-1].events += every_step("PyFunc:PyFunc", 0.2, 15.0)
    assert judged(tmp_path, planes).verdict == "input_python"


def test_the_step_s_own_python_waits_for_the_pipeline_s(tmp_path: pathlib.Path) -> None:
    """Python's lock: what the pipeline's Python takes is not the launching's."""
    planes = training(step_ms=20.0, compute_ms=1.0, input_ms=5.0, stage="Iterator::Root::Prefetch")
    line = MadeLine("tf_data_iterator_resource/3", number=3)
    line.events += every_step("Iterator::Root::Prefetch::Map", 0.0, 19.9) + every_step(
        "EagerPyFunc:EagerPyFunc", 0.0, 19.5
    )
    planes[0].lines.append(line)
    stack = [["/home/me/train.py", 31, "load"], ["/x/site-packages/tensorflow/python/ops/script_ops.py", 1, "_call"]]
    keras = [["/x/site-packages/keras/src/trainers/trainer.py", 7, "fit"], ["/home/me/train.py", 90, "main"]]
    made_trace.save(tmp_path, planes)
    samples = [[round(at * 1e6), keras, [stack]] for at in range(1, 250, 10)]
    (tmp_path / FILE).write_text(json.dumps({"began_ns": 0, "every_s": 0.01, "samples": samples}))
    report, _ = made_trace.judged(tmp_path)
    assert report.verdict == "input_python"
    assert report.shares.input > 0.8
    assert any("load (train.py:31)" in line for line in report.causes[0].evidence)
    assert any("(the GIL)" in line for line in report.causes[0].evidence)


def test_xla_inside_of_a_graph(tmp_path: pathlib.Path) -> None:
    planes = training(step_ms=20.0, compute_ms=18.0)
    planes[0].lines[1].events += every_step("CpuCompiler::RunBackend", 1.0, 15.0)
    metadata = MadeLine("modules", [MadeEvent(f"a_inference_train_step_9__XlaMustCompile_x({at})") for at in range(12)])
    report = judged(tmp_path, [*planes, MadePlane("/host:metadata", [metadata])])
    assert report.verdict == "compile"
    assert "12 times" in report.causes[0].evidence[0]


def test_waits_that_nothing_explains_are_no_health(tmp_path: pathlib.Path) -> None:
    report = judged(tmp_path, waiting())
    assert (report.verdict, report.healthy, report.exit_code) == ("unexplained", None, 3)
    assert report.shares.idle > 0.7


def test_a_call_that_outlasts_the_recording(tmp_path: pathlib.Path) -> None:
    """A shuffle buffer is filled before the first step that ends: the calls that last have no event of their own."""
    planes = training(steps=12, step_ms=4.0, compute_ms=2.0, input_ms=1.0, stage="Iterator::Root::Prefetch")
    for line in planes[0].lines:
        line.begin_ns = 1_000_000_000
    elements = MadeLine("tf_data_iterator_resource/3", number=3)
    name = "Iterator::Root::Prefetch::BatchV2::Shuffle"
    elements.events += [MadeEvent(f"{name}::TensorSlice", at * 0.5, 0.1) for at in range(2000)]
    elements.events += [MadeEvent(name, 1000.0 + at * 0.5, 0.1) for at in range(90)]
    elements.events += [MadeEvent("Iterator::Root::Prefetch::BatchV2", 1000.0 + at * 4, 1.0) for at in range(12)]
    planes[0].lines.append(elements)
    report = judged(tmp_path, planes)
    assert report.verdict == "input_shuffle"
    assert report.shares.input > 0.8


@pytest.mark.parametrize(("traced", "verdict"), [(1, "compute_bound"), (13, "retracing")])
def test_tracing_counts_unless_it_is_the_begin(tmp_path: pathlib.Path, traced: int, verdict: str) -> None:
    planes = training(step_ms=20.0, compute_ms=18.0)
    planes[0].lines[0].events += every_step("tf.function-graph_building", 0.1, 17.0, steps=traced)
    report = judged(tmp_path, planes)
    assert report.verdict == verdict
    assert ("left out" in report.why) == (traced == 1)


def test_the_start_of_a_training_alone(tmp_path: pathlib.Path) -> None:
    planes = training(steps=3, step_ms=20.0, compute_ms=18.0)
    planes[0].lines[0].events += every_step("tf.function-graph_building", 0.1, 17.0, steps=2)
    report = judged(tmp_path, planes)
    assert (report.verdict, report.healthy) == ("warm_up", None)


def gpu(*events: MadeEvent, name: str = "Stream #14(Compute)") -> MadePlane:
    return MadePlane("/device:GPU:0", [MadeLine(name, list(events))], {"compute_cap_major": 8, "compute_cap_minor": 0})


def kernels(duration_ms: float) -> list[MadeEvent]:
    return every_step("gemm_half", 1.0, duration_ms, tensor_shapes=Ref("(half[64,64])"))


GPUS: dict[str, Callable[[], list[MadePlane]]] = {
    "compute_bound": lambda: [*training(compute_ms=2.0), gpu(*kernels(18.0))],
    "copies": lambda: [*training(compute_ms=2.0), gpu(*kernels(5.0), *every_step("MemcpyH2D", 6.0, 12.0))],
    "collectives": lambda: [
        *training(compute_ms=2.0),
        gpu(*kernels(5.0), *every_step("ncclDevKernel_AllReduce", 6.0, 12.0)),
    ],
    "launch_bound": lambda: [*training(compute_ms=18.0), gpu(*kernels(1.0))],
}


@pytest.mark.parametrize("verdict", GPUS)
def test_made_up_gpus(tmp_path: pathlib.Path, verdict: str) -> None:
    """No recording of a GPU with these is at hand: this shows the rules, not that they hold there."""
    report = judged(tmp_path, GPUS[verdict]())
    assert report.verdict == verdict
    assert report.gpu is not None
    assert report.gpu.in_16_bit == 1.0


def test_a_gpu_without_events(tmp_path: pathlib.Path) -> None:
    planes = training()
    planes[0].lines.append(MadeLine("tf_gpu_private_0/8", [MadeEvent("ExecutorState::Process", 0.0, 1.0)]))
    report = judged(tmp_path, planes)
    assert (report.verdict, report.healthy) == ("no_device_events", None)
    assert "tf_gpu_private_0" in report.why


def summary(*stages: str, input_ms: float) -> bytes:
    step = made_trace.message(2, _double(2, 100.0) + _double(6, 90.0 - input_ms) + _double(11, input_ms))
    rows = b"".join(
        made_trace.message(6, made_trace.message(1, stage) + made_trace.number(2, 5) + _double(5, 10.0 + at))
        for at, stage in enumerate(stages)
    )
    return made_trace.message(4, step) * 4 + rows


def _double(key: int, value: float) -> bytes:
    import struct

    return made_trace.varint(key << 3 | 1) + struct.pack("<d", value)


@pytest.mark.parametrize(
    ("stages", "input_ms", "verdict"),
    [
        (("Iterator::Prefetch::Generator", "Iterator::Model::Prefetch::TFRecord"), 80.0, "input_slow_source"),
        (("Iterator::Prefetch::MapAndBatch", "Iterator::Prefetch"), 80.0, "input_cpu_bound"),
        (("Iterator::Prefetch::Map[3]",), 80.0, "input_serial_map"),
        ((), 80.0, "input_cpu_bound"),
        (("Iterator::Prefetch::Map",), 5.0, "compute_bound"),
    ],
)
def test_a_summary_of_tensorboard(stages: tuple[str, ...], input_ms: float, verdict: str) -> None:
    report = processed_report(read_processed(summary(*stages, input_ms=input_ms)), "x.input_pipeline.pb")
    assert report.verdict == verdict
    assert report.steps.count == 4
    assert report.shares.input == input_ms / 100
    assert report.healthy is (verdict == "compute_bound")


@pytest.mark.parametrize("content", [b"", b"\x08\x01", b"\x22\x90\x01", b"hello world"])
def test_what_is_no_summary(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read_processed(content)
