"""What is seen of the GPUs while comparisons are held: through the simulated driver's NVML."""

from __future__ import annotations

import os
import time

import msgspec
import pytest
from healthy import cuda_gpu, healthy, nvml_gpu
from simulated import Simulate

from tfgpu_doctor.bench.telemetry import Telemetry
from tfgpu_doctor.collect.probes.stress_samples import Described, Look, Sampling
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.attempt import Attempt
from tfgpu_doctor.model.facts.bench import Bench, Comparison, Side
from tfgpu_doctor.model.facts.python import TensorFlowGpu


def machine(gpus: int = 1, order: tuple[int, ...] = ()) -> Facts:
    """A machine with that many GPUs, or where TensorFlow lists those that NVML numbers so."""
    facts = healthy()
    assert facts.nvml
    assert facts.cuda_driver
    assert facts.runtime
    listed = order or tuple(range(gpus))
    names = tuple(TensorFlowGpu(f"/physical_device:GPU:{place}") for place, _ in enumerate(listed))
    return msgspec.structs.replace(
        facts,
        nvml=msgspec.structs.replace(facts.nvml, gpus=tuple(map(nvml_gpu, range(gpus)))),
        cuda_driver=msgspec.structs.replace(facts.cuda_driver, gpus=tuple(map(cuda_gpu, listed))),
        runtime=msgspec.structs.replace(facts.runtime, gpus=names),
    )


def held(started: float, took_s: float) -> Bench:
    """A comparison that the second of two GPUs takes part in."""
    sides = Side(name="two GPUs", device="GPU:0", also=("GPU:1",)), Side(name="one", device="GPU:0")
    return Bench(
        comparisons=(
            Comparison(
                suite="s", name="n", verdict="faster", on_gpu=True, started=started, took_s=took_s, device="GPU:0",
                candidate=sides[0], baseline=sides[1],
            ),
        )
    )  # fmt: skip


@pytest.mark.slow
def test_each_comparison_gets_what_was_seen_while_it_was_held(simulate: Simulate) -> None:
    variables = simulate({"count": 2, "temperature_c": {"gpu": 88}, "throttle_reasons": ["sw_thermal_slowdown"]})
    for seconds in (3, 20, 100):  # as long as this machine takes to start Python and NVML
        host = Host(environment={"PATH": os.environ["PATH"], **variables})
        before = time.time()
        with Telemetry(host, machine(2)) as telemetry:
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
    with Telemetry(host, machine(0)) as telemetry:
        pass
    bench = held(time.time(), 1.0)
    assert telemetry.added_to(bench) is bench


def test_an_nvml_that_is_missing_is_said() -> None:
    for seconds in (3, 20, 100):  # as above
        host = Host(environment={"PATH": os.environ["PATH"]})
        with Telemetry(host, machine()) as telemetry:
            time.sleep(seconds)
        told = telemetry.added_to(held(time.time(), 1.0))
        why = told.skipped.get("clocks and heat meanwhile", "")
        if not why or "libnvidia-ml.so.1" in why:  # else it says that NVML did not finish
            break
    if os.path.exists("/proc/driver/nvidia"):
        assert told.skipped == {}
    else:
        assert "libnvidia-ml.so.1" in why


def described(gpus: int) -> dict[str, Described]:
    return {str(number): Described(pci_address=nvml_gpu(number).pci_address) for number in range(gpus)}


def sampled(*clocks: float, on_gpu: bool = True, reasons: tuple[str, ...] = ()) -> tuple[Comparison, dict[str, str]]:
    """A comparison of one second in each of two processes, the second with these clocks, and the conditions."""
    clock = time.time() - time.monotonic()
    looks = {f"{100 + place / 4}": {"0": Look(sm_mhz=1400.0)} for place in range(4)}
    looks |= {f"{200 + place / 4}": {"0": Look(sm_mhz=mhz, reasons=reasons)} for place, mhz in enumerate(clocks)}
    telemetry = Telemetry(Host(), machine())
    telemetry._sampling = Sampling(attempt=Attempt(outcome="answered"), gpus=described(1), samples=looks)
    spans = ((99.9 + clock, 1.0), (199.9 + clock, 1.0))
    device = "GPU:0" if on_gpu else "CPU:0"
    measured = Comparison(
        suite="s", name="n", verdict="slower", reason="0.8", on_gpu=on_gpu, spans=spans, device=device
    )
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


@pytest.mark.parametrize(
    ("order", "devices", "boards"),
    [
        ((0, 1), ("GPU:0", "CPU:0"), {"0"}),
        ((1, 0), ("GPU:0", "CPU:0"), {"1"}),  # as CUDA_VISIBLE_DEVICES=1,0 has it
        ((1,), ("GPU:0", "GPU:0"), {"1"}),
        ((0, 1), ("CPU:0", "GPU:1"), {"1"}),
        ((0, 1), ("CPU:0", "CPU:0"), set()),
    ],
)
def test_a_gpu_that_took_no_part_explains_nothing(
    order: tuple[int, ...], devices: tuple[str, str], boards: set[str]
) -> None:
    found = with_two_hot_boards(machine(2, order), devices)
    assert set(found.readings) == boards
    assert {board for board in "01" if f"the SM clock of GPU {board} fell" in found.reason} == boards


def test_where_it_is_not_known_which_board_took_part_none_explains_anything() -> None:
    facts = machine(2)
    assert facts.runtime
    fewer = msgspec.structs.replace(facts.runtime, gpus=facts.runtime.gpus[:1])
    without = msgspec.structs.replace(facts, cuda_driver=None)
    for each in (without, msgspec.structs.replace(facts, runtime=fewer)):
        found = with_two_hot_boards(each, ("GPU:0", "CPU:0"))
        assert (found.readings, found.reason) == ({}, "0.8")


def with_two_hot_boards(facts: Facts, devices: tuple[str, str]) -> Comparison:
    """A comparison of two sides on these devices while the clocks of both boards of the machine fall."""
    clock = time.time() - time.monotonic()
    looks = {
        f"{100 + place / 4}": {board: Look(sm_mhz=mhz, reasons=("hw_thermal_slowdown",)) for board in "01"}
        for place, mhz in enumerate((1900.0, 1900.0, 1500.0, 1500.0))
    }
    telemetry = Telemetry(Host(), facts)
    telemetry._sampling = Sampling(attempt=Attempt(outcome="answered"), gpus=described(2), samples=looks)
    sides = [Side(name=device, device=device) for device in devices]
    measured = Comparison(
        suite="s", name="n", verdict="slower", reason="0.8", on_gpu="GPU" in "".join(devices), device=devices[0],
        candidate=sides[0], baseline=sides[1], spans=((99.9 + clock, 1.0),),
    )  # fmt: skip
    return telemetry.added_to(Bench(comparisons=(measured,))).comparisons[0]
