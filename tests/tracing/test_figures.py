"""The figures of an answer, to the last digit, and what lies just at the edge of a rule: on made-up profiles."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import made_trace
import pytest
from made_gpu import FUSION, gpu
from made_trace import MadeEvent, MadeLine, MadePlane, Ref, Stat, training

from tfgpu_doctor.tracing.drawing import Drawing
from tfgpu_doctor.tracing.result import TraceReport
from tfgpu_doctor.tracing.tables import OperationRow


def drawn(folder: pathlib.Path, planes: list[MadePlane]) -> tuple[TraceReport, Drawing]:
    made_trace.save(folder, planes)
    return made_trace.judged(folder)


def judged(folder: pathlib.Path, planes: list[MadePlane]) -> TraceReport:
    return drawn(folder, planes)[0]


def evidence(report: TraceReport) -> str:
    return " / ".join(line for cause in report.causes for line in cause.evidence)


def calls(*steps: tuple[float, float, float]) -> list[MadePlane]:
    """A call for each step: it starts its work for so many ms, and computes for so many; other work comes before the next."""
    python, worker, at = MadeLine("python", number=1), MadeLine("tf_Compute/7", number=2), 0.0
    for number, (starts, computes, between) in enumerate(
        [*steps, steps[-1]]
    ):  # the last tells where the one before ends
        run: dict[str, Stat] = {"id": number}
        python.events += [
            MadeEvent("train_step", at, starts + computes, {"tf_function_call": Ref("notTraced-nonXla")}),
            MadeEvent("EagerLocalExecute: __inference_train_step_106", at, starts + computes),
            MadeEvent("FunctionRun", at, starts + computes, run),
        ]
        if computes:
            worker.events += [
                MadeEvent("ExecutorState::Process", at + starts, computes, run),
                MadeEvent("MatMul:MatMul", at + starts, computes),
            ]
        at += starts + computes + between
    return [MadePlane("/host:CPU", [python, worker])]


def programs(name: str, count: int) -> MadePlane:
    """What XLA has compiled, as the profiler lists it."""
    return MadePlane("/host:metadata", [MadeLine("modules", [MadeEvent(f"{name}({at})") for at in range(count)])])


# Building graphs and compiling


@pytest.mark.parametrize(("traced_ms", "labels"), [(2.0, ["retracing"]), (1.9, [])])
def test_a_tenth_of_the_time_is_worth_a_word(tmp_path: pathlib.Path, traced_ms: float, labels: list[str]) -> None:
    planes = calls(*[(traced_ms, 20.0 - traced_ms, 0.0)] * 12)
    planes[0].lines[0].events += [MadeEvent("tf.function-graph_building", 20.0 * at, 1.0) for at in range(12)]
    report = judged(tmp_path, planes)
    assert (report.shares.compile, [each.label for each in report.causes]) == (traced_ms / 20.0, labels)


@pytest.mark.parametrize(
    ("traced", "verdict", "why"),
    [(2, "compute_bound", "the first 2 steps build graphs or compile, and are left out"), (3, "retracing", "")],
)
def test_a_function_that_is_traced_a_third_time(tmp_path: pathlib.Path, traced: int, verdict: str, why: str) -> None:
    planes = calls(*[(18.0, 2.0, 0.0)] * traced, *[(1.0, 19.0, 0.0)] * (12 - traced))
    planes[0].lines[0].events += [MadeEvent("tf.function-graph_building", 20.0 * at, 1.0) for at in range(traced)]
    report = judged(tmp_path, planes)
    assert (report.verdict, report.why, report.steps.count) == (verdict, why, 12 if traced == 3 else 10)


def epoch_end(before: int, after: int, *graphs: str) -> list[MadePlane]:
    """Steps of which most of the time is Python after them; after one these graphs are built, 150 ms each."""
    planes = calls(*[(1.0, 3.0, 16.0)] * before, (1.0, 3.0, 16.0 + 150.0 * len(graphs)), *[(1.0, 3.0, 16.0)] * after)
    for number, name in enumerate(graphs):
        at = 20.0 * before + 4.0 + 150.0 * number
        planes[0].lines[0].events += [
            MadeEvent(name, at, 150.0, {"tf_function_call": Ref("traced-nonXla")}),
            MadeEvent("tf.function-graph_building", at + 1.0, 140.0),
        ]
    return planes


@pytest.mark.parametrize(
    ("before", "after", "count"), [(60, 1, 60), (60, 4, 60), (4, 60, 60), (3, 1, 3), (1, 3, 3), (12, 12, 12)]
)
@pytest.mark.parametrize(
    "graphs",
    [("test_step",), ("test_step", "test_step", "metric")],
    ids=["validation", "smaller batch and metric, too"],
)
def test_steps_before_a_graph_that_is_built_in_the_middle_are_judged(
    tmp_path: pathlib.Path, before: int, after: int, count: int, graphs: tuple[str, ...]
) -> None:
    """The end of the first epoch: a smaller batch, a validation."""
    report = judged(tmp_path, epoch_end(before, after, *graphs))
    assert (report.verdict, report.steps.count, report.shares.compile) == ("host_python", count, 0.0)
    assert report.why == (
        f"1 of {before + after + 1} steps build graphs or compile; only the longest stretch of others, {count} steps, is judged"
    )


@pytest.mark.parametrize(("before", "after"), [(2, 2), (1, 1)])
def test_too_few_steps_around_a_graph_that_is_built_are_no_start(
    tmp_path: pathlib.Path, before: int, after: int
) -> None:
    report = judged(tmp_path, epoch_end(before, after, "test_step"))
    assert (report.verdict, report.healthy) == ("too_short", None)
    assert report.why == (
        f"1 of {before + after + 1} steps build graphs or compile, and fewer than 3 in a row are without; ten are better"
    )


def test_a_start_with_steps_between_its_compilations(tmp_path: pathlib.Path) -> None:
    """The steps between are few, and not yet what the others are."""
    slow, usual = [(1.0, 39.0, 0.0)], [(1.0, 19.0, 0.0)]
    planes = calls(*slow * 7, *usual * 12)
    planes[0].lines[1].events += [MadeEvent("CpuCompiler::RunBackend", 40.0 * at + 2.0, 15.0) for at in (0, 2, 6)]
    report = judged(tmp_path, planes)
    assert (report.verdict, report.steps.count, report.steps.median_ms) == ("compute_bound", 12, 20.0)
    assert (
        report.why == "3 of 19 steps build graphs or compile; only the longest stretch of others, 12 steps, is judged"
    )


@pytest.mark.parametrize("steps", [4, 5])
def test_a_start_alone_with_steps_between_its_compilations(tmp_path: pathlib.Path, steps: int) -> None:
    planes = calls(*[(1.0, 19.0, 0.0)] * steps)
    planes[0].lines[1].events += [MadeEvent("CpuCompiler::RunBackend", 20.0 * at + 2.0, 15.0) for at in (0, 2)]
    report = judged(tmp_path, planes)
    assert (report.verdict, report.healthy) == ("warm_up", None)
    assert report.why == f"2 of {steps} steps build graphs or compile: this is the start of the training"


@pytest.mark.parametrize(
    ("starts", "computes", "verdict"),
    [(18.0, 2.0, "compile"), (11.0, 9.0, "launch_bound"), (4.5, 15.5, "compute_bound")],
)
def test_before_2_18_a_call_that_hardly_computes_compiles(
    tmp_path: pathlib.Path, starts: float, computes: float, verdict: str
) -> None:
    """Nothing of XLA's own work is recorded there; the programs that it made are."""
    planes = [*calls(*[(starts, computes, 0.0)] * 12), programs("a_inference_train_step_9__.4", 12)]
    report = judged(tmp_path, planes)
    assert report.verdict == verdict
    assert ("compiling takes 18 of 20 ms of each step" in evidence(report)) is (verdict == "compile")


@pytest.mark.parametrize(
    ("compiled", "verdict", "why", "count"),
    [
        (6, "compute_bound", "the first 6 steps build graphs or compile, and are left out", 6),
        (7, "compute_bound", "", 12),
        (8, "warm_up", "building graphs and compiling take 10.0 of 20.0 ms of each step, and nothing is seen to be compiled twice", 12),
        (12, "warm_up", "building graphs and compiling take 15.0 of 20.0 ms of each step, and nothing is seen to be compiled twice", 12),
    ],
)  # fmt: skip
def test_so_many_steps_that_compile_are_no_begin(
    tmp_path: pathlib.Path, compiled: int, verdict: str, why: str, count: int
) -> None:
    """Nor healthy, where they take half of the time."""
    planes = calls(*[(1.0, 19.0, 0.0)] * 12)
    planes[0].lines[1].events += [MadeEvent("CpuCompiler::RunBackend", 20.0 * at + 2.0, 15.0) for at in range(compiled)]
    report = judged(tmp_path, planes)
    assert (report.verdict, report.steps.count) == (verdict, count)
    assert report.why.startswith(why)
    assert bool(report.why) is bool(why)


@pytest.mark.parametrize(
    ("first_ms", "why"),
    [(20.0, ""), (21.0, "the first step takes 21 ms, most of it until its operations have started, and is left out")],
)
def test_a_first_step_as_long_as_twenty_others(tmp_path: pathlib.Path, first_ms: float, why: str) -> None:
    """It takes a fifth of the time then; only what is longer is left out."""
    report = judged(tmp_path, calls((first_ms, 0.0, 0.0), *[(0.0, 1.0, 0.0)] * 80))
    assert (report.why, report.steps.count) == (why, 80 if why else 81)


# Between the steps, and starting them


def test_an_uneven_step_among_very_short_ones(tmp_path: pathlib.Path) -> None:
    """Steps of 20 µs, one of which is followed by 0.2 ms of other work: all of it takes less than 1 ms."""
    steps = [(0.0, 0.018, 0.002)] * 12
    steps[6] = (0.0, 0.018, 0.202)
    report = judged(tmp_path, calls(*steps))
    assert report.verdict == "uneven_steps"
    assert report.causes[0].share == pytest.approx(0.2 / 0.44, abs=0.0001)


@pytest.mark.parametrize(("count", "said"), [(1259, True), (1258, False)])
def test_the_number_of_kernels_counts_below_15_us_for_each(tmp_path: pathlib.Path, count: int, said: bool) -> None:
    """Starting takes 18.87 ms of each step: 14.99 µs for each kernel, or 15.003."""
    many = [MadeEvent(FUSION, 20.0 * step + 0.014 * at, 0.0001) for step in range(4) for at in range(count)]
    report = judged(tmp_path, [*calls(*[(19.0, 0.0, 1.0)] * 4), gpu(many)])
    assert report.verdict == "launch_bound"
    assert ("each kernel takes 15.0 µs to start" in evidence(report)) is said


@pytest.mark.parametrize(
    ("function", "named"), [("train_step", "each call of train_step"), ("one_step_on_data", "each step")]
)
def test_the_user_s_own_function_is_named_and_not_keras_own(tmp_path: pathlib.Path, function: str, named: str) -> None:
    planes = training(compute_ms=18.0, function=function)
    for event in planes[0].lines[1].events:
        event.duration_ms *= 0.25
    (cause,) = judged(tmp_path, planes).causes
    assert cause.label == "launch_bound"
    assert cause.fix.text.startswith(f"Give {named} more work: ")


# Input


def test_waiting_without_a_stage_of_a_pipeline(tmp_path: pathlib.Path) -> None:
    planes = training(step_ms=20.0, compute_ms=3.0, input_ms=16.0)
    python = planes[0].lines[0]
    python.events = [each for each in python.events if not each.name.startswith("Iterator::")]
    report = judged(tmp_path, planes)
    assert (report.verdict, report.causes, report.shares.input) == ("unexplained", (), 0.8)
    assert report.why.startswith(
        "the steps wait 16.0 of 20.0 ms for the next batch, and the profile does not hold what"
    )


def test_a_last_step_that_does_not_end_is_none(tmp_path: pathlib.Path) -> None:
    """The recording ends in it; only if that takes far longer than a step, it counts as waiting."""
    report = judged(
        tmp_path, training(step_ms=20.0, compute_ms=3.0, input_ms=16.0, stage="Iterator::Root::Prefetch::Map")
    )
    assert (report.verdict, report.steps.count) == ("input_serial_map", 12)


# What ran, in tables and figures


def test_operations_are_those_within_the_steps(tmp_path: pathlib.Path) -> None:
    report = judged(tmp_path, calls(*[(1.0, 18.5, 0.5)] * 12))
    assert report.operations == (OperationRow(name="MatMul:MatMul", total_ms=222.0, count=12),)


def test_a_gpu_whose_kernels_come_after_the_steps(tmp_path: pathlib.Path) -> None:
    report = judged(tmp_path, [*calls(*[(1.0, 18.5, 0.5)] * 12), gpu([MadeEvent(FUSION, 242.0, 3.0)])])
    assert report.gpu is not None
    assert (report.gpu.kernels, report.gpu.median_kernel_us, report.gpu.compute_ms) == (0.0, 0.0, 0.0)


def test_the_course_of_an_allocator_has_each_of_a_few_readings(tmp_path: pathlib.Path) -> None:
    planes = calls(*[(1.0, 19.0, 0.0)] * 12)
    used = (512, 2048, 1024, 1536, 256)
    planes[0].lines.append(
        MadeLine("allocator", [
            MadeEvent("MemoryAllocation", 20.0 * at, 0.1, {"allocator_name": "cpu", "bytes_allocated": each})
            for at, each in enumerate(used)
        ])
    )  # fmt: skip
    (row,) = judged(tmp_path, planes).memory
    assert row.course == ((0.0, 512), (20.0, 2048), (40.0, 1024), (60.0, 1536), (80.0, 256))


# What is drawn


def stream(pieces: Sequence[MadeEvent]) -> list[MadePlane]:
    """Twelve steps of 20 ms, and what a GPU does meanwhile."""
    return [*calls(*[(1.0, 19.0, 0.0)] * 12), gpu(list(pieces))]


def test_what_has_few_pieces_is_drawn_as_it_is(tmp_path: pathlib.Path) -> None:
    report, drawing = drawn(tmp_path, stream([MadeEvent(FUSION, 60.0, 24.0), MadeEvent(FUSION, 120.0, 0.012)]))
    (lane,) = (each for each in drawing.lanes if each.part == "stream")
    assert (drawing.begin_ms, drawing.end_ms, report.steps.count) == (0.0, 240.0, 12)
    assert drawing.steps == tuple(round(100 * at / 12, 2) for at in range(12))
    assert lane.pieces == ((25.0, 10.0, 1.0), (50.0, 0.05, 1.0)), "what is too short to be seen is drawn longer"


def test_what_has_many_pieces_is_drawn_as_how_full_each_slot_is(tmp_path: pathlib.Path) -> None:
    """400 slots of 0.6 ms: three kernels of 0.15 ms in each of the later half, and none before."""
    later = [MadeEvent(FUSION, 0.6 * at + part, 0.15) for at in range(200, 400) for part in (0.01, 0.2, 0.4)]
    _, drawing = drawn(tmp_path, stream(later))
    (lane,) = (each for each in drawing.lanes if each.part == "stream")
    assert lane.pieces == tuple((round(0.25 * at, 3), 0.25, 0.75) for at in range(200, 400))
