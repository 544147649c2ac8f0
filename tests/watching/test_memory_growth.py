"""Memory that grows until there is none left, and memory that only fills: series, and real programs."""

from __future__ import annotations

import math
import random
import subprocess
import sys
import time
from collections.abc import Callable

import msgspec
import pytest

from tfgpu_doctor.host import Host
from tfgpu_doctor.watching.machine_causes import MachineCauses
from tfgpu_doctor.watching.memory_growth import GrowthWatch
from tfgpu_doctor.watching.program_signals import ProgramSignals
from tfgpu_doctor.watching.reading import GpuReading, Reading

MIB, GIB = 1 << 20, 1 << 30
MINUTE = 60.0
SOURCE = random.Random(7)


def started(grown: Callable[[float], float]) -> Callable[[float], float]:
    """A program that needs 20 s to import TensorFlow and then holds 2 GiB, and what it does besides."""
    return lambda at_s: min(at_s / 20, 1.0) * 2 * GIB + grown(at_s)


def noisy(grown: Callable[[float], float], spread: float) -> Callable[[float], float]:
    return lambda at_s: grown(at_s) + SOURCE.gauss(0.0, spread)


def watched(held: Callable[[float], float], minutes: float, limit: int = 8 * GIB) -> MachineCauses:
    """What is said of a program that holds so much at each second."""
    causes = MachineCauses()
    for second in range(int(minutes * MINUTE)):
        reading = Reading(at_s=float(second), memory_bytes=int(held(float(second))), memory_limit_bytes=limit)
        causes.add(reading, ())
    return causes


LEAK = started(lambda at_s: at_s * 100 * MIB / MINUTE)


@pytest.mark.parametrize(
    "held",
    [LEAK, noisy(LEAK, 30 * MIB), started(lambda at_s: at_s * 20 * MIB / MINUTE + 40 * MIB * math.sin(at_s / 3))],
)
def test_a_leak_is_named_with_its_rate_and_its_end(held: Callable[[float], float]) -> None:
    (found,) = watched(held, 75).found()
    assert found.label == "memory_growth"
    assert "MiB a minute" in found.evidence[0]
    assert "at this rate it reaches the limit of 8.0 GiB in" in found.evidence[0]
    assert found.fix


def test_a_leak_is_named_within_minutes_and_is_at_work_until_the_end() -> None:
    assert watched(LEAK, 6).active == []
    causes = watched(LEAK, 18)
    assert causes.active == ["memory_growth"]
    assert "grows by 100 MiB a minute" in causes.found()[0].evidence[0]


def test_without_a_limit_of_its_group_the_machines_memory_counts() -> None:
    causes = MachineCauses()
    for second in range(2400):
        held = int(LEAK(float(second)))
        causes.add(Reading(at_s=float(second), memory_bytes=held, machine_memory_bytes=16 * GIB), ())
    assert "it reaches the machine's 16.0 GiB" in causes.found()[0].evidence[0]


@pytest.mark.parametrize(
    "grown",
    [
        lambda _: 0.0,
        lambda at_s: min(at_s, 87.0) / 87 * 3 * GIB,  # a shuffle buffer that fills
        lambda at_s: min(at_s, 600.0) / 600 * GIB,  # cache() within the first epoch: the rest would last for hours
        lambda at_s: 2 * GIB * (1 - math.exp(-at_s / 60)),  # allocators that warm up
        lambda at_s: 2 * GIB * (1 - math.exp(-at_s / 200)),
        lambda at_s: 1 * GIB * (1 - math.exp(-at_s / 600)),
        lambda at_s: 300 * MIB * math.log1p(at_s / 10),
        lambda at_s: 256 * MIB * min(at_s // 400, 3),  # a larger buffer now and then
        lambda at_s: GIB * (at_s % 240) / 240,  # it is given back after each epoch
        lambda at_s: at_s * 1 * MIB / MINUTE,  # in days
    ],
)
def test_memory_that_only_fills_is_none(grown: Callable[[float], float]) -> None:
    assert watched(noisy(started(grown), 10 * MIB), 60).found() == ()


def test_noise_alone_is_none() -> None:
    for spread in (5 * MIB, 100 * MIB, 500 * MIB):
        assert watched(noisy(started(lambda _: 0.0), spread), 120).found() == ()


def test_memory_of_a_gpu_that_grows_is_named() -> None:
    causes = MachineCauses()
    for second in range(1500):
        gpu = GpuReading(at_s=float(second), index=1, own_bytes=GIB + 10 * second * MIB, total_bytes=24 * GIB)
        other = GpuReading(at_s=float(second), index=2, own_bytes=0, used_bytes=second * MIB, total_bytes=24 * GIB)
        causes.add(Reading(at_s=float(second)), (gpu, other))
    (found,) = causes.found()
    assert "on GPU 1 grows by 600 MiB a minute" in found.evidence[0]
    assert "it reaches the GPU's 24.0 GiB" in found.evidence[0]


GROWS = "import time\nkept = []\nwhile True:\n    kept.append(b'x' * 600_000)\n    time.sleep(0.02)"
FILLS = "import time\nkept = [b'x' * 600_000 for _ in range(150) if not time.sleep(0.02)]\nwhile True:\n    kept[:20] = [b'x' * 600_000] * 20\n    time.sleep(0.02)"


@pytest.mark.timed
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has /proc")
@pytest.mark.parametrize(("code", "grows"), [(GROWS, True), pytest.param(FILLS, False, marks=pytest.mark.slow)])
def test_a_real_program_that_grows_and_one_that_fills(code: str, grows: bool) -> None:
    """With seconds in place of minutes."""
    found: list[str] = []
    with subprocess.Popen([sys.executable, "-c", code]) as program:
        signals, growth = ProgramSignals(Host(), program.pid), GrowthWatch(warm_up_s=2.0, window_s=10.0)
        ends = time.monotonic() + (240 if grows else 24)  # a program that gets no processor time does not grow
        while time.monotonic() < ends and not found:
            reading = signals.look()
            assert reading is not None
            reading = msgspec.structs.replace(reading, memory_limit_bytes=2 * GIB)
            found += [words for _, _, words in growth.judge(reading, ())]
            time.sleep(0.1)
        program.kill()
    assert bool(found) == grows, found


def test_the_memory_of_the_machine_is_known() -> None:
    reading = ProgramSignals(Host(), 1).look()
    assert reading is None or (reading.machine_memory_bytes or 0) > 64 * MIB
