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


MINE = msgspec.structs.replace(HOT, own_bytes=3 << 30, utilization=0.97, reasons=())
BOTH = msgspec.structs.replace(MINE, tenants=((4712, "jupyter", 1 << 30),), tenants_utilization={4712: 0.4})


@pytest.mark.parametrize(
    ("more", "label", "words"),
    [
        ({"queued": 1.2, "others_cpu": 1.5, "cpu": 0.8}, "cpu_contention", "wait for 1.2 CPUs more than the 0.8 they get, of 2"),
        ({"throttled": 0.6, "cpus": 0.5}, "cpu_quota", "in 60% of the periods the group had used up its quota of 0.5 CPUs"),
        ({"io_stalled": 0.7, "blocked": 3, "read_bytes_per_s": 2e6}, "disk_slow", "it reads 2.0 MB/s"),
        ({"memory_stalled": 0.4, "memory_bytes": 1 << 30, "memory_limit_bytes": 1 << 30}, "memory_short", "holds 1.0 GiB of 1.0"),
        ({"gpus": (HOT,)}, "gpu_slowed", "GPU 1 NVIDIA A100: 600 of 1410 MHz, hw_thermal_slowdown, 91 °C"),
        ({"gpus": (msgspec.structs.replace(HOT, own_bytes=1 << 30),)}, "gpu_slowed", "GPU 1 NVIDIA A100"),
        ({"gpus": (BOTH,)}, "other_tenant", "GPU 1 NVIDIA A100: kernels of jupyter (4712) run 40% of the time"),
        (
            {"gpus": (msgspec.structs.replace(BOTH, tenants_utilization=None, tenants_cpu={4712: 0.9}),)}, "other_tenant",
            "used 97% of the time, and jupyter (4712), which holds 1.0 GiB there, uses 0.9 CPUs meanwhile",
        ),
        ({"queued": None, "cpu_stalled": 0.8, "others_cpu": 1.5}, "cpu_contention", "for 80% of the time"),
        (
            {"queued": 3.0, "others_cpu": 60.0, "cpu": 1.0, "cpus": 4.0, "allowed_cpus": 64}, "cpu_contention",
            "of 4; other processes use 60.0 of the 64 CPUs that it may run on",
        ),
        (  # throttled threads wait, too, and stall the group
            {"queued": 3.0, "others_cpu": 60.0, "cpu": 4.0, "cpus": 4.0, "allowed_cpus": 64, "throttled": 0.6}, "cpu_quota",
            "in 60% of the periods the group had used up its quota of 4 CPUs",
        ),
        (
            {"queued": None, "cpu_stalled": 0.9, "others_cpu": 1.5, "throttled": 0.6}, "cpu_quota",
            "in 60% of the periods the group had used up its quota of 2 CPUs",
        ),
        (
            {"memory_stalled": 0.4, "major_faults_per_s": 250.0, "memory_events": {"max": 9, "oom_kill": 0}}, "memory_short",
            "250 pages a second are read back from a disk",
        ),
        (
            {"io_stalled": 0.7, "blocked": 3, "read_bytes_per_s": 2e6, "called_bytes_per_s": 5e7, "written_bytes_per_s": 9e6},
            "disk_slow", "it reads 2.0 MB/s of the 50.0 that it asks for, writes 9.0 MB/s",
        ),
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
        # with a quota: CPUs are free, or it was used up now and then
        {"queued": 3.0, "others_cpu": 30.0, "cpu": 4.0, "cpus": 4.0, "allowed_cpus": 64},
        {"queued": None, "cpu_stalled": 0.8, "others_cpu": 30.0, "cpu": 4.0, "cpus": 4.0, "allowed_cpus": 64},
        {"queued": 3.0, "others_cpu": 60.0, "cpu": 4.0, "cpus": 4.0, "allowed_cpus": 64, "throttled": 0.1},
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
        {"gpus": (msgspec.structs.replace(HOT, own_bytes=0),)},  # somebody else's
        {"gpus": (msgspec.structs.replace(HOT, visible=False),)},  # a container: NVML names nobody
        {
            "gpus": (msgspec.structs.replace(HOT, tenants=BOTH.tenants),)
        },  # nobody knows of the program, another is there
        {"gpus": (msgspec.structs.replace(BOTH, own_bytes=0),)},
        {"gpus": (msgspec.structs.replace(BOTH, tenants_utilization={4712: 0.02}),)},
        {"gpus": (msgspec.structs.replace(BOTH, utilization=0.3),)},
        {"gpus": (msgspec.structs.replace(BOTH, tenants_utilization=None),)},  # a notebook that only holds memory
        {"gpus": (msgspec.structs.replace(BOTH, tenants_utilization=None, tenants_cpu={4712: 0.01}),)},
        {"queued": None, "cpu_stalled": 0.8, "others_cpu": 0.1},
        {"memory_events": {"max": 9, "high": 3}},  # the page cache filled it: usual
    ],
)
def test_no_alarm(more: dict[str, Any]) -> None:
    assert judged(**more).active == []
    assert judged(**more).found() == ()


def test_a_process_that_the_kernel_killed_for_memory_is_told() -> None:
    causes = MachineCauses()
    for second in range(8):
        causes.add(reading(float(second), memory_events={"max": 40, "oom_kill": int(second > 5)}), ())
    (found,) = causes.found()
    assert found.label == "memory_short"
    assert "the kernel killed 1 process of the group for memory; it met its limit 40 times" in found.evidence[0]


def test_two_processes_on_a_gpu_for_a_moment_are_no_tenants() -> None:
    causes = MachineCauses()
    for second in range(8):
        causes.add(reading(float(second)), [BOTH if second in (3, 4) else MINE])
    assert causes.found() == ()


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
        ("cpu_contention", "input_serial_map", 0.3, {"queued": 3.0, "others_cpu": 3.0, "cpu": 1.0}, True),
        (
            "cpu_contention",
            "input_serial_map",
            0.8,
            {"queued": 30.0, "others_cpu": 0.6, "cpu": 1.0},
            False,
        ),  # for its own threads
        ("cpu_contention", "input_serial_map", 0.3, {"queued": 3.0, "others_cpu": None, "cpu": 1.0}, True),
        ("cpu_contention", "input_cpu_bound", 0.9, {"queued": 0.5, "cpu": 1.0}, True),
        ("cpu_quota", "input_python", 0.9, {"throttled": 0.5}, False),
        ("cpu_quota", "input_python", 0.4, {"throttled": 0.9}, True),
        ("disk_slow", "input_slow_source", 0.9, {}, True),
        ("disk_slow", "eager", 0.9, {}, False),
        ("memory_short", "eager", 0.9, {}, True),
        ("gpu_slowed", "input_python", 0.9, {}, False),
        ("other_tenant", "input_python", 0.9, {}, False),
        ("other_tenant", "launch_bound", 0.9, {}, True),
        ("memory_growth", "launch_bound", 0.9, {}, False),
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


def test_what_happens_on_the_gpus_of_others_is_no_change_of_the_picture() -> None:
    mine = msgspec.structs.replace(HOT, own_bytes=1 << 30)
    picture = ChangeDetector()
    for second in range(8):
        picture.add(reading(float(second)), [mine, msgspec.structs.replace(HOT, index=0, own_bytes=0)])
    picture.recorded()
    for second in range(3):
        picture.add(reading(10.0 + second), [mine, msgspec.structs.replace(HOT, index=0, own_bytes=0, utilization=0.0)])
    assert not picture.changed


def test_two_gpus_that_are_slow_do_not_double_the_time() -> None:
    (found,) = judged(gpus=(HOT, msgspec.structs.replace(HOT, index=2))).found()
    assert found.seconds == 7.0
