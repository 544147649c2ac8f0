"""`fleet report --history` with many earlier runs: memory does not grow with them, and what is found stays the same."""

from __future__ import annotations

import pathlib

import pytest

pytest.importorskip("duckdb", reason="the extra fleet is not installed")
pytest.importorskip("numpy", reason="the extra fleet is not installed")

from fleet_days import FleetDays

from tfgpu_doctor.fleet import database
from tfgpu_doctor.fleet.merge import merge


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_runs(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of 2,000 nodes with 8 GPUs and 30 measurements each, with a tenth of the memory."""
    monkeypatch.setitem(database._SETTINGS, "memory_limit", "60MB")
    fleet = FleetDays(200, seed=280)
    fleet.drifts[70, 3, 16] = lambda day: 0.12 if day == 28 else 0.0
    for day in range(29):
        fleet.write(tmp_path / str(day), day)
    found = merge(str(tmp_path / "28"), history=[str(tmp_path / str(day)) for day in range(28)])
    assert {(each.node, each.device, each.measurement) for each in found.suspects if each.against == "own history"} == {
        ("n00070", "GPU:3", "float16 matrix product")
    }
