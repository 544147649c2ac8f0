"""The time of one call, from readings that are long enough, without what the waiting costs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tfgpu_doctor.perf_tests.timing import LEAST_READING_S, MOST_CALLS, Stopwatch


class Device:
    """A device that works through its queue, under a clock of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, wait_s: float) -> None:
        self.now, self.queued_s, self.calls, self._wait_s = 0.0, 0.0, 0, wait_s
        monkeypatch.setattr("time.perf_counter", lambda: self.now)

    def launch(self, work_s: float) -> Callable[[], None]:
        def call() -> None:
            self.calls += 1
            self.now += 1e-6
            self.queued_s += work_s

        return call

    def wait(self) -> None:
        self.now += self._wait_s + self.queued_s
        self.queued_s = 0.0


@pytest.mark.parametrize("work_s", [40e-6, 0.13e-3, 0.005, 0.1])
def test_the_time_is_that_of_the_work(monkeypatch: pytest.MonkeyPatch, work_s: float) -> None:
    device = Device(monkeypatch, wait_s=400e-6)  # eight GPUs are waited for one after the other
    assert Stopwatch(device.wait).per_call(device.launch(work_s)) == pytest.approx(work_s, rel=0.03)


def test_a_reading_is_long_enough_and_a_long_call_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device(monkeypatch, wait_s=0.0)
    watch = Stopwatch(device.wait)
    assert watch.calls(device.launch(0.1)) == 1
    assert watch.calls(device.launch(40e-6)) * 41e-6 >= LEAST_READING_S
    assert watch.calls(device.launch(0.0)) == MOST_CALLS


def test_readings_go_on_for_as_long_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device(monkeypatch, wait_s=0.0)
    assert len(Stopwatch(device.wait).readings(device.launch(0.05), seconds=3.0)) in (60, 61)
