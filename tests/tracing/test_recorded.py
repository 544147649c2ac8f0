"""Profiles that each release of TensorFlow wrote of the same training: the names of events differ, the answer does not.

`tools/record_traces.py --keep` records them.
"""

from __future__ import annotations

import lzma
import pathlib

import made_trace
import pytest

from tfgpu_doctor.tracing.reading import find_file, read_profile

RECORDED = sorted((pathlib.Path(__file__).parent / "recorded").glob("*.xz"))
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
