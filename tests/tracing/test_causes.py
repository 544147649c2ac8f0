"""The rules behind the verdicts, each on a made-up profile: what real programs showed, in small."""

from __future__ import annotations

import json
import math
import pathlib
from collections.abc import Callable, Iterable

import made_trace
import pytest
from made_trace import MadeEvent, MadeLine, MadePlane, Ref, Stat, training

from tfgpu_doctor.tracing.python_samples import FILE
from tfgpu_doctor.tracing.result import TraceReport, next_step


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


def test_a_stage_on_fewer_cpus_than_there_are(tmp_path: pathlib.Path) -> None:
    planes = waiting("ParallelMapV2")
    for event in planes[0].lines[-1].events:
        event.stats |= {"parallelism": 2, "name": "ParallelMapDatasetV2:3"}
    (cause,) = judged(tmp_path, planes).causes
    assert cause.label == "input_serial_map"
    assert cause.title.endswith("that runs only 2 at once")
    assert cause.fix.text.startswith(
        "Let ParallelMapDatasetV2:3 (Prefetch::ParallelMapV2) run more than 2 at once (stage 3, counted from the source"
    )


def test_a_stage_of_several_has_no_number(tmp_path: pathlib.Path) -> None:
    planes = waiting("Map")
    for event in planes[0].lines[-1].events:
        event.stats["name"] = "fused(MapDataset:3,BatchDatasetV2:4)"
    (cause,) = judged(tmp_path, planes).causes
    assert cause.fix.text.startswith("Let fused(MapDataset:3,BatchDatasetV2:4) (Prefetch::Map) run in parallel. ")


@pytest.mark.parametrize(("step_ms", "seconds"), [(20.0, 10), (2150.0, 22), (13_000.0, 120), (41_000.0, 120)])
def test_the_next_recording_is_to_hold_ten_steps(tmp_path: pathlib.Path, step_ms: float, seconds: int) -> None:
    report = judged(tmp_path, training(steps=2, step_ms=step_ms, compute_ms=10.0))
    assert report.verdict == "too_short"
    step = next_step(report)
    assert step is not None
    assert step.code.endswith(f"--seconds {seconds}"), "more than 120 is refused"
    assert "profile_batch=(10, 30)" in step.text
    assert ("3 steps of 41 s are longer than a recording can be" in step.text) == (step_ms > 40_000)


@pytest.mark.parametrize(("step_ms", "seconds"), [(20.0, 1), (2000.0, 20)])
def test_a_recording_that_leaves_waiting_unexplained_is_made_for_ten_steps_again(
    tmp_path: pathlib.Path, step_ms: float, seconds: int
) -> None:
    planes = training(step_ms=step_ms, compute_ms=0.1 * step_ms, input_ms=0.8 * step_ms)
    planes[0].lines[0].events = [each for each in planes[0].lines[0].events if "Iterator::" not in each.name]
    report = judged(tmp_path, planes)
    step = next_step(report)
    assert (report.verdict, step is not None) == ("unexplained", True)
    assert step is not None
    assert step.code.endswith(f"--seconds {seconds}")


@pytest.mark.parametrize("kind", ["FiniteTake", "ForeverRepeat"])
def test_what_only_hands_on_is_no_slow_source(tmp_path: pathlib.Path, kind: str) -> None:
    """Calls below it that last longer than the recording have no event: its time is theirs."""
    planes = waiting(kind)
    planes[0].lines[-1].events += every_step(
        f"Iterator::Root::Prefetch::{kind}::Prefetch", 0.2, 0.1, name="PrefetchDataset:3"
    )
    report = judged(tmp_path, planes)
    assert report.verdict == "unexplained"
    assert report.causes == ()


def samples(folder: pathlib.Path, stack: list[tuple[str, int, str]], at_ms: Iterable[int]) -> None:
    """Looks at the main thread, of which each found the same."""
    rows = [[round(at * 1e6), stack, []] for at in at_ms]
    (folder / FILE).write_text(json.dumps({"began_ns": 0, "every_s": 0.01, "samples": rows}))


KERAS = "/x/site-packages/keras/src/"
FIT = [(KERAS + "trainers/trainer.py", 7, "fit"), ("/home/me/train.py", 90, "main")]
CALLBACK = [
    ("/home/me/train.py", 12, "on_train_batch_end"),
    (KERAS + "callbacks/callback_list.py", 5, "on_batch_end"),
    *FIT,
]
PREDICT = (KERAS + "backend/tensorflow/trainer.py", 500, "predict")


@pytest.mark.parametrize(
    ("begins", "expected"),
    [(range(0, 240, 3), "host_callback"), (range(60), "compute_bound"), (range(0), "compute_bound")],
)
def test_a_callback_counts_with_what_it_has_tensorflow_compute(
    tmp_path: pathlib.Path, begins: range, expected: str
) -> None:
    """In all of the steps, or only in the first quarter of the time: then it is none that comes with each step."""
    made_trace.save(tmp_path, training(step_ms=20.0, compute_ms=18.0))
    rows = [[round(at * 1e6), [PREDICT, *CALLBACK] if at in begins else FIT, []] for at in range(240)]
    (tmp_path / FILE).write_text(json.dumps({"began_ns": 0, "every_s": 0.001, "samples": rows}))
    report = made_trace.judged(tmp_path)[0]
    assert report.verdict == expected
    if expected == "host_callback":
        (cause, *_) = report.causes
        assert cause.share == pytest.approx(1 / 3, abs=0.02)
        assert "on_train_batch_end (train.py:12)" in cause.evidence[0]


@pytest.mark.parametrize(("name", "expected"), [("train_step", "host_python"), ("predict_step", "compute_bound")])
def test_a_prediction_after_each_step_is_no_computation_of_the_step(
    tmp_path: pathlib.Path, name: str, expected: str
) -> None:
    """A program that only predicts has nothing else to do."""
    planes = training(step_ms=20.0, compute_ms=18.0)
    for event in planes[0].lines[0].events:
        event.name = event.name.replace("train_step", name)
    made_trace.save(tmp_path, planes)
    samples(tmp_path, [PREDICT, *FIT[1:]], range(240))
    report = made_trace.judged(tmp_path)[0]
    assert report.verdict == expected
    assert expected == "compute_bound" or "main (train.py:90)" in report.causes[0].evidence[0]


def test_the_function_between_the_steps_is_named(tmp_path: pathlib.Path) -> None:
    samples(tmp_path, CALLBACK, range(1, 250, 5))
    report = judged(tmp_path, training(compute_ms=2.0))
    assert report.verdict == "host_callback"
    assert report.causes[0].fix.text.startswith("Do the work of on_train_batch_end (train.py:12) less often")


def test_a_callback_that_calls_keras_in_a_few_steps_is_named(tmp_path: pathlib.Path) -> None:
    """It saves the model: what runs then is Keras' own code, and the user's is around it."""
    planes = training(steps=11, step_ms=20.0, compute_ms=18.0)
    for line in planes[0].lines:
        for event in line.events:
            event.begin_ms += 200.0 * (event.begin_ms >= 120.0)
    samples(tmp_path, [(KERAS + "saving/saving_lib.py", 3, "save_weights"), *CALLBACK], range(125, 315, 10))
    report = judged(tmp_path, planes)
    assert (report.verdict, report.title) == (
        "uneven_steps", "Some steps wait for other work: on_train_batch_end (train.py:12)",
    )  # fmt: skip
    samples(tmp_path, [(KERAS + "saving/saving_lib.py", 3, "save_weights"), *FIT], range(125, 315, 10))
    assert judged(tmp_path, planes).title == "Some steps wait for other work"
    samples(tmp_path, FIT, [*range(0, 120, 10), *range(325, 400, 10)])  # nor did the looks go on: it had no CPU
    assert judged(tmp_path, planes).verdict != "uneven_steps"


def test_a_pause_without_a_look_is_no_work_of_a_few_steps(tmp_path: pathlib.Path) -> None:
    """The program had no CPU for 200 ms; that a short pause elsewhere holds a look does not tell what was done meanwhile."""
    planes = training(steps=11, step_ms=20.0, compute_ms=18.0)
    for line in planes[0].lines:
        for event in line.events:
            event.begin_ms += 12.0 * (event.begin_ms >= 60.0) + 200.0 * (event.begin_ms >= 120.0)
    samples(tmp_path, FIT, [*range(0, 130, 5), *range(335, 440, 5)])
    report = judged(tmp_path, planes)
    assert report.verdict == "unexplained"
    assert report.shares.idle > 0.4
    samples(tmp_path, CALLBACK, [*range(0, 130, 5), 200, *range(335, 440, 5)])
    assert judged(tmp_path, planes).verdict == "uneven_steps"


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
    assert "14.0 ms of that the step's own Python waits for Python's lock (the GIL)" in report.causes[0].evidence
    assert "Write load (train.py:31) as TensorFlow operations" in report.causes[0].fix.text


def test_xla_inside_of_a_graph(tmp_path: pathlib.Path) -> None:
    planes = training(step_ms=20.0, compute_ms=18.0)
    planes[0].lines[1].events += every_step("CpuCompiler::RunBackend", 1.0, 15.0)
    metadata = MadeLine("modules", [MadeEvent(f"a_inference_train_step_9__XlaMustCompile_x({at})") for at in range(12)])
    report = judged(tmp_path, [*planes, MadePlane("/host:metadata", [metadata])])
    assert report.verdict == "compile"
    assert report.causes[0].evidence[0] == "XLA compiled train_step 12 times"
    assert report.title == "XLA compiles train_step again and again"
    assert "or leave XLA off for train_step." in report.causes[0].fix.text


def test_waits_that_nothing_explains_are_no_health(tmp_path: pathlib.Path) -> None:
    report = judged(tmp_path, waiting())
    assert (report.verdict, report.healthy, report.exit_code) == ("unexplained", None, 3)
    assert report.shares.idle > 0.7


def test_a_thread_of_the_program_s_own_is_no_pipeline(tmp_path: pathlib.Path) -> None:
    """One that looks at the GPUs now and then, and sleeps between."""
    made_trace.save(
        tmp_path, training(step_ms=20.0, input_ms=10.0, compute_ms=8.0, stage="Iterator::Root::Prefetch::BatchV2::Map")
    )
    watches = [["/home/me/gpu_monitor.py", 22, "run"], ["/usr/lib/python3.12/threading.py", 1032, "_bootstrap"]]
    loads = [["/home/me/train.py", 31, "load"], ["/x/site-packages/tensorflow/python/ops/script_ops.py", 1, "_call"]]
    for other, verdict in ((watches, "input_serial_map"), (loads, "input_python")):
        rows = [[round(at * 1e6), FIT, [other]] for at in range(1, 250, 10)]
        (tmp_path / FILE).write_text(json.dumps({"began_ns": 0, "every_s": 0.01, "samples": rows}))
        assert made_trace.judged(tmp_path)[0].verdict == verdict


@pytest.mark.parametrize(
    ("known", "lost", "verdict"), [(6, 24, "input_serial_map"), (25, 5, "input_serial_map"), (0, 30, "unexplained")]
)
def test_batches_whose_makers_the_profile_has_lost(tmp_path: pathlib.Path, known: int, lost: int, verdict: str) -> None:
    """Threads that have ended have no events; those of the last epoch's iterator are there."""
    planes = training(steps=known + lost, step_ms=20.0, compute_ms=3.0, input_ms=16.0, stage="Iterator::Root::Prefetch")
    line = MadeLine("tf_data_iterator_resource/3", number=3)
    name = "Iterator::Root::Prefetch::Map"
    line.events += [MadeEvent(name, 20.0 * at + 0.1, 15.8) for at in range(lost, lost + known + bool(known))]
    planes[0].lines.append(line)
    report = judged(tmp_path, planes)
    assert report.verdict == verdict
    if known:
        forgets = any("the profiler forgets threads that end" in each for each in report.causes[0].evidence)
        assert forgets is (lost >= 10)
        assert (report.shares.idle < 0.05) is (lost >= 10)


@pytest.mark.parametrize(
    ("source", "verdict"),
    [
        ("TensorSlice", "input_shuffle"),  # it may be filled again in the next epoch
        ("ForeverRepeat::MemoryCache", "compute_bound"),
    ],
)
def test_a_call_that_outlasts_the_recording(tmp_path: pathlib.Path, source: str, verdict: str) -> None:
    """A shuffle buffer is filled before the first step that ends: the calls that last have no event of their own."""
    planes = training(steps=12, step_ms=20.0, compute_ms=18.0, input_ms=1.0, stage="Iterator::Root::Prefetch")
    for line in planes[0].lines:
        line.begin_ns = 1_000_000_000
    elements = MadeLine("tf_data_iterator_resource/3", number=3)
    name = "Iterator::Root::Prefetch::BatchV2::Shuffle"
    for path in {source, source.partition("::")[0]}:
        elements.events += [MadeEvent(f"{name}::{path}", at * 0.5, 0.1) for at in range(2000)]
    elements.events += [MadeEvent(name, 1000.0 + at * 0.5, 0.1) for at in range(90)]
    elements.events += [MadeEvent("Iterator::Root::Prefetch::BatchV2", 1000.0 + at * 20, 1.0) for at in range(12)]
    planes[0].lines.append(elements)
    report = judged(tmp_path, planes)
    assert report.verdict == verdict
    told = "until a shuffle has filled its buffer, which an iterator does once"
    assert any(told in note for note in (report.why, *report.notes)) is (source != "TensorSlice")
    assert (report.shares.input > 0.7) is (verdict != "compute_bound")


def test_what_follows_a_call_that_outlasts_the_recording_is_no_waiting(tmp_path: pathlib.Path) -> None:
    """The pipeline fills its buffer for 750 ms, and the program does something else before its first step."""
    planes = training(steps=12, step_ms=4.0, compute_ms=2.0, input_ms=1.0, stage="Iterator::Root::Prefetch")
    for line in planes[0].lines:
        line.begin_ns = 1_000_000_000
    source = "Iterator::Root::Prefetch::Shuffle::TensorSlice"
    elements = [MadeEvent(source, at * 0.5, 0.1) for at in range(1500)]
    elements += [MadeEvent("Iterator::Root::Prefetch::Shuffle", 1000.0 + at * 4, 1.0) for at in range(12)]
    planes[0].lines.append(MadeLine("tf_data_iterator_resource/3", elements, number=3))
    shares = judged(tmp_path, planes).shares
    assert shares.input == pytest.approx(0.73, abs=0.01)
    assert shares.host == pytest.approx(0.24, abs=0.01)
    assert shares.idle < 0.01


@pytest.mark.parametrize(
    ("stage", "source_ms", "share"), [("MemoryCacheImpl", 9.0, 0.45), ("MemoryCacheImpl::Map", 0.5, 0.025)]
)
def test_a_cache_makes_what_it_gives_only_where_it_is_the_source(
    tmp_path: pathlib.Path, stage: str, source_ms: float, share: float
) -> None:
    """Before it is full, it hands on what the stage before it makes."""
    path = f"Iterator::Root::Prefetch::{stage}"
    planes = training(step_ms=20.0, input_ms=10.0, compute_ms=8.0, stage=path)
    for event in planes[0].lines[0].events:
        event.duration_ms = source_ms if event.name == path else event.duration_ms
    shares = judged(tmp_path, planes).shares
    assert shares.input == pytest.approx(share)
    assert shares.idle == pytest.approx(0.5 - share)


@pytest.mark.parametrize(("traced", "verdict"), [(1, "compute_bound"), (13, "retracing")])
def test_tracing_counts_unless_it_is_the_begin(tmp_path: pathlib.Path, traced: int, verdict: str) -> None:
    planes = training(step_ms=20.0, compute_ms=18.0)
    planes[0].lines[0].events += every_step("tf.function-graph_building", 0.1, 17.0, steps=traced)
    report = judged(tmp_path, planes)
    assert report.verdict == verdict
    assert report.why == ("the first step builds graphs or compiles, and is left out" if traced == 1 else "")


def test_the_start_of_a_training_alone(tmp_path: pathlib.Path) -> None:
    planes = training(steps=3, step_ms=20.0, compute_ms=18.0)
    planes[0].lines[0].events += every_step("tf.function-graph_building", 0.1, 17.0, steps=2)
    report = judged(tmp_path, planes)
    assert (report.verdict, report.healthy) == ("warm_up", None)


def gpu(*events: MadeEvent, name: str = "Stream #14(Compute)") -> MadePlane:
    return MadePlane("/device:GPU:0", [MadeLine(name, list(events))], {"compute_cap_major": 8, "compute_cap_minor": 0})


def test_an_allocator_with_nothing_free_has_no_fragmentation(tmp_path: pathlib.Path) -> None:
    """TensorFlow writes nan, 0 of 0, for the CPU's allocators."""
    rows = {}
    for pieces in (math.nan, 0.25):
        stats: dict[str, Stat] = {
            "allocator_name": "mklcpu",
            "bytes_allocated": 512,
            "fragmentation": pieces,
            "addr": 7,
        }
        planes = training(compute_ms=18.0)
        planes[0].lines.append(MadeLine("allocator", [MadeEvent("MemoryAllocation", 1.0, 0.1, stats)]))
        (tmp_path / str(pieces)).mkdir()
        (rows[str(pieces)],) = judged(tmp_path / str(pieces), planes).memory
    assert [row.fragmentation for row in rows.values()] == [None, 0.25]
    assert rows["nan"].peak_bytes == 512
    assert rows["nan"].warning == ""


def test_an_allocation_of_unknown_size_holds_nothing(tmp_path: pathlib.Path) -> None:
    known: dict[str, Stat] = {"bytes_allocated": 512, "tf_op": "known", "allocation_bytes": 512}
    unknown: dict[str, Stat] = {"bytes_allocated": 768, "tf_op": "unknown"}
    events = [
        MadeEvent("MemoryAllocation", at, 0.1, {**stats, "allocator_name": "cpu", "addr": at})
        for at, stats in enumerate((known, unknown), 1)
    ]
    planes = training(compute_ms=18.0)
    planes[0].lines.append(MadeLine("allocator", events))
    (row,) = judged(tmp_path, planes).memory
    assert [(each.operation, each.held_bytes) for each in row.holders] == [("known", 512)]


@pytest.mark.parametrize("more", [0, 1])
def test_too_much_memory_to_read_is_said(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, more: int) -> None:
    monkeypatch.setattr("tfgpu_doctor.tracing.memory._MOST_EVENTS", 12)
    stats: dict[str, Stat] = {"allocator_name": "cpu", "bytes_allocated": 512}
    planes = training(compute_ms=18.0)
    planes[0].lines.append(MadeLine("allocator", every_step("MemoryAllocation", 1.0, 0.1, 12 + more, **stats)))
    report = judged(tmp_path, planes)
    assert bool(report.memory) is not more
    notes = [note for note in report.notes if note.startswith("the memory is left out: 13 allocations")]
    assert len(notes) == more


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


WITHOUT_KERNELS = {
    "no-plane": [],
    "a-plane-without-lines": [MadePlane("/device:GPU:0")],
    "a-line-without-events": [gpu()],
    "lines-that-are-no-streams": [gpu(*kernels(1.0), name="TensorFlow Ops")],
}


@pytest.mark.parametrize("name", WITHOUT_KERNELS)
@pytest.mark.parametrize("thread", ["tf_gpu_private_0/8", "tf_GPU_Event_Manager/9", "Device_Event_Manager/9"])
def test_a_gpu_that_was_used_without_a_kernel(tmp_path: pathlib.Path, name: str, thread: str) -> None:
    planes = training()
    planes[0].lines.append(MadeLine(thread, [MadeEvent("ExecutorState::Process", 0.0, 1.0)]))
    report = judged(tmp_path, [*planes, *WITHOUT_KERNELS[name]])
    assert (report.verdict, report.healthy, report.causes) == ("no_device_events", None, ())
    assert thread.partition("/")[0] in report.why
    assert report.gpu is None


def test_there_is_no_gpu(tmp_path: pathlib.Path) -> None:
    report = judged(tmp_path, training())
    assert (report.verdict, report.healthy) == ("compute_bound", True)
    assert report.shares.compute == pytest.approx(0.9, abs=0.02)
    assert report.operations[0].name == "MatMul:MatMul"
    (note,) = report.notes
    assert "computation is the processor's" in note


def test_a_gpu_with_kernels_is_judged(tmp_path: pathlib.Path) -> None:
    planes = training(compute_ms=2.0)
    planes[0].lines.append(MadeLine("tf_gpu_private_0/8", [MadeEvent("ExecutorState::Process", 0.0, 1.0)]))
    assert judged(tmp_path, [*planes, gpu(*kernels(18.0))]).verdict == "compute_bound"


def test_the_copies_that_take_most_are_named(tmp_path: pathlib.Path) -> None:
    planes = GPUS["copies"]()
    planes[-1].lines[0].events += every_step("MemcpyD2H", 19.0, 0.5)
    assert "96% of the copies' time is MemcpyH2D" in judged(tmp_path, planes).causes[0].evidence


def with_operations(longest_ms: float) -> list[MadePlane]:
    """Steps of 20 ms that run a graph for 18 ms: a thousand operations of 1 µs, and one that takes longer."""
    planes = training(compute_ms=18.0, operation="MatMul:MatMul")
    worker = planes[0].lines[1]
    worker.events = [each for each in worker.events if not each.name.startswith("MatMul")]
    worker.events += every_step("MatMul:MatMul", 0.3, longest_ms)
    worker.events += [
        event for number in range(1000) for event in every_step("mul:Mul", 0.3 + longest_ms + 0.003 * number, 0.001)
    ]
    return planes


def test_a_graph_of_small_operations(tmp_path: pathlib.Path) -> None:
    """TensorFlow's executor takes the time: the computation is what its operations take."""
    report = judged(tmp_path, with_operations(1.0))
    assert (report.verdict, report.healthy) == ("launch_bound", False)
    (cause,) = report.causes
    assert cause.title == (
        "The operations of the graph are so small that starting them takes longer than computing them"
    )
    assert cause.evidence[-1] == (
        "17.00 ms of it go by inside of the graph, between its operations, of which 1000 or more in a step take less than 2 µs"
    )
    assert cause.fix.text.startswith(
        "Give each operation of the graph more work: a larger batch, in the graph few large"
    )
    assert report.shares.compute == pytest.approx(0.05, abs=0.001)
    assert report.gain.step_ms_at_best == pytest.approx(20.0 * (1 - report.shares.launch - report.shares.host))


def test_a_graph_with_small_operations_beside_a_large_one_computes(tmp_path: pathlib.Path) -> None:
    report = judged(tmp_path, with_operations(12.0))
    assert (report.verdict, report.causes) == ("compute_bound", ())
    assert report.shares.compute == pytest.approx(0.6, abs=0.001)


@pytest.mark.parametrize(("compiled", "verdict"), [(True, "compute_bound"), (False, "launch_bound")])
def test_a_graph_of_which_no_operation_is_recorded(tmp_path: pathlib.Path, compiled: bool, verdict: str) -> None:
    """2.15 does not record when code of XLA runs inside of a graph, and no release records the smallest operations."""
    planes = training(compute_ms=18.0)
    planes[0].lines[1].events = [each for each in planes[0].lines[1].events if not each.name.startswith("MatMul")]
    metadata = MadePlane("/host:metadata", [MadeLine("modules", [MadeEvent("a_inference_train_step_9__.4(7)")])])
    report = judged(tmp_path, [*planes, metadata] if compiled else planes)
    assert report.verdict == verdict


def test_small_steps_are_not_called_small_operations(tmp_path: pathlib.Path) -> None:
    """Between the calls of their function nothing of the graph runs."""
    planes = training(compute_ms=18.0)
    for event in planes[0].lines[1].events:
        event.duration_ms *= 0.25
    (cause,) = judged(tmp_path, planes).causes
    assert cause.title == "The steps are so small that starting them takes longer than computing them"
    assert not any("between its operations" in line for line in cause.evidence)
    assert "several steps in one call (steps_per_execution)" in cause.fix.text


def first_fill(
    *, source: str, steps: int = 8, again: bool = False, starved: bool = False, size: int = 1700
) -> list[MadePlane]:
    """The first step waits 500 ms until a shuffle of so many elements is full; batches of 4, 20 ms a step.

    Starved: in the sixth step an element waits 60 ms, for other programs have the CPUs.
    """
    fills = [0.0, 700.0] if again else [0.0]
    begins: list[float] = []
    at, python, worker = 0.0, MadeLine("python", number=1), MadeLine("tf_Compute/7", number=2)
    elements = MadeLine("tf_data_iterator_resource/3", number=3)
    shuffle = "Iterator::Root::Prefetch::BatchV2::Shuffle"
    for _ in range(steps + 1):
        waits = 500.0 if fills and at >= fills[0] else 60.0 if starved and len(begins) == 5 else 0.0
        fills = fills[1:] if waits == 500.0 else fills
        python.events += [
            MadeEvent("IteratorGetNextOp::DoCompute", at, waits + 0.5),
            MadeEvent("Iterator::Root::Prefetch", at, waits + 0.5),
            MadeEvent("train_step", at + waits + 0.6, 19.0, {"tf_function_call": Ref("notTraced-nonXla")}),
        ]
        python.events.append(MadeEvent("FunctionRun", at + waits + 0.7, 18.8, {"id": len(begins)}))
        worker.events.append(MadeEvent("ExecutorState::Process", at + waits + 0.7, 18.8, {"id": len(begins)}))
        worker.events.append(MadeEvent("MatMul:MatMul", at + waits + 0.7, 18.8))
        filling = [
            MadeEvent(f"{shuffle}::{source}", at + 493 / size * place, 476 / size)
            for place in range(size if waits == 500.0 else 0)
        ]
        calls = [MadeEvent(shuffle, at, waits + 0.2)] + [
            MadeEvent(shuffle, at + waits + 0.3 * place, 0.2) for place in (1, 2, 3)
        ]
        taken = [MadeEvent(f"{shuffle}::{source}", at + waits + 0.3 * place, 0.1) for place in range(4)]
        if waits == 60.0:
            taken[0] = MadeEvent(f"{shuffle}::{source}", at, waits + 0.1)
        elements.events += [MadeEvent("Iterator::Root::Prefetch::BatchV2", at, waits + 1.2), *calls, *filling, *taken]
        if "::" in source:
            outer = source.rpartition("::")[0]
            elements.events += [
                MadeEvent(f"{shuffle}::{outer}", each.begin_ms, each.duration_ms) for each in (*filling, *taken)
            ]
        begins.append(at)
        at += waits + 20.0
    return [MadePlane("/host:CPU", [python, worker, elements])]


@pytest.mark.parametrize(
    ("source", "steps", "again", "verdict"),
    [
        ("ForeverRepeat::TensorSlice", 8, False, "compute_bound"),
        ("ForeverRepeat::TensorSlice", 12, True, "input_shuffle"),  # an iterator for each epoch
        ("TensorSlice", 8, False, "input_shuffle"),  # it may be filled again in the next epoch
    ],
)
def test_an_endless_repetition_is_shuffled_once(
    tmp_path: pathlib.Path, source: str, steps: int, again: bool, verdict: str
) -> None:
    """`repeat().shuffle(1_700)` fills its buffer once: a recording that begins with it is no reason to change it."""
    report = judged(tmp_path, first_fill(source=source, steps=steps, again=again))
    assert report.verdict == verdict
    left_out = any("the first step waits until a shuffle has filled its buffer" in note for note in report.notes)
    assert left_out is (verdict == "compute_bound")


def test_an_element_that_waits_for_a_cpu_fills_no_buffer(tmp_path: pathlib.Path) -> None:
    report = judged(tmp_path, first_fill(source="ForeverRepeat::TensorSlice", steps=40, starved=True))
    assert report.verdict == "compute_bound"
    assert any("the first step waits until a shuffle has filled its buffer" in note for note in report.notes)


def test_a_fill_with_fewer_elements_than_the_steps_take_afterwards(tmp_path: pathlib.Path) -> None:
    """Where they are slow at first, as on CPUs that have other work, they take most of the time nevertheless."""
    report = judged(tmp_path, first_fill(source="ForeverRepeat::TensorSlice", steps=20, size=40))
    assert report.verdict == "compute_bound"
    assert any("the first step waits until a shuffle has filled its buffer" in note for note in report.notes)
    assert judged(tmp_path, first_fill(source="TensorSlice", steps=20, size=40)).shares.input > 0.4


def test_later_elements_that_wait_for_a_cpu_hide_no_fill(tmp_path: pathlib.Path) -> None:
    """The fill has half of the elements, and a tenth of the time in which the source works."""
    planes = first_fill(source="ForeverRepeat::TensorSlice", steps=20, size=100)
    for event in planes[0].lines[2].events:
        if "::ForeverRepeat" in event.name and event.duration_ms != 0.1:
            event.duration_ms *= 0.1
        elif "::ForeverRepeat" in event.name and event.begin_ms > 500:
            event.begin_ms, event.duration_ms = event.begin_ms + 2.5 * (event.begin_ms % 20), 4.0
    report = judged(tmp_path, planes)
    assert report.verdict == "compute_bound"
    assert any("the first step waits until a shuffle has filled its buffer" in note for note in report.notes)


def test_the_first_fill_with_few_steps_is_the_start_of_a_training(tmp_path: pathlib.Path) -> None:
    """Of three steps the first waits: two are left, which tell nothing."""
    report = judged(tmp_path, first_fill(source="ForeverRepeat::TensorSlice", steps=3))
    assert report.verdict == "warm_up"
    assert report.why.endswith("which an iterator does once: this is the start of the training")
    report = judged(tmp_path, first_fill(source="ForeverRepeat::TensorSlice", steps=4))
    assert (report.verdict, report.steps.count) == ("compute_bound", 3)
