"""What is seen of the GPUs while comparisons are held: through the simulated driver's NVML."""

from __future__ import annotations

import os
import time

import pytest
from simulated import Simulate

from tfgpu_doctor.bench.telemetry import Telemetry
from tfgpu_doctor.host import Host
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
