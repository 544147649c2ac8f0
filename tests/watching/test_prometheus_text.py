"""The metrics are read by Prometheus' own parser, and say what the report says."""

from __future__ import annotations

import made_watch
import msgspec
import pytest

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.tracing import NAMES
from tfgpu_doctor.watching.live import State
from tfgpu_doctor.watching.prometheus_text import render_prometheus
from tfgpu_doctor.watching.reading import GpuReading, Reading
from tfgpu_doctor.watching.result import WatchReport

parser = pytest.importorskip("prometheus_client.parser")

Found = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def read(text: str) -> Found:
    """All samples; every family has its help and its type."""
    found: Found = {}
    for family in parser.text_string_to_metric_families(text):
        assert family.type == "gauge"
        assert family.documentation
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in found
            found[key] = sample.value
    assert not text or text.endswith("\n")
    return found


def values(found: Found, name: str) -> list[float]:
    return [value for (each, _), value in found.items() if each == f"tfgpu_watch_{name}"]


def test_of_a_report() -> None:
    found = read(render_prometheus(made_watch.input_bound()))
    assert values(found, "healthy") == [0.0]
    assert values(found, "hang") == [0.0]
    assert values(found, "step_seconds") == [pytest.approx(0.0299)]
    assert found["tfgpu_watch_verdict_info", (("verdict", "input_python"),)] == 1.0
    assert found["tfgpu_watch_share", (("part", "input"),)] == 0.89
    assert len(values(found, "share")) == len(NAMES)
    assert found["tfgpu_watch_gpu_utilization_ratio", (("gpu", "0"), ("uuid", "GPU-0"))] == 0.34
    assert values(found, "gpu_used_bytes") == [float(12 << 30)]


def test_of_a_moment() -> None:
    gpus = [GpuReading(at_s=1.0, index=index, uuid=f"GPU-{index}", utilization=0.5, used_bytes=7) for index in range(8)]
    found = read(render_prometheus(State(verdict="compute_bound", healthy=True, gpus=gpus, step_ms=2.0)))
    assert (values(found, "healthy"), values(found, "step_seconds")) == ([1.0], [0.002])
    assert values(found, "gpu_used_bytes") == [7.0] * 8
    assert values(found, "share") == []


def test_the_time_of_a_step_is_the_mean_while_it_runs_and_at_the_end() -> None:
    """As in the rule step_ms: of uneven steps the median is the smaller part."""
    steps = msgspec.structs.replace(made_watch.steps(10.0), mean_ms=35.0)
    report = msgspec.structs.replace(made_watch.input_bound(), steps=steps)
    for seen in (report, State(verdict=report.verdict, step_ms=steps.mean_ms)):
        assert values(read(render_prometheus(seen)), "step_seconds") == [0.035]


def test_the_machine_of_a_report() -> None:
    shared = msgspec.structs.replace(made_watch.input_bound(), rules=made_watch.with_rules().rules)
    found = read(render_prometheus(shared))
    assert found["tfgpu_watch_machine_cause", (("cause", "cpu_contention"),)] == 1.0
    assert found["tfgpu_watch_machine_cause", (("cause", "cpu_quota"),)] == 0.0
    assert len(values(found, "machine_cause")) == len(
        [row for row in read_knowledge().watch_words.values() if row.kind == "machine"]
    )
    assert (values(found, "cpu_used"), values(found, "cpu_queued")) == ([1.6], [0.4])
    assert values(found, "cpu_throttled_ratio") == [0.0]
    assert values(found, "memory_bytes") == [float(3 << 30)]
    assert found["tfgpu_watch_gpu_other_processes", (("gpu", "0"), ("uuid", "GPU-0"))] == 1.0
    assert values(found, "recordings") == [9.0]
    assert {key[1][0][1]: value for key, value in found.items() if key[0] == "tfgpu_watch_rule_broken"} == {
        "step_ms > 10 for 1 min": 1.0, "gpu_idle > 40 % for 5 min": 0.0,
    }  # fmt: skip


def test_the_machine_of_a_moment() -> None:
    gpus = [
        GpuReading(at_s=1.0, index=0, uuid="a", tenants=((1, "x", None), (2, "y", None)), tenants_utilization={1: 0.3}),
        GpuReading(at_s=1.0, index=1, uuid="b"),
    ]
    reading = Reading(at_s=1.0, cpu=1.5, queued=None, throttled=0.25, memory_bytes=5)
    found = read(
        render_prometheus(
            State(gpus=gpus, reading=reading, causes=("other_tenant",), captures=3, verdict="compute_bound")
        )
    )
    assert found["tfgpu_watch_machine_cause", (("cause", "other_tenant"),)] == 1.0
    assert (values(found, "cpu_used"), values(found, "cpu_queued")) == ([1.5], [])
    assert values(found, "gpu_other_processes") == [2.0, 0.0]
    assert values(found, "gpu_other_utilization_ratio") == [0.3]
    assert (values(found, "recordings"), values(found, "memory_bytes")) == ([3.0], [5.0])


@pytest.mark.parametrize("seen", [made_watch.hung(), State(hang=made_watch.hung().hang, healthy=True, verdict="x")])
def test_a_hang_is_the_verdict(seen: WatchReport | State) -> None:
    found = read(render_prometheus(seen))
    assert (values(found, "hang"), values(found, "healthy")) == ([1.0], [0.0])
    assert found["tfgpu_watch_verdict_info", (("verdict", "hang"),)] == 1.0


@pytest.mark.parametrize("seen", [made_watch.from_outside(), State()])
def test_what_is_not_known_is_left_out(seen: WatchReport | State) -> None:
    names = {name for name, _ in read(render_prometheus(seen))}
    known = {
        "tfgpu_watch_hang",
        "tfgpu_watch_machine_cause",
        "tfgpu_watch_recordings",
        "tfgpu_watch_gpu_other_processes",
    }
    assert names - {"tfgpu_watch_verdict_info"} <= known


@pytest.mark.parametrize("name", made_watch.REPORTS)
def test_all_reports_can_be_read(name: str) -> None:
    assert read(render_prometheus(made_watch.REPORTS[name]()))


def test_hostile_names_make_no_metric() -> None:
    report = msgspec.structs.replace(
        made_watch.hostile(),
        hang=None,
        verdict=made_watch.HOSTILE + "\\",
        gpus=(made_watch.gpu(uuid='"\\\n\\n' * 300),) * 2,
    )
    text = render_prometheus(report)
    found = read(text)
    assert values(found, "healthy") == [0.0]
    assert sum(line.startswith("tfgpu_watch_healthy") for line in text.splitlines()) == 1
    assert len(values(found, "verdict_info")) == 1
    assert len(values(found, "gpu_utilization_ratio")) == 1, "two with the same labels would make the document invalid"
