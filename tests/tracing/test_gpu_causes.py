"""The rules for GPUs, each on a profile made up as CUPTI would write it: this shows the rules, not that they hold there."""

from __future__ import annotations

import pathlib

import made_trace
import pytest
from made_gpu import FUSION, HALF_GEMM, NCCL, SGEMM, TF32_GEMM, copy, each_step, gpu, host, kernel
from made_trace import MadeEvent, MadeLine, MadePlane, Ref

from tfgpu_doctor.tracing.html_page import render_trace_html
from tfgpu_doctor.tracing.kernel_names import FLOAT32, FLOAT64, SIXTEEN, TF32, is_layout, is_product, precision
from tfgpu_doctor.tracing.page import render_trace_markdown, render_trace_text, steps_line
from tfgpu_doctor.tracing.result import TraceReport


def judged(folder: pathlib.Path, planes: list[MadePlane], *messages: tuple[int, str]) -> TraceReport:
    made = made_trace.encode(planes) + b"".join(made_trace.message(*each) for each in messages)
    made_trace.save_bytes(folder, made)
    return made_trace.judged(folder)[0]


def evidence(report: TraceReport, label: str) -> str:
    return " / ".join(next(each for each in report.causes if each.label == label).evidence)


# What is not recorded of a GPU


def test_the_event_manager_of_newer_releases_is_known(tmp_path: pathlib.Path) -> None:
    """TensorFlow from 2.16 on: Device_Event_Manager."""
    planes = host(2.0)
    planes[0].lines.append(MadeLine("Device_Event_Manager/9", [MadeEvent("MemoryDeallocation", 1.0, 0.1)]))
    report = judged(tmp_path, [*planes, gpu()])
    assert (report.verdict, report.healthy) == ("no_device_events", None)
    assert "Device_Event_Manager" in report.why


def test_memory_of_a_gpu_tells_that_it_was_used(tmp_path: pathlib.Path) -> None:
    memory = each_step("MemoryAllocation", 0.3, 0.01, allocator_name="GPU_0_bfc", bytes_allocated=512)
    report = judged(tmp_path, [*host(2.0, worker=memory), gpu()])
    assert report.verdict == "no_device_events"
    assert "GPU_0_bfc" in report.why


REFUSALS = {
    "Failed to load libcupti (is it installed and accessible?)": "libcupti.so",
    "Insufficient privilege to run libcupti (you need root permission).": "NVreg_RestrictProfilingToAdminUsers=0",
    "CUPTI needs root access": "--cap-add=SYS_ADMIN",
}


@pytest.mark.parametrize("said", REFUSALS)
def test_why_cupti_was_refused_is_said(tmp_path: pathlib.Path, said: str) -> None:
    report = judged(tmp_path, [*host(2.0), gpu()], (2, f"node7: {said}"))
    assert report.verdict == "no_device_events"
    assert said in report.why
    assert REFUSALS[said] in report.why


DROPPED = "Detected GPU events dropped on node7: Profiler has collected 9 driver events and 0 device events. 77 events dropped because collector full."


def test_all_events_were_dropped(tmp_path: pathlib.Path) -> None:
    report = judged(tmp_path, [*host(2.0), gpu()], (3, DROPPED))
    assert report.verdict == "no_device_events"
    assert "77 events dropped" in report.why
    assert "shorter" in report.why


def test_some_events_were_dropped(tmp_path: pathlib.Path) -> None:
    report = judged(tmp_path, [*host(2.0), gpu(kernel(FUSION, 0.5, 19.0))], (3, DROPPED))
    assert report.verdict == "compute_bound"
    assert any("77 events dropped" in note for note in report.notes)


def test_a_machine_without_a_gpu_is_no_refusal(tmp_path: pathlib.Path) -> None:
    report = judged(tmp_path, made_trace.training(), (2, "node7: No GPU detected."))
    assert report.verdict == "compute_bound"


# Several GPUs


def test_one_busy_gpu_does_not_hide_another(tmp_path: pathlib.Path) -> None:
    planes = [*host(2.0), gpu(kernel(FUSION, 0.5, 18.0)), gpu(kernel(FUSION, 0.5, 2.0), number=1)]
    report = judged(tmp_path, planes)
    assert (report.verdict, report.healthy) == ("gpu_imbalance", False)
    assert "/device:GPU:0 computes 18.0 of 20.0 ms" in evidence(report, "gpu_imbalance")
    assert "/device:GPU:1 2.0 ms" in evidence(report, "gpu_imbalance")
    assert report.causes[0].share == pytest.approx(0.4, abs=0.01)
    assert report.causes[0].confidence == "medium"


def test_gpus_that_take_turns(tmp_path: pathlib.Path) -> None:
    planes = [*host(2.0), gpu(kernel(FUSION, 0.0, 10.0)), gpu(kernel(FUSION, 10.0, 10.0), number=1)]
    report = judged(tmp_path, planes)
    assert report.verdict == "gpu_imbalance"
    assert "one after the other" in evidence(report, "gpu_imbalance")


def test_a_straggler_is_named(tmp_path: pathlib.Path) -> None:
    late = gpu(kernel(FUSION, 0.5, 18.0), kernel(NCCL, 18.5, 0.5))
    waiting = gpu(kernel(FUSION, 0.5, 4.0), kernel(NCCL, 4.5, 14.5), number=1)
    report = judged(tmp_path, [*host(2.0), late, waiting])
    assert report.verdict == "gpu_imbalance"
    assert "/device:GPU:0" in report.title
    assert "/device:GPU:1 is 14.5 ms in reductions, /device:GPU:0 0.5 ms" in evidence(report, "gpu_imbalance")
    assert report.gain.step_ms_at_best == pytest.approx(13.0, abs=0.1), "eleven ms each, and what there was beside"
    assert report.gpu is not None
    assert report.gpu.device == "/device:GPU:0"
    assert report.gpu.gpus == 2


def test_the_wait_for_a_late_gpu_is_no_slow_link(tmp_path: pathlib.Path) -> None:
    """All compute as long; one starts late, as its host is slow, and the other waits in the reduction."""
    late = gpu(kernel(FUSION, 14.0, 4.0), kernel(NCCL, 18.0, 0.5))
    waiting = gpu(kernel(FUSION, 0.5, 4.0), kernel(NCCL, 4.5, 14.0), number=1)
    report = judged(tmp_path, [*host(13.0), late, waiting])
    assert "collectives" not in [each.label for each in report.causes]
    assert report.shares.collectives < 0.1
    assert "gpu_imbalance" in [each.label for each in report.causes]


def test_replicas_that_work_alike_are_healthy(tmp_path: pathlib.Path) -> None:
    planes = [*host(2.0), gpu(kernel(FUSION, 0.5, 18.0)), gpu(kernel(FUSION, 1.0, 18.0), number=1), gpu(number=2)]
    report = judged(tmp_path, planes)
    assert (report.verdict, report.causes) == ("compute_bound", ())


def test_a_gpu_beside_that_hardly_works_takes_no_part(tmp_path: pathlib.Path) -> None:
    """A few small kernels, as for variables: the program uses one GPU."""
    planes = [*host(2.0), gpu(kernel(FUSION, 0.5, 18.0)), gpu(kernel(FUSION, 0.5, 0.05), number=1)]
    assert judged(tmp_path, planes).verdict == "compute_bound"


def test_the_launch_of_a_reduction_is_none_of_the_host_s(tmp_path: pathlib.Path) -> None:
    launch = each_step(NCCL, 1.0, 0.01, correlation_id=3, device_id=0)
    planes = [*host(2.0, worker=launch), gpu(kernel(FUSION, 0.5, 6.0), kernel(NCCL, 6.5, 12.0))]
    assert "on the host" not in evidence(judged(tmp_path, planes), "collectives")


def test_slow_reductions_between_all_gpus(tmp_path: pathlib.Path) -> None:
    both = [gpu(kernel(FUSION, 0.5, 6.0), kernel(NCCL, 6.5, 12.0), number=number) for number in range(2)]
    report = judged(tmp_path, [*host(2.0), *both])
    assert report.verdict == "collectives"
    assert report.causes[0].confidence == "medium"


def test_reductions_that_run_on_the_host(tmp_path: pathlib.Path) -> None:
    """A ring between workers, without NCCL."""
    planes = [*host(2.0), gpu(kernel(FUSION, 0.5, 6.0))]
    ring = each_step("CollectiveReduceV2:CollectiveReduceV2", 6.5, 12.0, id=1)
    planes[0].lines.append(MadeLine("collective_ops/5", ring, number=5))
    report = judged(tmp_path, planes)
    assert report.verdict == "collectives"
    assert "CollectiveReduceV2" in evidence(report, "collectives")


# Copies


def test_a_copy_within_the_gpu_is_computation(tmp_path: pathlib.Path) -> None:
    moved = [*copy("MemcpyD2D", 6.0, 6.0), *each_step("Memset 2", 12.0, 6.0)]
    report = judged(tmp_path, [*host(2.0), gpu(kernel(FUSION, 0.5, 5.5), moved)])
    assert report.shares.copies == 0.0
    assert report.shares.compute == pytest.approx(0.875, abs=0.01)
    assert report.gpu is not None
    assert report.gpu.kernels == 1


@pytest.mark.parametrize("name", ["Memory device", "MemoryAlloc", "MemoryFree", "MemoryResidency"])
def test_how_long_memory_is_held_is_no_work(tmp_path: pathlib.Path, name: str) -> None:
    """CUPTI writes it on a stream: from the allocation to the release."""
    held = [MadeEvent(name, 0.0, 250.0)]
    report = judged(tmp_path, [*host(2.0), gpu(kernel(FUSION, 0.5, 2.0), held)])
    assert report.shares.compute == pytest.approx(0.1, abs=0.01)


def test_copies_from_pageable_memory(tmp_path: pathlib.Path) -> None:
    planes = [*host(2.0), gpu(kernel(FUSION, 12.0, 7.0), copy("MemcpyH2D", 0.5, 11.0, host="pageable", sync=True))]
    report = judged(tmp_path, planes)
    assert (report.verdict, report.causes[0].confidence) == ("copies", "medium")
    assert "100% of it from or to pageable memory" in evidence(report, "copies")
    pinned = [*host(2.0), gpu(kernel(FUSION, 12.0, 7.0), copy("MemcpyH2D", 0.5, 11.0))]
    assert "pageable" not in evidence(judged(tmp_path, pinned), "copies")


# What the host does


def test_launching_takes_long_on_a_gpu(tmp_path: pathlib.Path) -> None:
    """41 % of a step in launch and host is not healthy where a GPU waits for it."""
    many = [each for at in range(40) for each in kernel(FUSION, 0.5 + 0.3 * at, 0.29)]
    report = judged(tmp_path, [*host(19.0), gpu(many)])
    assert report.shares.compute == pytest.approx(0.58, abs=0.02)
    assert report.verdict == "launch_bound"
    assert "40 kernels in a step, half of them under 290.0 µs" in evidence(report, "launch_bound")


@pytest.mark.parametrize(("kernels", "words"), [(1500, "operations of the graph"), (150, "The steps are so small")])
def test_many_kernels_that_take_long_to_start_are_of_the_graph(
    tmp_path: pathlib.Path, kernels: int, words: str
) -> None:
    """12 µs for each kernel are the starts themselves, 120 µs are calls: only these does it help to make fewer of."""
    many = [each for at in range(kernels) for each in kernel(FUSION, 0.5 + 17.0 / kernels * at, 0.0001)]
    report = judged(tmp_path, [*host(19.0), gpu(many)])
    assert report.verdict == "launch_bound"
    assert words in report.title
    assert ("each kernel takes 12.6 µs to start" in evidence(report, "launch_bound")) == (kernels == 1500)


@pytest.mark.parametrize(("made_ms", "verdict"), [(95.0, "new_iterators"), (0.0, "launch_bound")])
def test_calls_that_make_iterators_are_told_from_starting(tmp_path: pathlib.Path, made_ms: float, verdict: str) -> None:
    """Calls of ten steps in a loop over a dataset: before each, 100 ms in which an iterator is made, or not."""
    scan, pool, kernels = (
        MadeLine("tf_data_prefetch/1", number=3),
        MadeLine("tf_data_private_threadpool/2", number=4),
        [],
    )
    made = MadeLine("tf_data_reduce_dataset/3", number=5)
    for call in range(4):
        begins = 300.0 * call
        made.events += [MadeEvent("MakeIterator::RootDataset", begins + 2.0, made_ms)] if made_ms else []
        for step in range(10):
            at, number = begins + 100.0 + 20.0 * step, 10 * call + step
            scan.events += [
                MadeEvent("ReduceIterator::Root::Prefetch::Scan", at, 19.9, {"id": number}),
                MadeEvent("ReduceIterator::Root::Prefetch::Scan::FiniteTake", at + 0.01, 0.2, {"id": number}),
                MadeEvent("InstantiatedCapturedFunction::Run", at + 0.3, 19.5, {"id": 2000 + number}),
            ]
            pool.events.append(MadeEvent("ExecutorState::Process", at + 0.3, 19.0, {"id": 2000 + number}))
            kernels.append(MadeEvent(FUSION, at + 0.4, 19.0))
        pool.events.append(MadeEvent("ExecutorState::Process", begins + 1.0, 98.0, {"id": 3000 + call}))
    report = judged(tmp_path, [MadePlane("/host:CPU", [scan, pool, made]), gpu(kernels)])
    assert (report.steps.found_by, report.verdict) == ("graph", verdict)
    assert ("new_iterators" in {each.label for each in report.causes}) == (made_ms > 0)
    if made_ms:
        assert "in 3 of 39 steps an iterator is made (MakeIterator), which takes 95 ms and less" in evidence(
            report, verdict
        )


def test_operations_that_python_starts_beside_an_idle_gpu_are_no_steps(tmp_path: pathlib.Path) -> None:
    """What a program does while XLA tries convolutions: one kernel in 36 operations was called launch_bound on an H200."""
    started = [MadeEvent("EagerLocalExecute: Pack", 20.0 * number, 0.7) for number in range(13)]
    plane = MadePlane("/host:CPU", [MadeLine("python", started, number=1)])
    report = judged(tmp_path, [plane, gpu(kernel(FUSION, 0.9, 0.01, every=13))])
    assert (report.verdict, report.healthy) == ("too_short", None)
    assert "no step yet" in report.why
    often = [plane, gpu(kernel(FUSION, 0.9, 0.01))]
    assert judged(tmp_path / "often", often).verdict != "too_short"


def test_a_sixth_of_the_step_in_launching_is_high_on_a_gpu(tmp_path: pathlib.Path) -> None:
    assert judged(tmp_path, [*host(19.0), gpu(kernel(FUSION, 0.5, 16.6))]).verdict == "launch_bound"
    assert judged(tmp_path, [*host(19.0), gpu(kernel(FUSION, 0.5, 17.6))]).verdict == "compute_bound"


def test_work_of_the_executor_is_launching(tmp_path: pathlib.Path) -> None:
    """A call that returns at once: other threads start the operations."""
    planes = [*host(1.0), gpu(kernel(FUSION, 1.0, 3.0))]
    planes[0].lines[1].events = each_step("ExecutorState::Process", 0.3, 18.0)
    for step, event in enumerate(planes[0].lines[1].events):
        event.stats["id"] = 1000 + step
    report = judged(tmp_path, planes)
    assert report.shares.launch == pytest.approx(0.77, abs=0.05)
    assert report.shares.host < 0.1


def test_a_result_is_read_in_each_step(tmp_path: pathlib.Path) -> None:
    """The host waits until all is computed, and only then starts the next step: the GPU waits for that."""
    planes = [*host(4.0), gpu(kernel(FUSION, 3.0, 11.0), copy("MemcpyD2H", 14.0, 0.01))]
    report = judged(tmp_path, planes)
    assert (report.verdict, report.causes[0].confidence) == ("sync_each_step", "medium")
    assert "in 12 of 12 steps" in evidence(report, "sync_each_step")
    assert report.causes[0].share == pytest.approx(0.45, abs=0.03)


def test_the_host_waits_for_a_stream_in_each_step(tmp_path: pathlib.Path) -> None:
    waits = each_step("cuStreamSynchronize", 4.5, 9.5, correlation_id=7, device_id=0)
    report = judged(tmp_path, [*host(4.0, waits), gpu(kernel(FUSION, 3.0, 11.0))])
    assert report.verdict == "sync_each_step"
    assert "cuStreamSynchronize" in evidence(report, "sync_each_step")


def test_a_result_that_is_read_now_and_then(tmp_path: pathlib.Path) -> None:
    rare = [each for at, each in enumerate(copy("MemcpyD2H", 14.0, 0.01)) if at % 4 == 0]
    report = judged(tmp_path, [*host(4.0), gpu(kernel(FUSION, 3.0, 11.0), rare)])
    assert "sync_each_step" not in [each.label for each in report.causes]


def test_reading_results_holds_nothing_up_where_the_gpu_is_busy(tmp_path: pathlib.Path) -> None:
    planes = [*host(4.0), gpu(kernel(FUSION, 0.5, 19.0), copy("MemcpyD2H", 19.5, 0.01))]
    assert judged(tmp_path, planes).verdict == "compute_bound"


def on_the_cpu(*types: str) -> list[MadeEvent]:
    """Operations of the model's graph on a host thread: first one of the GPU, with its launch, then those."""
    worker = each_step("model/dense/MatMul:MatMul", 0.2, 0.5)
    worker += each_step(FUSION, 0.3, 0.1, correlation_id=3, device_id=0)
    for place, each in enumerate(types):
        worker += each_step(f"model/{each}:{each}", 6.0 + 5.0 * place, 4.9)
    return worker


def test_operations_on_the_cpu_between_kernels(tmp_path: pathlib.Path) -> None:
    planes = [*host(18.0, worker=on_the_cpu("Unique", "StringToNumber")), gpu(kernel(FUSION, 0.4, 5.0))]
    report = judged(tmp_path, planes)
    assert (report.verdict, report.causes[0].confidence) == ("cpu_fallback", "medium")
    assert report.causes[0].share == pytest.approx(0.49, abs=0.02)
    assert "Unique" in report.causes[0].title
    assert "StringToNumber" in evidence(report, "cpu_fallback")
    assert "MatMul" not in evidence(report, "cpu_fallback")


def test_an_operation_that_a_kernel_names_runs_on_the_gpu(tmp_path: pathlib.Path) -> None:
    """Not each call that starts a kernel is recorded; the kernel itself says whose it is."""
    planes = [*host(18.0, worker=on_the_cpu("Conv2D", "BiasAdd")), gpu(kernel(FUSION, 0.4, 5.0))]
    for event in planes[-1].lines[0].events:
        event.stats["tf_op"] = Ref("model/Conv2D:Conv2D")
    assert evidence(judged(tmp_path, planes), "cpu_fallback").startswith(
        "operations on the CPU: BiasAdd (4.9 ms a step)"
    )


def test_operations_on_the_cpu_beside_kernels_hold_nothing_up(tmp_path: pathlib.Path) -> None:
    planes = [*host(18.0, worker=on_the_cpu("Unique")), gpu(kernel(FUSION, 0.4, 19.0))]
    assert judged(tmp_path, planes).verdict == "compute_bound"


def test_the_driver_s_calls_may_lie_in_a_plane_of_their_own(tmp_path: pathlib.Path) -> None:
    """TensorFlow joins the two by the number of the thread; a profile that is not worked up has both."""
    worker = each_step("model/dense/MatMul:MatMul", 0.2, 17.0)
    planes = [*host(18.0, worker=worker), gpu(kernel(FUSION, 0.4, 5.0))]
    calls = MadeLine("Host Threads/2", each_step(FUSION, 0.3, 0.1, correlation_id=3, device_id=0), number=2)
    report = judged(tmp_path, [*planes, MadePlane("/host:CUPTI", [calls])])
    assert "cpu_fallback" not in [each.label for each in report.causes]


def test_launches_that_are_not_recorded_tell_nothing_of_operations(tmp_path: pathlib.Path) -> None:
    worker = [each for each in on_the_cpu("Unique") if each.name != FUSION]
    report = judged(tmp_path, [*host(18.0, worker=worker), gpu(kernel(FUSION, 0.4, 5.0))])
    assert report.verdict == "launch_bound"


@pytest.mark.parametrize("streams", [(), ([],), (copy("MemcpyH2D", 1.0, 0.2),)], ids=["unused", "no-event", "a-copy"])
def test_a_gpu_that_computes_nothing(tmp_path: pathlib.Path, streams: tuple[list[MadeEvent], ...]) -> None:
    """The computation on the processor is seen in spite of a stray copy, and said to be in the wrong place."""
    report = judged(tmp_path, [*made_trace.training(), gpu(*streams)])
    assert (report.verdict, report.healthy) == ("cpu_fallback", False)
    assert report.shares.compute == pytest.approx(0.9, abs=0.02)
    assert report.gpu is None


@pytest.mark.parametrize(("count", "more"), [(4, ""), (5, " and 1 more"), (8, " and 4 more")])
def test_of_many_gpus_that_compute_nothing_four_are_named(tmp_path: pathlib.Path, count: int, more: str) -> None:
    report = judged(tmp_path, [*made_trace.training(), *(gpu(number=number) for number in range(count))])
    named = ", ".join(f"/device:GPU:{number}" for number in range(4))
    assert report.causes[0].evidence[0] == f"{named}{more}: no kernel ran there"


def full(rows: int, pieces: float) -> list[MadeEvent]:
    stats: dict[str, made_trace.Stat] = {
        "allocator_name": "GPU_0_bfc", "bytes_allocated": 990, "bytes_available": 10, "fragmentation": pieces, "addr": 7,
    }  # fmt: skip
    events = each_step("MemoryAllocation", 15.8, 0.01)[:rows]
    for each in events:
        each.stats |= stats
    return events


def test_operations_that_wait_for_memory(tmp_path: pathlib.Path) -> None:
    """The allocator waits for what others give back before it gives up."""
    worker = [*on_the_cpu("Conv2D", "BiasAdd"), *full(13, 0.6)]
    report = judged(tmp_path, [*host(18.0, worker=worker), gpu(kernel(FUSION, 0.4, 5.0))])
    labels = [each.label for each in report.causes]
    assert "memory" in labels
    assert "99% full, and 60% of what is free lies in pieces" in evidence(report, "memory")
    assert next(each for each in report.causes if each.label == "memory").confidence == "low"


def test_memory_is_taken_from_the_driver_in_each_step(tmp_path: pathlib.Path) -> None:
    calls = each_step("cuMemFree_v2", 6.0, 6.0, correlation_id=4, device_id=0)
    calls += each_step("cuMemAlloc_v2", 12.5, 5.0, correlation_id=5, device_id=0)
    report = judged(
        tmp_path, [*host(18.0, worker=[*on_the_cpu(), *calls, *full(13, 0.2)]), gpu(kernel(FUSION, 0.4, 5.0))]
    )
    assert (report.verdict, report.causes[0].confidence) == ("memory", "low")
    assert "2.0 times a step (cuMemFree_v2)" in evidence(report, "memory")
    assert "in pieces" not in evidence(report, "memory")


# What the kernels are


def test_float32_where_tensor_cores_stand_by(tmp_path: pathlib.Path) -> None:
    planes = [*host(2.0), gpu(kernel(SGEMM, 0.5, 12.0), kernel(FUSION, 12.5, 6.5))]
    report = judged(tmp_path, planes)
    assert (report.verdict, report.causes[0].confidence) == ("fp32", "medium")
    assert SGEMM in evidence(report, "fp32")
    assert report.gpu is not None
    assert report.gpu.in_16_bit == 0.0
    assert "enable_tensor_float_32_execution" in report.causes[0].fix.text
    at_best = report.gain.step_ms_at_best
    assert at_best is not None
    assert 9.0 < at_best < 10.0, "an eighth of the time stays at least"


def test_tf32_is_no_advice_where_there_is_none(tmp_path: pathlib.Path) -> None:
    """V100 and T4 have tensor cores for 16 bit alone."""
    report = judged(tmp_path, [*host(2.0), gpu(kernel(SGEMM, 0.5, 12.0), kernel(FUSION, 12.5, 6.5), capability=(7, 5))])
    assert report.verdict == "fp32"
    fix = report.causes[0].fix
    assert "mixed_float16" in fix.code
    assert "tensor_float_32" not in fix.text + fix.code


def test_waiting_for_input_of_unknown_reason_comes_before_a_smaller_cause(tmp_path: pathlib.Path) -> None:
    """12 of 20 ms wait for the next batch, 6 multiply in float32: 16 bit would hardly help."""
    planes = [*host(19.0), gpu(kernel(SGEMM, 13.0, 6.0))]
    planes[0].lines[0].events += each_step("IteratorGetNextOp::DoCompute", 0.5, 12.0)
    report = judged(tmp_path, planes)
    assert (report.verdict, report.healthy) == ("unexplained", None)
    assert report.why.startswith("the steps wait 12.0 of 20.0 ms for the next batch")
    assert report.causes[0].label == "fp32"


@pytest.mark.parametrize(("every", "told"), [(1, "in 1 call"), (3, "in 0.3 calls")])
def test_a_slow_kernel_that_not_every_step_runs(tmp_path: pathlib.Path, every: int, told: str) -> None:
    slow = kernel("void tensorflow::functor::BiasGradNHWC_Naive<float>(int)", 0.5, 15.0, every=every)
    report = judged(tmp_path, [*host(2.0), gpu(slow, kernel(HALF_GEMM, 15.5, 3.5))])
    assert f", {told}" in evidence(report, "slow_kernel")


@pytest.mark.parametrize("name", [HALF_GEMM, TF32_GEMM])
def test_tensor_cores_that_are_used(tmp_path: pathlib.Path, name: str) -> None:
    planes = [*host(2.0), gpu(kernel(name, 0.5, 12.0), kernel(SGEMM, 12.5, 6.5))]
    report = judged(tmp_path, planes)
    assert (report.verdict, report.causes) == ("compute_bound", ())


@pytest.mark.parametrize(
    ("capability", "multiprocessors", "verdict"),
    [((6, 1), 20, "compute_bound"), ((7, 5), 24, "compute_bound"), ((7, 5), 30, "fp32"), ((7, 5), "", "fp32")],
)
def test_float32_on_a_gpu_without_tensor_cores(
    tmp_path: pathlib.Path, capability: tuple[int, int], multiprocessors: made_trace.Stat, verdict: str
) -> None:
    """A GTX 1660 Ti has 24 multiprocessors of capability 7.5, an RTX 2060 has 30."""
    plane = gpu(kernel(SGEMM, 0.5, 18.5), capability=capability)
    plane.stats["core_count"] = multiprocessors
    assert judged(tmp_path, [*host(2.0), plane]).verdict == verdict


@pytest.mark.parametrize("odd", ["abc", "", 10**30, -1.5])
def test_an_odd_compute_capability(tmp_path: pathlib.Path, odd: made_trace.Stat) -> None:
    plane = gpu(kernel(SGEMM, 0.5, 18.5))
    plane.stats["compute_cap_major"] = odd
    assert judged(tmp_path, [*host(2.0), plane]).verdict in ("compute_bound", "fp32")


@pytest.mark.parametrize(
    ("names", "share"),
    [
        ((HALF_GEMM,), 1.0),
        ((TF32_GEMM,), 0.0),
        ((FUSION,), None),
        ((FUSION, HALF_GEMM), 1.0),
        ((SGEMM, HALF_GEMM), 0.5),
    ],
)
def test_16_bit_is_told_by_the_kernels_names(
    tmp_path: pathlib.Path, names: tuple[str, ...], share: float | None
) -> None:
    """XLA's fusions do not tell: that is not known, and not none."""
    streams = [kernel(name, 1.0 + 9.0 * at, 9.0) for at, name in enumerate(names)]
    report = judged(tmp_path, [*host(2.0), gpu(*streams)])
    assert report.gpu is not None
    assert report.gpu.in_16_bit == share


def test_layouts_that_are_changed(tmp_path: pathlib.Path) -> None:
    turned = (
        "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>(cudnn::ops::nchw2nhwc_params_t<float>)"
    )
    planes = [*host(2.0), gpu(kernel(TF32_GEMM, 0.5, 10.0), kernel(turned, 10.5, 8.5))]
    report = judged(tmp_path, planes)
    assert (report.verdict, report.causes[0].confidence) == ("layout", "medium")
    assert "nchwToNhwcKernel" in evidence(report, "layout")


# What is shown


def test_text_and_markdown_tell_of_the_gpu(tmp_path: pathlib.Path) -> None:
    for name, told in ((SGEMM, "0.0% of their time in 16 bit"), (FUSION, "their names do not tell the precision")):
        report = judged(tmp_path, [*host(2.0), gpu(kernel(name, 0.5, 9.5), kernel(name, 10.0, 9.5))])
        text = " ".join(render_trace_text(report, None, width=100, colour=False).split())
        markdown = render_trace_markdown(report, None)
        for page in (text, markdown):
            assert "2 kernels in a step, half of them under 9500.0 µs" in page
            assert told in page


def test_a_page_without_the_precision(tmp_path: pathlib.Path) -> None:
    report = judged(tmp_path, [*host(2.0), gpu(kernel(FUSION, 0.5, 18.5))])
    page = render_trace_html(report, None, made_trace.judged(tmp_path)[1])
    assert "their names do not tell the precision" in page
    assert "None" not in page


def test_steps_in_bursts_are_told_by_their_mean(tmp_path: pathlib.Path) -> None:
    """Calls are dispatched in bursts, each of which then waits for the GPU: half of them are short."""
    planes = host(1.0)
    for line in planes[0].lines:
        for event in line.events:
            step, within = divmod(event.begin_ms, 20.0)
            event.begin_ms = 80.0 * (step // 4) + 1.5 * (step % 4) + within
    report = judged(tmp_path, [*planes, gpu([MadeEvent(FUSION, 0.5, 239.0)])])
    assert report.steps.mean_ms == pytest.approx(20.0, rel=0.01)
    assert report.steps.median_ms < 2.0
    assert "12 steps, 20.0 ms each (mean; half of them begin within 1.5 ms)" in steps_line(report)
    even = judged(tmp_path, host(2.0))
    assert "12 steps, 20.0 ms each (median)" in steps_line(even)


def test_what_is_no_work_is_no_operation(tmp_path: pathlib.Path) -> None:
    report = judged(tmp_path, [*host(2.0), gpu(kernel(FUSION, 0.5, 18.5), [MadeEvent("Memory device", 0.0, 250.0)])])
    assert [each.name for each in report.operations] == [FUSION]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (SGEMM, FLOAT32), (HALF_GEMM, SIXTEEN), (TF32_GEMM, TF32), (FUSION, ""), ("gemm_fusion_dot_5", ""),
        ("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_256x64_16x4_nn_align4>(T1::Params)", TF32),
        ("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align8>(T1::Params)", SIXTEEN),
        ("turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_stages_32x1_nn", SIXTEEN), ("volta_h884gemm_128x64_ldg8_nn", SIXTEEN),
        ("volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_tn", SIXTEEN), ("volta_sgemm_128x64_nn", FLOAT32),
        ("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16", TF32),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64", SIXTEEN),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8", FLOAT32), ("nvjet_hsh_128x256_64x4_2x1_v_bz_TNN", SIXTEEN),
        ("nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNT", SIXTEEN), ("nvjet_sm100_tst_128x64", SIXTEEN),
        ("void implicit_convolve_sgemm<float, float, 128, 5, 5, 3, 3, 3, 1, false, false, true>(int, int)", FLOAT32),
        ("void gemmSN_NN_kernel<float, 256, 4, 2, 8, 3, 4, false>(cublasGemmSmallNParams<float>)", FLOAT32),
        ("void gemv2T_kernel_val<int, int, __half, __half, __half, float, 128>(cublasGemvParams)", SIXTEEN),
        ("ampere_dgemm_64x64_nn", FLOAT64), ("maxwell_scudnn_128x32_relu_interior_nn_v0", FLOAT32),
    ],
)  # fmt: skip
def test_the_precision_of_a_kernel(name: str, told: str) -> None:
    assert precision(name) == told


@pytest.mark.parametrize(
    ("name", "product", "layout"),
    [
        (SGEMM, True, False), (FUSION, False, False), ("convert_fusion_3", False, False), ("input_transpose_fusion", False, True),
        ("void cudnn::ops::nchwToNhwcKernel<float>(x)", False, True), ("sm80_xmma_dgrad_implicit_gemm_f16f16_nhwc", True, False),
        ("void tensorflow::functor::SwapDimension1And2InTensor3UsingTiles<unsigned int, 256, 32, 32>(x)", False, True),
        ("cudnn::winograd_nonfused::winogradForwardData4x4<float, float>", True, False),
    ],
)  # fmt: skip
def test_what_a_kernel_is_for(name: str, *, product: bool, layout: bool) -> None:
    assert (is_product(name), is_layout(name)) == (product, layout)
