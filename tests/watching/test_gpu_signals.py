"""What NVML says about all GPUs while a program runs: through the simulated driver's NVML."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest
from doctor_command import clean_environment, doctor_argv
from simulated import GPU, Simulate

from tfgpu_doctor.host import Host
from tfgpu_doctor.watching import gpu_signals as module
from tfgpu_doctor.watching.gpu_signals import GpuSignals
from tfgpu_doctor.watching.reading import GpuReading

pytestmark = pytest.mark.timed
LONG_S = 120.0
OWN = {"pid": 4711, "name": "python", "memory_bytes": 3 << 30}
OTHER = {"pid": 4712, "name": "jupyter", "memory_bytes": 1 << 30}
Watch = Callable[..., GpuSignals]


@pytest.fixture
def watch() -> Iterator[Watch]:
    """Starts to look, and stops at the end of the test."""
    started: list[GpuSignals] = []

    def start(variables: dict[str, str], own: set[int] | None = None, root: str = "/") -> GpuSignals:
        host = Host(root, environment={"PATH": os.environ["PATH"], **variables})
        started.append(GpuSignals(host, lambda: own or set()))
        started[-1].start()
        return started[-1]

    yield start
    for each in started:
        each.stop()


def latest(signals: GpuSignals) -> list[GpuReading]:
    """The first readings."""
    ends = time.monotonic() + LONG_S
    while not (found := signals.latest()) and not signals.trouble and time.monotonic() < ends:
        time.sleep(0.1)
    assert found, signals.trouble
    return found


def trouble(signals: GpuSignals) -> str:
    """The first trouble."""
    ends = time.monotonic() + LONG_S
    while not signals.trouble and time.monotonic() < ends:
        time.sleep(0.1)
    assert signals.latest() == []
    return signals.trouble


def test_every_gpu_is_told(simulate: Simulate, watch: Watch) -> None:
    gpu = {
        "clocks_mhz": {"sm": 1695, "max_sm": 2100}, "power_w": {"draw": 340.5}, "utilization_percent": 98,
        "temperature_c": {"gpu": 71}, "throttle_reasons": ["sw_power_cap"], "memory_used_bytes": 5 << 30,
    }  # fmt: skip
    signals = watch(simulate(gpu, {}))
    first, second = latest(signals)
    assert (first.index, second.index) == (0, 1)
    assert (first.name, first.utilization, first.used_bytes) == (GPU, 0.98, 5 << 30)
    assert (first.sm_mhz, first.max_sm_mhz, first.temperature_c, first.power_w) == (1695, 2100, 71, 340.5)
    assert first.reasons == ("sw_power_cap",)
    assert first.power_limit_w is not None
    assert first.uuid.startswith("GPU-")
    assert first.uuid != second.uuid
    assert first.total_bytes is not None
    assert first.total_bytes > 5 << 30
    assert (first.own_bytes, first.tenants) == (None, ())
    assert abs(first.at_s - time.monotonic()) < LONG_S
    assert signals.trouble == ""


def test_readings_are_renewed_until_it_is_stopped(simulate: Simulate, watch: Watch) -> None:
    signals = watch(simulate())
    first, ends = latest(signals)[0], time.monotonic() + LONG_S
    while (now := latest(signals)[0]).at_s == first.at_s and time.monotonic() < ends:
        time.sleep(0.1)
    assert now.at_s > first.at_s
    signals.stop()
    assert (signals.latest(), signals.trouble) == ([], "")
    signals.stop()


def test_what_the_program_holds_and_who_else_is_there(simulate: Simulate, watch: Watch) -> None:
    first, second, third = latest(
        watch(simulate({"processes": [OWN, OTHER]}, {"processes": [OTHER]}, {"processes": []}), {4711, 5})
    )
    assert (first.own_bytes, second.own_bytes, third.own_bytes) == (3 << 30, 0, 0)
    assert first.tenants == second.tenants == ((4712, "jupyter", 1 << 30),)
    assert third.tenants == ()


def test_numbers_of_another_namespace_say_nothing_about_the_program(
    simulate: Simulate, watch: Watch, tmp_path: pathlib.Path
) -> None:
    """In a container: the process may be the program itself, under the number that it has outside."""
    (reading,) = latest(watch(simulate({"processes": [OTHER]}), {os.getpid()}, str(tmp_path)))
    assert (reading.own_bytes, reading.tenants) == (None, ())


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has /proc")
def test_others_are_told_before_the_program_uses_a_gpu(simulate: Simulate, watch: Watch) -> None:
    (reading,) = latest(watch(simulate({"processes": [{**OTHER, "pid": os.getpid()}]}), {4711}))
    assert (reading.own_bytes, reading.tenants) == (None, ((os.getpid(), "jupyter", 1 << 30),))


def test_what_nvml_does_not_support_is_none(simulate: Simulate, watch: Watch) -> None:
    silent = {"throttle_reasons": None, "utilization_percent": None, "temperature_c": {"gpu": None}}
    (reading,) = latest(watch(simulate(silent)))
    assert (reading.reasons, reading.utilization, reading.temperature_c) == (None, None, None)


def test_a_machine_without_nvml_says_so(tmp_path: pathlib.Path, watch: Watch) -> None:
    signals = watch({"LD_LIBRARY_PATH": str(tmp_path)})
    assert "libnvidia-ml.so.1" in trouble(signals)
    signals.stop()
    assert "libnvidia-ml.so.1" in signals.trouble


def test_nvml_that_does_not_initialise_says_so(simulate: Simulate, watch: Watch) -> None:
    assert "mismatch" in trouble(watch(simulate(faults={"nvmlInit": 18}))).lower()


def test_a_gpu_that_does_not_answer_is_named(simulate: Simulate, watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SILENT_S", 4.0)
    signals = watch(simulate({}, {"faults": {"nvmlDeviceGetTemperature": "hang"}}))
    ends = time.monotonic() + LONG_S
    while not (said := trouble(signals)).endswith(": reading GPU 1") and time.monotonic() < ends:
        time.sleep(0.1)  # NVML was slow to start
    assert said.startswith("NVML has not answered for ")
    began = time.monotonic()
    signals.stop()
    assert time.monotonic() - began < LONG_S


def test_nvml_that_crashes_says_so(simulate: Simulate, watch: Watch) -> None:
    said = trouble(watch(simulate({"faults": {"nvmlDeviceGetTemperature": "crash"}})))
    assert said.startswith("the NVML query was killed by SIG")


def test_answers_of_another_shape_are_trouble_until_they_are_understood() -> None:
    signals = GpuSignals(Host(environment={}), set)
    assert (signals.latest(), signals.trouble) == ([], "")
    signals._hear({"samples": {"1.0": {"0": {"sm_mhz": "fast"}}}})
    signals._hear({"phase": "reading GPU 0"})
    assert "not understood" in signals.trouble
    signals._hear({"samples": {"2.0": {"0": {"sm_mhz": 900, "new": 1}}}})
    assert [(each.at_s, each.sm_mhz) for each in signals.latest()] == [(2.0, 900)]
    signals._hear({"samples": {"3.0": {}}})
    assert (signals.latest(), signals.trouble) == ([], "NVML reports no GPU")
    signals.stop()


def test_a_watched_run_says_what_the_gpus_did(simulate: Simulate, tmp_path: pathlib.Path) -> None:
    """Through the command: a GPU that works hot and slow is named, one that idles breaks a rule."""
    hot = {
        "clocks_mhz": {"sm": 600, "max_sm": 2100}, "utilization_percent": 97, "temperature_c": {"gpu": 93},
        "throttle_reasons": ["hw_thermal_slowdown"], "memory_used_bytes": 5 << 30,
    }  # fmt: skip
    variables = simulate(hot, {"utilization_percent": 0})
    done = subprocess.run(
        doctor_argv("watch", "--no-live", "--format", "json", "-o", "report", "--events", "events",
                    "--fail-if", "gpu_idle > 40 % for 3 s", "--", sys.executable, "-c", "import time; time.sleep(12)"),
        capture_output=True, text=True, check=False, cwd=tmp_path, env=clean_environment(**variables), timeout=LONG_S,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (18, ""), done.stderr
    report = json.loads((tmp_path / "report").read_text())
    first, second = report["gpus"]
    assert (first["utilization"], first["idle_share"], first["temperature_c"]) == (0.97, 0.0, 93)
    assert (second["utilization"], second["idle_share"]) == (0.0, 1.0)
    (cause,) = [each for each in report["machine"] if each["label"] == "gpu_slowed"]
    assert "600 of 2100 MHz, hw_thermal_slowdown, 93 °C" in cause["evidence"][0]
    assert report["rules"][0]["broken"] is True
    assert {"machine", "rule", "end"} <= {
        json.loads(line)["event"] for line in (tmp_path / "events").read_text().splitlines()
    }
