"""What is seen of the GPUs while comparisons are held: through the simulated driver's NVML."""

from __future__ import annotations

import os
import time

import pytest
from simulated import Simulate

from tfgpu_doctor.bench.telemetry import Telemetry
from tfgpu_doctor.collect.probes.stress_samples import Described, Look, Sampling
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.bench import Bench, Comparison


def held(started: float, took_s: float) -> Bench:
    return Bench(
        comparisons=(Comparison(suite="s", name="n", verdict="faster", on_gpu=True, started=started, took_s=took_s),)
    )


@pytest.mark.slow
def test_each_comparison_gets_what_was_seen_while_it_was_held(simulate: Simulate) -> None:
    variables = simulate({"count": 2, "temperature_c": {"gpu": 88}, "throttle_reasons": ["sw_thermal_slowdown"]})
    for seconds in (3, 20, 100):  # as long as this machine takes to start Python and NVML
        host = Host(environment={"PATH": os.environ["PATH"], **variables})
        before = time.time()
        with Telemetry(host, gpus=True) as telemetry:
            time.sleep(seconds)
        during = telemetry.added_to(held(before, 200.0))
        if not during.skipped:
            break
    assert during.skipped == {}
    (comparison,) = during.comparisons
    assert set(comparison.readings) == {"0", "1"}
    assert comparison.readings["0"].samples >= 1
    assert comparison.readings["0"].temperature_c == 88
    assert comparison.readings["1"].reasons == {"sw_thermal_slowdown": 1.0}
    (earlier,) = telemetry.added_to(held(before - 100, 10.0)).comparisons
    assert earlier.readings == {}


def test_without_a_gpu_nothing_is_asked() -> None:
    host = Host()
    with Telemetry(host, gpus=False) as telemetry:
        pass
    bench = held(time.time(), 1.0)
    assert telemetry.added_to(bench) is bench


def test_an_nvml_that_is_missing_is_said() -> None:
    host = Host(environment={"PATH": os.environ["PATH"]})
    with Telemetry(host, gpus=True) as telemetry:
        time.sleep(3)
    told = telemetry.added_to(held(time.time(), 1.0))
    if os.path.exists("/proc/driver/nvidia"):
        assert told.skipped == {}
    else:
        assert "libnvidia-ml.so.1" in told.skipped["clocks and heat meanwhile"]


def sampled(*clocks: float, on_gpu: bool = True, reasons: tuple[str, ...] = ()) -> tuple[Comparison, dict[str, str]]:
    """A comparison of one second in each of two processes, the second with these clocks, and the conditions."""
    clock = time.time() - time.monotonic()
    looks = {f"{100 + place / 4}": {"0": Look(sm_mhz=1400.0)} for place in range(4)}
    looks |= {f"{200 + place / 4}": {"0": Look(sm_mhz=mhz, reasons=reasons)} for place, mhz in enumerate(clocks)}
    telemetry = Telemetry(Host(), gpus=True)
    telemetry._sampling = Sampling(attempt=Attempt(outcome="answered"), gpus={"0": Described()}, samples=looks)
    spans = ((99.9 + clock, 1.0), (199.9 + clock, 1.0))
    measured = Comparison(suite="s", name="n", verdict="slower", reason="0.8", on_gpu=on_gpu, spans=spans)
    bench = telemetry.added_to(Bench(comparisons=(measured,)))
    return bench.comparisons[0], telemetry.conditions_of(bench)


def test_a_boost_that_ends_while_it_is_measured_is_told() -> None:
    found, _ = sampled(1900, 1900, 1600, 1500)
    assert found.reason.startswith("0.8; the SM clock of GPU 0 fell from 1900 to 1550 MHz during the measurement")


@pytest.mark.parametrize("clocks", [(1400, 1395, 1410, 1380), (1400,), (), (1400, 1500, 1600, 1700)])
def test_a_steady_clock_is_not_told(clocks: tuple[float, ...]) -> None:
    assert sampled(*clocks)[0].reason == "0.8"


def test_a_gpu_without_work_lowers_its_clock() -> None:
    assert sampled(1900, 1900, 300, 300, reasons=("gpu_idle",))[0].reason == "0.8"


def test_clocks_do_not_matter_to_what_runs_on_the_cpu() -> None:
    assert sampled(1900, 1900, 1600, 1500, on_gpu=False)[0].reason == "0.8"


def test_clocks_that_a_setting_limits_are_a_condition() -> None:
    assert sampled(1400, 1400)[1] == {"locked clocks of GPU 0": "off"}
    assert sampled(1400, 1400, reasons=("applications_clocks_setting",))[1] == {"locked clocks of GPU 0": "on"}
