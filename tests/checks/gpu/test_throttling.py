"""HLT: what heat and power do to the clocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from built_health import GEFORCE, SERVER, changed, server, workstation
from healthy import nvml_gpu

from tfgpu_doctor.checks.gpu import throttling
from tfgpu_doctor.checks.gpu.throttling import is_of_laptop, nothing_slows_gpu_down, power_is_not_limited
from tfgpu_doctor.model.clock_limits import SLOWING
from tfgpu_doctor.model.facts.health import GpuHealth, Temperature

if TYPE_CHECKING:
    from checks.conftest import Judge


# HLT004


def test_an_idle_gpu_passes_with_its_figures(judge: Judge) -> None:
    evidence = judge.passes(nothing_slows_gpu_down, workstation(GEFORCE))
    assert evidence.startswith("GPU 0: 38 °C of 95 °C, its slowdown threshold, SM clock 210 of 2100 MHz (10 %), ")
    assert "limited by gpu_idle" in evidence
    assert "memory clock 405 of 9751 MHz, 21 W, performance state P8" in evidence


@pytest.mark.parametrize(
    ("margin_c", "words"),
    [(24, "24 °C below its maximum"), (0, "0 °C below its maximum"), (-3, "3 °C above its maximum")],
)
def test_the_margin_is_told_in_its_direction(judge: Judge, margin_c: int, words: str) -> None:
    health = changed(SERVER, temperature={"margin_c": margin_c}, throttle_reasons=("hw_thermal_slowdown",))
    assert judge.finding(nothing_slows_gpu_down, server(health)).evidence[0] == f"61 °C, {words}"


def test_the_temperature_of_the_memory_is_told(judge: Judge) -> None:
    assert ", memory 70 °C, SM clock" in judge.passes(nothing_slows_gpu_down, server(SERVER))


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


LAPTOP = "NVIDIA GeForce RTX 3070 Laptop GPU"


@pytest.mark.parametrize(
    ("name", "reasons", "battery"),
    [
        (LAPTOP, ("hw_slowdown", "hw_power_brake_slowdown"), True),
        (LAPTOP, ("hw_slowdown", "hw_thermal_slowdown"), False),
        ("NVIDIA GeForce RTX 3090", ("hw_slowdown", "hw_power_brake_slowdown"), False),
        ("NVIDIA GeForce RTX 3090", ("sw_thermal_slowdown",), False),
    ],
)
def test_of_a_laptop_without_heat_the_battery_is_mentioned(
    judge: Judge, name: str, reasons: tuple[str, ...], battery: bool
) -> None:
    gpu = nvml_gpu(name=name, health=changed(GEFORCE, throttle_reasons=reasons))
    fix = judge.finding(nothing_slows_gpu_down, nvml={"gpus": (gpu,)}).fix
    assert fix
    assert fix.text.endswith("A laptop also does this on battery.") == battery


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


@pytest.mark.parametrize(
    ("heat", "thresholds"),
    [
        (
            Temperature(gpu_c=90, max_c=85, slowdown_c=87, shutdown_c=92, memory_max_c=95),
            "temperature thresholds: maximum 85 °C, slowdown 87 °C, shutdown 92 °C, memory maximum 95 °C",
        ),
        (Temperature(gpu_c=90, slowdown_c=87, shutdown_c=0), "temperature thresholds: slowdown 87 °C"),
        (Temperature(margin_c=-1), ""),
    ],
)
def test_a_hot_gpu_is_told_with_its_thresholds(judge: Judge, heat: Temperature, thresholds: str) -> None:
    finding = judge.finding(
        nothing_slows_gpu_down, workstation(changed(GEFORCE, temperature=heat, throttle_reasons=()))
    )
    assert [line for line in finding.evidence if "thresholds" in line] == ([thresholds] if thresholds else [])


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
    [{}, {"limit_w": 365.0, "enforced_limit_w": 365.0}, {"limit_w": 320.0, "enforced_limit_w": 320.0}, {"limit_w": None}],
    ids=str,
)  # fmt: skip
def test_a_limit_near_the_default_passes(judge: Judge, changes: dict[str, Any]) -> None:
    assert "350 W by default" in judge.passes(power_is_not_limited, workstation(power(**changes)))


@pytest.mark.parametrize(
    ("changes", "evidence", "severity"),
    [
        ({"limit_w": 220.0, "enforced_limit_w": 220.0}, "set by `nvidia-smi -pl`", "info"),
        ({"enforced_limit_w": 220.0}, "enforced by the machine itself", "warning"),
    ],
)
def test_a_lowered_limit_is_told_with_both_figures(
    judge: Judge, changes: dict[str, Any], evidence: str, severity: str
) -> None:
    finding = judge.finding(power_is_not_limited, workstation(power(**changes)))
    assert (finding.cause, finding.severity) == ("gpu_thermal_or_power_throttling", severity)
    assert finding.message.endswith("may draw 220 W, but its default limit is 350 W")
    assert any(evidence in line for line in finding.evidence)
    assert finding.evidence[0].endswith("enforced 220 W, default 350 W, minimum 100 W, maximum 365 W")


def test_the_fix_of_a_lowered_limit_is_where_it_was_lowered(judge: Judge) -> None:
    by_hand = judge.finding(power_is_not_limited, workstation(power(limit_w=220.0, enforced_limit_w=220.0))).fix
    by_machine = judge.finding(power_is_not_limited, workstation(power(enforced_limit_w=220.0))).fix
    assert by_hand and by_machine
    assert by_hand.text == (
        "If this is not intentional, run `nvidia-smi -i 0 -pl 350` as root, and check the startup scripts for the command "
        "that lowers it."
    )
    assert by_machine.text == "Check the machine's management controller for a power cap, and check its power supplies."


def test_a_limit_below_the_boards_minimum_is_not_intended(judge: Judge) -> None:
    lowered = power(limit_w=220.0, enforced_limit_w=60.0)
    assert judge.finding(power_is_not_limited, workstation(lowered)).severity == "warning"


@pytest.mark.parametrize(("limit_w", "severity"), [(100.0, "info"), (99.0, "warning")])
def test_an_administrator_may_set_the_boards_minimum_itself(judge: Judge, limit_w: float, severity: str) -> None:
    lowered = power(limit_w=limit_w, enforced_limit_w=limit_w, min_limit_w=100.0)
    assert judge.finding(power_is_not_limited, workstation(lowered)).severity == severity


def test_the_bounds_of_the_limit_are_left_out_where_they_are_unknown(judge: Judge) -> None:
    lowered = power(limit_w=220.0, enforced_limit_w=220.0, min_limit_w=None, max_limit_w=None)
    finding = judge.finding(power_is_not_limited, workstation(lowered))
    assert finding.evidence[0] == "limit 220 W, enforced 220 W, default 350 W"


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
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", False),  # a desktop card of 300 W
        ("NVIDIA A100-SXM4-80GB", False),
        ("NVIDIA RTX A4000", False),
        ("GeForce GTX TITAN X", False),
    ],
)
def test_laptops_are_known_by_name(name: str, laptop: bool) -> None:
    assert is_of_laptop(nvml_gpu(name=name)) == laptop


def test_every_reason_that_slows_a_gpu_has_words() -> None:
    assert set(throttling._SLOWING) == set(SLOWING)
