"""The metrics are read by Prometheus' own parser, and say what the report says."""

from __future__ import annotations

import made_watch
import msgspec
import pytest

from tfgpu_doctor.tracing import NAMES
from tfgpu_doctor.watching.live import State
from tfgpu_doctor.watching.prometheus_text import render_prometheus
from tfgpu_doctor.watching.reading import GpuReading
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


@pytest.mark.parametrize("seen", [made_watch.hung(), State(hang=made_watch.hung().hang, healthy=True, verdict="x")])
def test_a_hang_is_the_verdict(seen: WatchReport | State) -> None:
    found = read(render_prometheus(seen))
    assert (values(found, "hang"), values(found, "healthy")) == ([1.0], [0.0])
    assert found["tfgpu_watch_verdict_info", (("verdict", "hang"),)] == 1.0


@pytest.mark.parametrize("seen", [made_watch.from_outside(), State()])
def test_what_is_not_known_is_left_out(seen: WatchReport | State) -> None:
    names = {name for name, _ in read(render_prometheus(seen))}
    assert names - {"tfgpu_watch_verdict_info"} == {"tfgpu_watch_hang"}


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
