"""Profiles that releases of TensorFlow wrote of the same training: the names of events differ, the answer does not.

`tools/record_traces.py --keep` records them: Python in the pipeline with each release, other programs with some.
"""

from __future__ import annotations

import lzma
import pathlib

import made_trace
import pytest
from packaging.version import Version

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.tracing.reading import find_file, read_profile

FOLDER = pathlib.Path(__file__).parent / "recorded"
RECORDED = sorted(FOLDER.glob("*-py_function.xplane.pb.xz"))
OTHERS = sorted(set(FOLDER.glob("*.xz")) - set(RECORDED))
# Program to the verdict, and to the kinds of events that it is told by.
TOLD_BY = {
    "eager_loop": ("eager", {"eager", "input wait"}),
    "retracing": ("retracing", {"tracing", "call"}),
    "xla_shapes": ("compile", {"call", "xla run", "xla compile"}),
    "healthy_xla": ("compute_bound", {"call", "xla call"}),
    "healthy_dataset_loop": ("compute_bound", {"loop", "input wait", "executor"}),
    "healthy_long_calls": ("compute_bound", {"input wait", "executor"}),
    "small_operations": ("launch_bound", {"call", "executor"}),
    "tf_checkpoints": ("uneven_steps", {"checkpoint", "call"}),
}
RELEASES = {f"2.{minor}" for minor in range(12, 22)}


def test_each_release_is_there() -> None:
    assert {file.name.rpartition(".")[0].split("-")[0].rpartition(".")[0] for file in RECORDED} == RELEASES


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.name.partition(".xplane")[0])
def test_a_recorded_profile(file: pathlib.Path, tmp_path: pathlib.Path) -> None:
    made_trace.save_bytes(tmp_path, lzma.decompress(file.read_bytes()))
    report, drawing = made_trace.judged(tmp_path)
    assert report.verdict == "input_python"
    assert report.steps.count >= 3
    assert report.shares.input > 0.5
    assert report.gain.step_ms_at_best is not None
    assert report.gain.step_ms_at_best < report.steps.mean_ms
    assert any(stage.is_slowest for stage in report.pipeline)
    assert any("PyFunc" in each.name for each in report.operations)
    assert {"input", "Root::Prefetch"} <= {lane.name for lane in drawing.lanes}


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.name.partition(".xplane")[0])
def test_the_kinds_of_events_of_a_release(file: pathlib.Path, tmp_path: pathlib.Path) -> None:
    made_trace.save_bytes(tmp_path, lzma.decompress(file.read_bytes()))
    profile = read_profile(find_file(str(tmp_path)))
    found = {kind for thread in profile.threads for kind, events in thread.events.items() if events}
    assert {"input wait", "iterator", "python", "user function", "call", "executor", "run", "operation"} <= found


@pytest.mark.parametrize("file", OTHERS, ids=lambda file: file.name.partition(".xplane")[0])
def test_what_other_programs_are_told_by(file: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """By the kinds of events that the table says this release records."""
    release, _, program = file.name.partition(".xplane")[0].partition("-")
    verdict, kinds = TOLD_BY[program]
    made_trace.save_bytes(tmp_path, lzma.decompress(file.read_bytes()))
    report, _ = made_trace.judged(tmp_path)
    assert report.verdict == verdict
    profile = read_profile(find_file(str(tmp_path)))
    found = {kind for thread in profile.threads for kind, events in thread.events.items() if events}
    since = {kind: _oldest(kind) for kind in kinds}
    assert {kind for kind in kinds if Version(release) >= since[kind]} == kinds & found


def _oldest(kind: str) -> Version:
    """The oldest release in whose profiles the table says that a kind was seen."""
    return min(Version(row.first) for row in read_knowledge().trace_events if row.kind == kind)


def test_each_program_is_there_with_several_releases() -> None:
    for program in TOLD_BY:
        assert len([file for file in OTHERS if f"-{program}." in file.name]) >= 2, program
