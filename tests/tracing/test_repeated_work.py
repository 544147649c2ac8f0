"""A cache is advised where the same work is done again, and where nothing in it is random."""

from __future__ import annotations

import pathlib

import made_trace
import pytest
from made_trace import MadeEvent, MadeLine, MadePlane

from tfgpu_doctor.tracing.result import TraceCause

TOP = "Iterator::Root::Prefetch"
DECODE = f"{TOP}::ParallelMapV2::ParallelMapV2"  # nearer to the source than the map behind it
DISTORT = f"{TOP}::ParallelMapV2"
RANDOM = "flip/random_uniform/RandomUniform:RandomUniform"


def pipeline(repetition: str = "ForeverRepeat[3]", source: str = "TensorSlice", **operations: str) -> list[MadePlane]:
    """Steps of 20 ms that wait 16 ms for two maps; `decode` and `distort` are the operations of their functions.

    The one of them whose operation is given as `*Operation` takes the time.
    """
    planes = made_trace.training(step_ms=20.0, compute_ms=3.0, input_ms=16.0, stage=TOP)
    asked, decodes, distorts = (MadeLine(f"tf_data_iterator_resource/{at}", number=at) for at in (3, 4, 5))
    work = MadeLine("tf_data_private_threadpool/6", number=6)
    decoding_takes = operations["decode"].startswith("*")
    for step in range(13):
        at = 20.0 * step
        asked.events.append(MadeEvent(DISTORT, at + 0.1, 15.8, {"name": "ParallelMapDatasetV2:3"}))
        took = 15.6 if decoding_takes else 0.5
        distorts.events.append(MadeEvent(DECODE, at + 0.2, took, {"name": "ParallelMapDatasetV2:2"}))
        decodes.events.append(MadeEvent(f"{DECODE}::{repetition.partition('[')[0]}", at + 0.2, 0.2))
        decodes.events.append(MadeEvent(f"{DECODE}::{repetition}::{source}", at + 0.25, 0.1))
        for line, begin, lasts, name, number in (
            (decodes, at + 0.4, took - 0.3, operations["decode"], 2 * step),
            (distorts, at + 0.3 + took, 15.5 - took, operations["distort"], 2 * step + 1),
        ):
            stats: dict[str, made_trace.Stat] = {"id": 5000 + number}
            line.events.append(MadeEvent("InstantiatedCapturedFunction::RunAsync", begin, 0.01, stats))
            work.events.append(MadeEvent("ExecutorState::Process", begin + 0.02, max(0.05, lasts - 0.04), stats))
            work.events.append(MadeEvent(name.removeprefix("*"), begin + 0.03, max(0.01, lasts - 0.06)))
    planes[0].lines += [asked, decodes, distorts, work]
    return planes


def cause(folder: pathlib.Path, planes: list[MadePlane]) -> TraceCause:
    made_trace.save(folder, planes)
    report, _ = made_trace.judged(folder)
    assert report.verdict == "input_cpu_bound"
    return report.causes[0]


JPEG = "*DecodeJpeg:DecodeJpeg"


@pytest.mark.parametrize("distort", [RANDOM, "Mul:Mul"])
def test_decoding_is_kept_before_what_is_random(tmp_path: pathlib.Path, distort: str) -> None:
    found = cause(tmp_path, pipeline(decode=JPEG, distort=distort))
    assert found.fix.text.startswith(
        "Do the work of ParallelMapDatasetV2:2 (Prefetch::ParallelMapV2::ParallelMapV2) once and not in every epoch: cache()"
    )
    assert "if what it gives fits into memory" in found.fix.text
    assert found.evidence[-1].startswith("the data are read again (repetition 4), no stage keeps its results (cache)")


RANDOM_WORK = {
    "in-the-slow-map": ({"decode": "Shape:Shape", "distort": f"*{RANDOM}"}, "ParallelMapDatasetV2:3"),
    "in-the-source's-map": ({"decode": "*crop:RandomUniformInt", "distort": "Mul:Mul"}, "ParallelMapDatasetV2:2"),
    "before-the-slow-map": ({"decode": "crop:RandomUniformInt", "distort": "*Blur:DepthwiseConv2dNative"}, "ParallelMapDatasetV2:2"),
    "without-a-state": ({"decode": "*crop:StatelessRandomUniformV2", "distort": "Mul:Mul"}, "ParallelMapDatasetV2:2"),
    "by-a-generator": ({"decode": "*crop:RngReadAndSkip", "distort": "Mul:Mul"}, "ParallelMapDatasetV2:2"),
}  # fmt: skip


@pytest.mark.parametrize("name", RANDOM_WORK)
def test_random_work_is_not_kept(tmp_path: pathlib.Path, name: str) -> None:
    """A cache behind it would give the numbers of the first epoch for ever."""
    operations, stage = RANDOM_WORK[name]
    found = cause(tmp_path, pipeline(**operations))
    assert found.fix.text.startswith(f"Part of {stage} (")
    assert "put what is not (reading, decoding) into a map of its own, and cache() between" in found.fix.text
    assert not any("read again" in line for line in found.evidence)


def test_random_numbers_of_no_known_stage(tmp_path: pathlib.Path) -> None:
    """A function within a function has a run of its own."""
    planes = pipeline(decode=JPEG, distort="Mul:Mul")
    for step in range(13):
        stats: dict[str, made_trace.Stat] = {"id": 9000 + step}
        planes[0].lines[-1].events += [
            MadeEvent("ExecutorState::Process", 20.0 * step + 17.0, 0.5, stats), MadeEvent(RANDOM, 20.0 * step + 17.1, 0.1),
        ]  # fmt: skip
    assert cause(tmp_path, planes).fix.text.startswith("Part of the pipeline is random")


def test_runs_that_began_before_the_recording_count_for_nothing(tmp_path: pathlib.Path) -> None:
    planes = pipeline(decode=JPEG, distort=RANDOM)
    planes[0].lines[-1].events += [
        MadeEvent("ExecutorState::Process", 0.0, 0.2, {"id": 1}),
        MadeEvent(RANDOM, 0.1, 0.1),
    ]
    assert cause(tmp_path, planes).fix.text.startswith("Do the work of ParallelMapDatasetV2:2 (")


def test_nothing_shows_that_the_data_are_read_again(tmp_path: pathlib.Path) -> None:
    found = cause(tmp_path, pipeline("ForeverRepeat[0]", decode=JPEG, distort=RANDOM))
    assert found.fix.text.startswith("Do the work of ParallelMapDatasetV2:2 (")
    assert "as far as it is not random" in found.fix.text
    assert not any("read again" in line for line in found.evidence)


@pytest.mark.parametrize(("made", "told"), [(1, True), (12, False)])
def test_epochs_of_keras(tmp_path: pathlib.Path, made: int, told: bool) -> None:
    """Each has an iterator of its own; a program that makes one in each step only ever reads the begin of its data."""
    planes = pipeline("Shuffle", decode=JPEG, distort=RANDOM)
    planes[0].lines[0].events += [
        MadeEvent("EagerLocalExecute: MakeIterator", 20.0 * step + 19.6, 0.1) for step in range(made)
    ]
    found = cause(tmp_path, planes)
    assert any("a new iterator for each epoch" in line for line in found.evidence) is told


def test_what_is_kept_already(tmp_path: pathlib.Path) -> None:
    found = cause(tmp_path, pipeline(source="MemoryCacheImpl", decode=JPEG, distort=RANDOM))
    assert not any("read again" in line for line in found.evidence)


@pytest.mark.parametrize(("between_ms", "told"), [(1.0, True), (95.0, False)])
def test_waits_that_come_in_bursts(tmp_path: pathlib.Path, between_ms: float, told: bool) -> None:
    """Two of 20 steps wait long; a longer buffer helps if the pipeline has time between."""
    planes = made_trace.training(steps=20, step_ms=10.0, compute_ms=8.0)
    for line in planes[0].lines:
        for event in line.events:
            event.begin_ms += 55.0 * (event.begin_ms >= 50.0) + 55.0 * (event.begin_ms >= 150.0)
    source = MadeLine("tf_data_iterator_resource/3", number=3)
    for begin, lasts in ((50.0, 54.9), (105.0, between_ms), (205.0, 54.9)):
        if lasts == 54.9:
            names = ("IteratorGetNextOp::DoCompute", "Iterator::Root", TOP)
            planes[0].lines[0].events += [MadeEvent(name, begin, lasts) for name in names]
        stats: dict[str, made_trace.Stat] = {"name": "TFRecordDataset:0"}
        source.events += [
            MadeEvent(f"{TOP}::FlatMap", begin, lasts),
            MadeEvent(f"{TOP}::FlatMap::TFRecord", begin, lasts, stats),
        ]
    planes[0].lines.append(source)
    made_trace.save(tmp_path, planes)
    report, _ = made_trace.judged(tmp_path)
    assert report.verdict == "input_slow_source"
    assert "2 of 20 steps wait 55 ms for input, the others 0.0 ms" in report.causes[0].evidence
    assert ("The waits come in bursts: prefetch(10)" in report.causes[0].fix.text) is told
