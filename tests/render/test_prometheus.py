"""A node's metrics: what they say, and that looking again adds no series."""

from __future__ import annotations

import json
import pathlib
import platform
from typing import Any

import msgspec
import pytest
from built_machines import no_driver
from doctor_command import run_doctor
from healthy import healthy

from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model import Figure
from tfgpu_doctor.model.report import Report
from tfgpu_doctor.render import render

parser = pytest.importorskip("prometheus_client.parser", reason="prometheus-client is not installed")


def read(document: str) -> dict[tuple[Any, ...], float]:
    """Values by name and sorted labels."""
    families = parser.text_string_to_metric_families(document)
    return {(sample.name, *sorted(sample.labels.items())): sample.value for each in families for sample in each.samples}


def with_figures(words_changed: int) -> Report:
    report = diagnose(no_driver())
    cause = msgspec.structs.replace(
        report.causes[0], title=f"{words_changed} words changed", devices=("GPU-1",),
        figures=(Figure("words changed", words_changed, device="GPU-1"),),
    )  # fmt: skip
    return msgspec.structs.replace(report, causes=(cause, *report.causes[1:]))


def test_the_verdict_and_each_cause_are_there() -> None:
    report = diagnose(no_driver())
    found = read(render(report, "prometheus", node="n01"))
    node = ("node", "n01")
    assert found["tfgpu_node_healthy", node] == 0
    assert report.causes
    for each in report.causes:
        assert found["tfgpu_node_cause", ("id", each.id), ("label", each.label), node, ("severity", each.severity)] == 1
    assert found["tfgpu_node_last_look_timestamp_seconds", node] > 1.7e9


def test_what_is_unknown_is_absent() -> None:
    report = diagnose(healthy())
    asked = read(render(report, "prometheus", node="n01"))
    unknown = read(
        render(msgspec.structs.replace(report, computes=None, fit=None, recorded=""), "prometheus", node="n01")
    )
    gone = {key[0] for key in asked} - {key[0] for key in unknown}
    assert gone == {"tfgpu_node_computes", "tfgpu_node_fit", "tfgpu_node_last_look_timestamp_seconds"}
    assert asked["tfgpu_node_healthy", ("node", "n01")] == 1


def test_other_numbers_make_no_other_series() -> None:
    before, after = (read(render(with_figures(count), "prometheus", node="n01")) for count in (2, 3))
    assert before.keys() == after.keys()
    changed = {key for key in before if before[key] != after[key]}
    assert [key[0] for key in changed] == ["tfgpu_node_figure"]


def test_the_command_writes_a_file_for_the_collector(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "tfgpu.prom"
    done = run_doctor("--quick", "--format", "prometheus", "-o", str(path))
    found = read(path.read_text())
    reported = json.loads(run_doctor("--quick", "--format", "json").stdout)
    assert done.returncode == 1 or reported["healthy"]
    assert found["tfgpu_node_healthy", ("node", platform.node())] == reported["healthy"]
    assert path.stat().st_mode & 0o044 == 0o044
    assert [each.name for each in tmp_path.iterdir()] == ["tfgpu.prom"]
