"""BEN: what the perf suites measured."""

from __future__ import annotations

import msgspec
import pytest

from tfgpu_doctor.checks.bench import gpu_beats_cpu, gpu_comes_near_its_limits
from tfgpu_doctor.facts.bench import Bench, Duel, Figure, Verdict
from tfgpu_doctor.facts.load import Readings
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model import Evidence, Finding, Skip


def duel(verdict: Verdict, ratio: float | None = 5.0, *, on_gpu: bool = True) -> Duel:
    return Duel(
        suite="device_placement", name="matmul", verdict=verdict, ratio=ratio, on_gpu=on_gpu,
        interval=(ratio * 0.9, ratio * 1.1) if ratio else None, reason="" if verdict == "faster" else "because",
    )  # fmt: skip


def test_a_gpu_that_wins_passes_with_its_figures() -> None:
    (told,) = gpu_beats_cpu(Bench(duels=(duel("faster"),)), read_knowledge())
    assert told == Evidence("device_placement matmul: 5.0 times as fast")


@pytest.mark.parametrize("verdict", ["slower", "not shown", "too noisy", "not run"])
def test_what_is_not_won_is_said(verdict: Verdict) -> None:
    ratio = None if verdict == "not run" else 0.9
    found = gpu_beats_cpu(Bench(duels=(duel("faster"), duel(verdict, ratio))), read_knowledge())
    (finding,) = [each for each in found if isinstance(each, Finding)]
    assert finding.message.startswith("1 of 2 duels on the GPU are not won")
    assert f"{verdict}, because" in finding.evidence[0]


def test_duels_on_the_cpu_say_nothing_of_the_gpu() -> None:
    with pytest.raises(Skip, match="no duel on a GPU"):
        gpu_beats_cpu(Bench(duels=(duel("slower", on_gpu=False),)), read_knowledge())


def test_heat_during_the_duel_is_the_cause() -> None:
    hot = Readings(samples=20, reasons={"sw_thermal_slowdown": 0.6, "sw_power_cap": 1.0})
    lost = msgspec.structs.replace(duel("slower", 0.8), readings={"0": hot})
    (finding,) = gpu_beats_cpu(Bench(duels=(lost,)), read_knowledge())
    assert isinstance(finding, Finding)
    assert finding.cause == "gpu_thermal_or_power_throttling"
    assert "limited by sw_thermal_slowdown in 60% of 20 looks" in finding.evidence[1]
    assert not any("sw_power_cap" in line for line in finding.evidence)


def figure(value: float, limit: float | None = 100.0) -> Figure:
    return Figure(
        suite="device_placement", name="matmul bfloat16", value=value, unit="TFLOP/s", device="GPU:0", limit=limit
    )


def test_a_gpu_near_its_peak_passes() -> None:
    (told,) = gpu_comes_near_its_limits(Bench(figures=(figure(75.0),)), read_knowledge())
    assert isinstance(told, Evidence)
    assert "75% of what is possible" in told.text


def test_a_gpu_far_below_its_peak_is_said() -> None:
    (told,) = gpu_comes_near_its_limits(Bench(figures=(figure(50.0),)), read_knowledge())
    assert isinstance(told, Finding)
    assert told.severity == "warning"


def test_without_a_limit_nothing_can_be_said() -> None:
    with pytest.raises(Skip, match="limit is known"):
        gpu_comes_near_its_limits(Bench(figures=(figure(50.0, limit=None),)), read_knowledge())
