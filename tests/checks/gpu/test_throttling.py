"""HLT: what heat and power do to the clocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from built_health import GEFORCE, SERVER, changed, server, workstation
from healthy import nvml_gpu

from tfgpu_doctor.checks.gpu.throttling import is_of_laptop, nothing_slows_gpu_down, power_is_not_limited
from tfgpu_doctor.model.facts.health import GpuHealth, Temperature

if TYPE_CHECKING:
    from checks.conftest import Judge


# HLT004


def test_an_idle_gpu_passes_with_its_figures(judge: Judge) -> None:
    evidence = judge.passes(nothing_slows_gpu_down, workstation(GEFORCE))
    assert evidence.startswith("GPU 0: 38 °C of 95 °C, its slowdown threshold, SM clock 210 of 2100 MHz (10 %), 21 W")
    assert "limited by gpu_idle" in evidence


@pytest.mark.parametrize(
    "reasons",
    [(), ("gpu_idle",), ("sw_power_cap",), ("applications_clocks_setting",), ("sync_boost",), ("display_clock_setting",),
     ("gpu_idle", "sw_power_cap"), ("2048",)],
)  # fmt: skip
def test_what_limits_the_clocks_of_a_sound_gpu_is_no_fault(judge: Judge, reasons: tuple[str, ...]) -> None:
    health = changed(SERVER, throttle_reasons=reasons)
    assert judge.passes(nothing_slows_gpu_down, server(health))


@pytest.mark.parametrize(
    ("reasons", "words", "confidence"),
    [
        (("hw_slowdown", "hw_thermal_slowdown"), "by heat, in hardware", "high"),
        (("sw_thermal_slowdown",), "by heat, by the driver", "high"),
        (("hw_slowdown", "hw_power_brake_slowdown"), "by a signal from the power supply", "high"),
        (("hw_slowdown",), "by its own protection", "medium"),
        (("sw_power_cap", "sw_thermal_slowdown"), "by heat", "high"),
    ],
)
def test_a_gpu_that_is_slowed_down_is_told_with_what_it_costs(
    judge: Judge, reasons: tuple[str, ...], words: str, confidence: str
) -> None:
    health = changed(SERVER, throttle_reasons=reasons, clocks={"sm_mhz": 705})
    finding = judge.finding(nothing_slows_gpu_down, server(SERVER, health))
    assert (finding.cause, finding.severity) == ("gpu_thermal_or_power_throttling", "warning")
    assert finding.confidence == confidence
    assert finding.message.startswith("GPU 1")
    assert words in finding.message
    assert "SM clock 705 of 1980 MHz (36 %)" in finding.evidence
    assert f"clocks limited by {', '.join(reasons)}" in finding.evidence


@pytest.mark.parametrize(
    ("heat", "hot"),
    [
        (Temperature(gpu_c=87, slowdown_c=87), True),
        (Temperature(gpu_c=86, slowdown_c=87), False),
        (Temperature(gpu_c=86, max_c=85, slowdown_c=87), False),
        (Temperature(gpu_c=80, margin_c=-1), True),
        (Temperature(gpu_c=80, margin_c=0), False),
        (Temperature(gpu_c=95), False),
        (Temperature(gpu_c=95, slowdown_c=0), False),
    ],
)
def test_the_temperature_is_held_against_the_threshold(judge: Judge, heat: Temperature, hot: bool) -> None:
    machine = workstation(changed(GEFORCE, temperature=heat))
    if hot:
        assert "hotter than its limit" in judge.finding(nothing_slows_gpu_down, machine).message
    else:
        assert judge.passes(nothing_slows_gpu_down, machine)


@pytest.mark.parametrize("health", [GpuHealth(), GpuHealth(persistence_mode=True)])
def test_a_gpu_that_tells_nothing_is_not_judged(judge: Judge, health: GpuHealth) -> None:
    assert judge.skips(nothing_slows_gpu_down, workstation(health))


def test_a_gpu_that_tells_reasons_alone_is_judged_by_them(judge: Judge) -> None:
    assert judge.passes(nothing_slows_gpu_down, workstation(GpuHealth(throttle_reasons=()))).endswith(
        "limits the clocks"
    )


# HLT005


def power(**changes: Any) -> GpuHealth:
    return changed(GEFORCE, power=changes)


@pytest.mark.parametrize(
    "changes",
    [{}, {"limit_w": 365.0, "enforced_limit_w": 365.0}, {"limit_w": 320.0, "enforced_limit_w": 320.0}, {"limit_w": None},
     {"limit_w": None, "enforced_limit_w": None}],
    ids=str,
)  # fmt: skip
def test_a_limit_near_the_default_passes(judge: Judge, changes: dict[str, Any]) -> None:
    assert "350 W by default" in judge.passes(power_is_not_limited, workstation(power(**changes)))


@pytest.mark.parametrize(
    ("changes", "evidence"),
    [
        ({"limit_w": 220.0, "enforced_limit_w": 220.0}, "set by `nvidia-smi -pl`"),
        ({"enforced_limit_w": 220.0}, "enforced by the machine itself"),
    ],
)
def test_a_lowered_limit_is_told_with_both_figures(judge: Judge, changes: dict[str, Any], evidence: str) -> None:
    finding = judge.finding(power_is_not_limited, workstation(power(**changes)))
    assert (finding.cause, finding.severity) == ("gpu_thermal_or_power_throttling", "warning")
    assert finding.message.endswith("may draw 220 W, but its default limit is 350 W")
    assert any(evidence in line for line in finding.evidence)


def test_the_power_of_a_laptop_is_its_makers_choice(judge: Judge) -> None:
    gpu = nvml_gpu(name="NVIDIA GeForce RTX 3070 Laptop GPU", health=power(limit_w=None, enforced_limit_w=60.0))
    assert judge.passes(power_is_not_limited, nvml={"gpus": (gpu,)})


def test_a_gpu_without_a_limit_is_not_judged(judge: Judge) -> None:
    assert judge.skips(power_is_not_limited, workstation(power(default_limit_w=None))) == "NVML reports no power limit"


@pytest.mark.parametrize(
    ("name", "laptop"),
    [
        ("NVIDIA GeForce RTX 3070 Laptop GPU", True),
        ("NVIDIA GeForce GTX 1650 with Max-Q Design", True),
        ("NVIDIA GeForce MX450", True),
        ("GeForce MX 150", True),
        ("NVIDIA GeForce RTX 3090", False),
        ("NVIDIA A100-SXM4-80GB", False),
        ("NVIDIA RTX A4000", False),
        ("GeForce GTX TITAN X", False),
    ],
)
def test_laptops_are_known_by_name(name: str, laptop: bool) -> None:
    assert is_of_laptop(nvml_gpu(name=name)) == laptop
