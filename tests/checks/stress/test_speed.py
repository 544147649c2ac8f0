"""LOD006, LOD007 and LOD009: clocks under load, speed against the model's peak, and how long it lasts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from stressed import SPEEDS, hung, left_alone, readings, speed, stress, stress_round, stressed_gpu, under_stress

from tfgpu_doctor.checks.stress.speed import as_fast_as_its_model, clocks_hold, speed_lasts
from tfgpu_doctor.model import Check
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.stress import StressedGpu, StressRound

if TYPE_CHECKING:
    from checks.conftest import Judge


def machine(*gpus: StressedGpu, **changes: object) -> Facts:
    return under_stress(stress(*gpus, **changes))


def with_readings(**changes: object) -> StressedGpu:
    return stressed_gpu(rounds=(stress_round(readings=readings(**changes)),))


def with_speeds(share: float, **changes: Any) -> StressedGpu:
    rows = tuple(speed(name, teraflops=value * share) for name, value in SPEEDS.items())
    return stressed_gpu(**{"rounds": (stress_round(speeds=rows),), **changes})


def test_a_power_limit_that_holds_the_clocks_a_little_down_is_normal(judge: Judge) -> None:
    told = judge.passes(clocks_hold, machine())
    assert "SM clock 1740 of 2100 MHz (83%) in 90 samples, lowest 1695 MHz" in told
    assert "at most 71 °C (slowdown at 95 °C)" in told
    assert "348 W of 350 W" in told
    assert "sw_power_cap in 97%" in told


def test_heat_that_costs_clocks_is_told_with_what_it_costs(judge: Judge) -> None:
    hot = {"sm_mhz": 1050.0, "temperature_c": 94.0, "reasons": {"sw_thermal_slowdown": 0.9}}
    found = judge.finding(clocks_hold, machine(with_readings(**hot)))
    assert "keeps 50% of its highest clock" in found.message
    assert "sw_thermal_slowdown in 90%" in found.message
    assert (found.cause, found.severity) == ("gpu_thermal_or_power_throttling", "warning")
    assert found.fix is not None
    assert "fans" in found.fix.text


def test_the_hardwares_own_slowdown_is_told_however_little_it_costs(judge: Judge) -> None:
    brake = {"sm_mhz": 2000.0, "reasons": {"hw_power_brake_slowdown": 0.4}}
    found = judge.finding(clocks_hold, machine(with_readings(**brake)))
    assert found.fix is not None
    assert "power supply" in found.fix.text


@pytest.mark.parametrize(
    "changes",
    [
        {"reasons": {"hw_thermal_slowdown": 0.02}},
        {"sm_mhz": 1900.0, "reasons": {"sw_thermal_slowdown": 0.8}},
        {"reasons": {"applications_clocks_setting": 1.0}},
        {"sm_mhz": 900.0, "reasons": {"sw_power_cap": 1.0}},
        {"reasons": {}},
    ],
    ids=["for a moment", "at no cost", "set by somebody", "a board of 70 W", "none"],
)
def test_what_costs_nothing_is_no_warning(judge: Judge, changes: dict[str, object]) -> None:
    assert judge.passes(clocks_hold, machine(with_readings(**changes)))


def test_a_quarter_of_the_clock_is_too_little_whatever_the_reason(judge: Judge) -> None:
    found = judge.finding(clocks_hold, machine(with_readings(sm_mhz=420.0, reasons={"sw_power_cap": 1.0})))
    assert "20%" in found.message
    assert found.confidence == "medium"


@pytest.mark.parametrize(
    "gpu",
    [
        stressed_gpu(rounds=(stress_round(readings=None),)),
        with_readings(sm_mhz=None),
        with_readings(utilization_percent=3.0, sm_mhz=210.0),
        with_readings(utilization_percent=0.0, sm_mhz=210.0),
        stressed_gpu(max_sm_mhz=None),
    ],
    ids=["no looks", "no clock", "looked between the products", "at rest", "no highest clock"],
)
def test_clocks_that_are_not_known_are_not_judged(judge: Judge, gpu: StressedGpu) -> None:
    assert "the clocks under load are unknown" in judge.skips(clocks_hold, machine(gpu))


def test_the_reason_why_nvml_told_nothing_is_given(judge: Judge) -> None:
    gpu = stressed_gpu(rounds=(stress_round(readings=None),))
    assert "libnvidia-ml" in judge.skips(clocks_hold, machine(gpu, sampling_error="libnvidia-ml.so.1 cannot be opened"))


CRASHED = Attempt(outcome="killed_by_signal", signal="SIGSEGV", phase="reading GPU 0")
ENDED = "the NVML query was killed by SIGSEGV during 'reading GPU 0'"


def test_a_sampling_that_ended_early_is_told(judge: Judge) -> None:
    assert judge.passes(clocks_hold, machine(sampling=CRASHED)).endswith(f"\n{ENDED}; later samples are missing")
    assert ENDED not in judge.passes(clocks_hold, machine(sampling=CRASHED, interrupted=True))
    assert ENDED not in judge.passes(clocks_hold, machine(sampling=None))


def test_a_sampling_that_ended_before_the_load_is_the_reason(judge: Judge) -> None:
    gpu = stressed_gpu(rounds=(stress_round(readings=None),))
    assert judge.skips(clocks_hold, machine(gpu, sampling=CRASHED)).endswith(f": {ENDED}")


def test_a_lowest_clock_that_is_unknown_is_left_out(judge: Judge) -> None:
    assert "lowest" not in judge.passes(clocks_hold, machine(with_readings(lowest_sm_mhz=None)))


def test_a_gpu_as_fast_as_its_model(judge: Judge) -> None:
    told = judge.passes(as_fast_as_its_model, machine())
    assert "float32 24.1 of 35.6 (68%)" in told
    assert "bfloat16 64.3 of 71 (91%) TFLOP/s, matrices of 8192 x 8192" in told


def test_a_gpu_far_below_its_peak_is_told_with_its_clocks(judge: Judge) -> None:
    found = judge.finding(as_fast_as_its_model, machine(with_speeds(0.25)))
    assert "multiplies at 17% of its peak in float32" in found.message
    assert found.severity == "warning"
    assert found.cause == "undetermined"
    assert any("SM clock" in line for line in found.evidence)
    assert found.evidence[0].endswith("TFLOP/s, matrices of 8192 x 8192")


def test_matrices_of_several_sizes_are_all_told(judge: Judge) -> None:
    rows = (speed("float32", side=4096), speed("float16"), speed("tf32", side=1024, teraflops=None, error="no"))
    told = judge.passes(as_fast_as_its_model, machine(stressed_gpu(rounds=(stress_round(speeds=rows),))))
    assert told.endswith("TFLOP/s, matrices of 4096 x 4096 and 8192 x 8192; tf32 failed: no")
    unknown = stress_round(speeds=(speed("float32", side=0),))
    assert "matrices" not in judge.passes(as_fast_as_its_model, machine(stressed_gpu(rounds=(unknown,))))


def test_heat_explains_a_slow_gpu(judge: Judge) -> None:
    hot = readings(sm_mhz=500.0, reasons={"hw_thermal_slowdown": 0.9})
    rows = tuple(speed(name, teraflops=value / 4) for name, value in SPEEDS.items())
    gpu = stressed_gpu(rounds=(stress_round(speeds=rows, readings=hot),))
    assert judge.finding(as_fast_as_its_model, machine(gpu)).cause == "gpu_thermal_or_power_throttling"


@pytest.mark.parametrize("changes", [{"busy": ("python (4711) computes on it",)}, {"mig": True}], ids=["busy", "mig"])
def test_a_shared_gpu_may_be_slow(judge: Judge, changes: dict[str, object]) -> None:
    found = judge.finding(as_fast_as_its_model, machine(with_speeds(0.25, **changes)))
    assert found.severity == "info"


def test_a_slice_is_measured_against_its_part_of_the_peak(judge: Judge) -> None:
    part = with_speeds(0.14, name="NVIDIA GeForce RTX 3090 MIG 1g.3gb", multiprocessors=12, mig=True)
    assert "float32 3.37 of 5.21 (65%)" in judge.passes(as_fast_as_its_model, machine(part))


def test_a_model_that_the_table_does_not_know_gives_its_figures(judge: Judge) -> None:
    told = judge.skips(as_fast_as_its_model, machine(with_speeds(0.01, name="NVIDIA Tomorrow 1")))
    assert "0.241" in told
    assert "the peak values of this model are unknown" in told


@pytest.mark.parametrize(
    "rows",
    [(), (speed("float32", iterations=0),), (speed("float32", finite=False),), (speed("tf32", teraflops=None, error="no"),)],
    ids=["none", "no product", "no number", "failed"],
)  # fmt: skip
def test_a_speed_that_was_not_measured_is_no_pass(judge: Judge, rows: tuple[object, ...]) -> None:
    gpu = stressed_gpu(rounds=(stress_round(speeds=rows),))
    assert judge.skips(as_fast_as_its_model, machine(gpu))


def soak(*rounds: StressRound) -> Facts:
    return machine(stressed_gpu(rounds=rounds), level="soak")


def test_a_gpu_that_stays_as_fast(judge: Judge) -> None:
    told = judge.passes(speed_lasts, soak(stress_round(began_s=10.0), stress_round(began_s=550.0)))
    assert "2 rounds in 10 minutes" in told
    assert "temperature_c 71 → 71" in told


def test_a_short_soak_is_told_in_seconds(judge: Judge) -> None:
    told = judge.passes(speed_lasts, soak(stress_round(began_s=10.0), stress_round(began_s=30.0)))
    assert re.search(r"2 rounds in \d\d seconds", told)


def test_a_gpu_that_tires(judge: Judge) -> None:
    tired = tuple(speed(name, teraflops=value * 0.7) for name, value in SPEEDS.items())
    hot = readings(reasons={"hw_thermal_slowdown": 0.5}, temperature_c=95.0)
    found = judge.finding(speed_lasts, soak(stress_round(), stress_round(began_s=550.0, speeds=tired, readings=hot)))
    assert "30% slower" in found.message
    assert (found.cause, found.confidence) == ("gpu_thermal_or_power_throttling", "high")


def test_a_round_that_was_cut_short_is_not_compared(judge: Judge) -> None:
    assert "before a second round" in judge.skips(speed_lasts, soak(stress_round(), stress_round(memory=())))


def test_a_precision_that_fails_in_later_rounds_takes_no_others_along(judge: Judge) -> None:
    later = (*map(speed, ("float32", "tf32")), speed("float16", teraflops=None, error="OOM"), speed("bfloat16"))
    told = judge.passes(speed_lasts, soak(stress_round(began_s=10.0), stress_round(began_s=550.0, speeds=later)))
    assert "tf32" in told
    assert ", float16" not in told


@pytest.mark.parametrize("check", [clocks_hold, as_fast_as_its_model, speed_lasts])
def test_one_gpu_is_no_evidence_for_another(judge: Judge, check: Check) -> None:
    rounds = (stress_round(), stress_round(began_s=550.0))
    facts = machine(stressed_gpu(0, rounds=rounds), hung(1), level="soak")
    told = judge.skips(check, facts)
    assert "GPU 1 (NVIDIA GeForce RTX 3090)" in told
    assert "GPU 0" not in told
    assert judge.passes(check, machine(stressed_gpu(0, rounds=rounds), stressed_gpu(1, rounds=rounds), level="soak"))


def test_a_slow_gpu_that_is_shared_is_no_evidence_for_another(judge: Judge) -> None:
    shared = with_speeds(0.25, busy=("python (4711) computes on it",))
    other = stressed_gpu(1, rounds=(), attempt=hung(1).attempt)
    assert "GPU 1 " in judge.skips(as_fast_as_its_model, machine(shared, other))


def test_only_a_soak_lasts_long_enough(judge: Judge) -> None:
    assert "--level soak" in judge.skips(speed_lasts, machine())


def test_no_load_says_why(judge: Judge) -> None:
    for check in (clocks_hold, as_fast_as_its_model):
        assert "computes on it" in judge.skips(check, machine(left_alone(0)))
