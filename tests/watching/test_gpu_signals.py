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
from tfgpu_doctor.watching.beside import RULE_NOT_JUDGED
from tfgpu_doctor.watching.gpu_signals import GpuSignals
from tfgpu_doctor.watching.reading import GpuReading

pytestmark = pytest.mark.timed
LONG_S = 120.0
LATE = "NVML has not answered for "
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


def trouble_now(signals: GpuSignals) -> str:
    """The trouble; none while NVML is only late, as on a busy machine."""
    said = signals.trouble
    return "" if said.startswith(LATE) else said


def latest(signals: GpuSignals) -> list[GpuReading]:
    """The first readings."""
    ends = time.monotonic() + LONG_S
    while not (found := signals.latest()) and not trouble_now(signals) and time.monotonic() < ends:
        time.sleep(0.1)
    assert found, signals.trouble
    return found


def trouble(signals: GpuSignals) -> str:
    """The first trouble."""
    ends = time.monotonic() + LONG_S
    while not trouble_now(signals) and time.monotonic() < ends:
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


@pytest.fixture
def with_variable() -> Iterator[Callable[[str | None], int]]:
    """Starts a process with CUDA_VISIBLE_DEVICES, and gives its number."""
    started: list[subprocess.Popen[bytes]] = []

    def start(value: str | None) -> int:
        variables = clean_environment() if value is None else clean_environment(CUDA_VISIBLE_DEVICES=value)
        variables.pop("CUDA_VISIBLE_DEVICES", None) if value is None else None
        code = "import time; print(flush=True); time.sleep(600)"
        started.append(subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=variables))
        assert started[-1].stdout is not None
        started[-1].stdout.readline()
        return started[-1].pid

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has /proc")
@pytest.mark.parametrize(
    ("value", "visible"),
    [
        ("1", [False, True]), ("1,0", [True, True]), ("", [False, False]), ("-1", [False, False]), ("0,-1,1", [True, False]),
        (None, [None, None]), ("MIG-0123", [None, None]), ("7", [False, False]),
    ],
)  # fmt: skip
def test_where_nvml_names_no_process_the_variable_tells_which_gpus_are_the_programs(
    simulate: Simulate, watch: Watch, with_variable: Callable[[str | None], int], value: str | None, visible: list[bool]
) -> None:
    readings = latest(watch(simulate({}, {}), {with_variable(value)}))
    assert [each.visible for each in readings] == visible
    assert [each.own_bytes for each in readings] == [None, None]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has /proc")
def test_a_launcher_without_the_variable_does_not_hide_that_of_its_child(
    simulate: Simulate, watch: Watch, with_variable: Callable[[str | None], int]
) -> None:
    own = {with_variable(None), with_variable("0")}
    assert [each.visible for each in latest(watch(simulate({}, {}), own))] == [True, False]
    own = {with_variable(None), with_variable("-1")}  # a worker that reads data
    assert [each.visible for each in latest(watch(simulate({}, {}), own))] == [None, None]


def test_a_uuid_in_the_variable_names_its_gpu(
    simulate: Simulate, watch: Watch, with_variable: Callable[[str | None], int]
) -> None:
    uuid = latest(watch(simulate({}, {})))[1].uuid
    assert [each.visible for each in latest(watch(simulate({}, {}), {with_variable(uuid[:14])}))] == [False, True]


def test_how_much_of_the_gpu_another_process_uses_is_told(simulate: Simulate, watch: Watch) -> None:
    processes = [{**OWN, "utilization_percent": 55}, {**OTHER, "utilization_percent": 40}]
    first, second = latest(watch(simulate({"processes": processes}, {"processes": [OWN, OTHER]}), {4711}))
    assert (first.tenants_utilization, second.tenants_utilization) == ({4712: 0.4}, None)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has /proc")
def test_what_cpu_another_process_on_the_gpu_uses_is_told(simulate: Simulate, watch: Watch) -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        signals = watch(simulate({"processes": [OWN, {**OTHER, "pid": busy.pid}]}), {4711})
        assert latest(signals)[0].tenants_cpu is None
        ends = time.monotonic() + LONG_S
        while (latest(signals)[0].tenants_cpu or {}).get(busy.pid, 0.0) < 0.1 and time.monotonic() < ends:
            time.sleep(1.0)
        busy.kill()
    assert time.monotonic() < ends


@pytest.mark.slow
def test_a_slow_gpu_that_the_program_cannot_see_is_none_of_its_causes(
    simulate: Simulate, tmp_path: pathlib.Path
) -> None:
    hot = {
        "clocks_mhz": {"sm": 600, "max_sm": 2100}, "utilization_percent": 97, "throttle_reasons": ["hw_thermal_slowdown"],
    }  # fmt: skip
    variables = {**simulate(hot, {"utilization_percent": 0}), "CUDA_VISIBLE_DEVICES": "1"}
    for seconds in (8, 60):
        done = subprocess.run(
            doctor_argv("watch", "--no-live", "--format", "json", "-o", "report", "--fail-if", "gpu_util > 1 % for 3 s",
                        "--", sys.executable, "-c", f"import time; time.sleep({seconds})"),
            capture_output=True, text=True, check=False, cwd=tmp_path, env=clean_environment(**variables), timeout=LONG_S,
        )  # fmt: skip
        if done.returncode != RULE_NOT_JUDGED:  # NVML was slow to start
            break
    report = json.loads((tmp_path / "report").read_text())
    assert done.returncode == 0, (done.stderr, report["rules"])
    assert [each for each in report["machine"] if each["label"] == "gpu_slowed"] == []
    assert len(report["gpus"]) == 2


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
    while not (said := signals.trouble).endswith(": reading GPU 1") and time.monotonic() < ends:
        time.sleep(0.1)  # NVML was slow to start
    assert said.startswith(LATE)
    assert said.endswith(": reading GPU 1")
    assert signals.latest() == []
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
    for seconds in (12, 60):
        (tmp_path / "events").unlink(missing_ok=True)
        done = subprocess.run(
            doctor_argv("watch", "--no-live", "--format", "json", "-o", "report", "--events", "events", "--fail-if",
                        "gpu_idle > 40 % for 3 s", "--", sys.executable, "-c", f"import time; time.sleep({seconds})"),
            capture_output=True, text=True, check=False, cwd=tmp_path, env=clean_environment(**variables), timeout=LONG_S,
        )  # fmt: skip
        if done.returncode != RULE_NOT_JUDGED:  # NVML was slow to start
            break
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
