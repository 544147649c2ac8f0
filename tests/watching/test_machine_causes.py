"""What outside of the program is called a cause, and what the picture from outside calls a change."""

from __future__ import annotations

from typing import Any

import made_watch
import msgspec
import pytest

from tfgpu_doctor.watching.change_detector import ChangeDetector
from tfgpu_doctor.watching.machine_causes import MachineCauses, explains
from tfgpu_doctor.watching.reading import GpuReading, Reading

USUAL = {
    "cpu": 1.8,
    "queued": 0.1,
    "cpus": 2.0,
    "others_cpu": 0.1,
    "throttled": 0.0,
    "io_stalled": 0.0,
    "memory_stalled": 0.0,
}


def reading(at_s: float, **more: Any) -> Reading:
    return Reading(at_s=at_s, **{**USUAL, **more})


def judged(count: int = 8, gpus: tuple[GpuReading, ...] = (), **more: Any) -> MachineCauses:
    causes = MachineCauses()
    for second in range(count):
        causes.add(reading(float(second), **more), gpus)
    return causes


HOT = GpuReading(
    at_s=0.0, index=1, name="NVIDIA A100", utilization=0.9, sm_mhz=600.0, max_sm_mhz=1410.0, temperature_c=91.0,
    reasons=("hw_thermal_slowdown",),
)  # fmt: skip


@pytest.mark.parametrize(
    ("more", "label", "words"),
    [
        ({"queued": 1.2, "others_cpu": 1.5, "cpu": 0.8}, "cpu_contention", "wait for 1.2 CPUs more than the 0.8 they get, of 2"),
        ({"throttled": 0.6, "cpus": 0.5}, "cpu_quota", "in 60% of the periods the group had used up its quota of 0.5 CPUs"),
        ({"io_stalled": 0.7, "blocked": 3, "read_bytes_per_s": 2e6}, "disk_slow", "it reads 2.0 MB/s"),
        ({"memory_stalled": 0.4, "memory_bytes": 1 << 30, "memory_limit_bytes": 1 << 30}, "memory_short", "holds 1.0 GiB of 1.0"),
        ({"gpus": (HOT,)}, "gpu_slowed", "GPU 1 NVIDIA A100: 600 of 1410 MHz, hw_thermal_slowdown, 91 °C"),
    ],
)  # fmt: skip
def test_a_cause_is_named_with_its_figures(more: dict[str, Any], label: str, words: str) -> None:
    causes = judged(**more)
    assert causes.active == [label]
    (found,) = causes.found()
    assert found.label == label
    assert found.seconds > 2
    assert words in found.evidence[0]
    assert found.fix


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"queued": 3.0, "others_cpu": 0.1},  # too many threads of its own
        {"queued": 0.1, "others_cpu": 1.9},  # others use what it does not need
        {"throttled": 0.1},
        {"io_stalled": 0.9, "blocked": 0},  # another program's reads
        {
            "queued": None,
            "others_cpu": None,
            "throttled": None,
            "io_stalled": None,
            "memory_stalled": None,
            "cpus": None,
        },
        {"gpus": (msgspec.structs.replace(HOT, utilization=0.1),)},
        {"gpus": (msgspec.structs.replace(HOT, reasons=("sw_power_cap",)),)},  # usual under load
        {"gpus": (msgspec.structs.replace(HOT, sm_mhz=1400.0),)},
        {"gpus": (msgspec.structs.replace(HOT, reasons=None, sm_mhz=None),)},
    ],
)
def test_no_alarm(more: dict[str, Any]) -> None:
    assert judged(**more).active == []
    assert judged(**more).found() == ()


def test_one_look_is_not_enough() -> None:
    assert judged(count=3, queued=2.0, others_cpu=2.0).active == []


def test_a_lost_gpu_comes_first() -> None:
    causes = judged(queued=1.2, others_cpu=1.5)
    causes.lose("GPU 0 NVIDIA A100", "NVML gives no value of it any more")
    assert [each.label for each in causes.found()] == ["gpu_lost", "cpu_contention"]


@pytest.mark.parametrize(
    ("label", "verdict", "share", "busy", "expected"),
    [
        ("cpu_contention", "input_serial_map", 0.9, {"queued": 0.5, "cpu": 1.0}, False),  # it waits in any case
        ("cpu_contention", "input_serial_map", 0.3, {"queued": 3.0, "cpu": 1.0}, True),
        ("cpu_contention", "input_cpu_bound", 0.9, {"queued": 0.5, "cpu": 1.0}, True),
        ("cpu_quota", "input_python", 0.9, {"throttled": 0.5}, False),
        ("cpu_quota", "input_python", 0.4, {"throttled": 0.9}, True),
        ("disk_slow", "input_slow_source", 0.9, {}, True),
        ("disk_slow", "eager", 0.9, {}, False),
        ("memory_short", "eager", 0.9, {}, True),
    ],
)
def test_whether_the_machine_explains_what_the_steps_wait_for(
    label: str, verdict: str, share: float, busy: dict[str, Any], expected: bool
) -> None:
    base = made_watch.input_bound()
    cause = made_watch.cause(verdict, share=share)
    report = made_watch.traced(msgspec.structs.replace(base, verdict=verdict, causes=(cause,)))
    assert explains(label, report, [reading(float(at), **busy) for at in range(10)]) is expected


def test_the_picture_changes_with_the_cpu_and_the_gpus() -> None:
    picture = ChangeDetector()
    for second in range(8):
        picture.add(reading(float(second)), [HOT])
    assert not picture.changed
    picture.recorded()
    picture.add(reading(9.0, cpu=1.7), [HOT])
    assert not picture.changed
    for second in range(3):
        picture.add(reading(10.0 + second), [msgspec.structs.replace(HOT, utilization=0.2)])
    assert picture.changed
