"""Each side is measured in its own steady state: GPUs are warm, and a wait for them costs what runs on no GPU nothing."""

from __future__ import annotations

import time
import types
from collections.abc import Callable

import pytest
from installed import skip_without_scipy

from tfgpu_doctor.bench import Plan
from tfgpu_doctor.model.facts.bench import Comparison, Side
from tfgpu_doctor.perf_tests import runner as subject
from tfgpu_doctor.perf_tests.runner import Runner, Variant

WARM_UP_S, CALL_S = 0.3, 0.002
PLAN = Plan(0.05, rounds=5, least_rounds=5)


@pytest.fixture(autouse=True)
def _no_tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sides need no TensorFlow, and where they ran is believed."""
    skip_without_scipy()
    monkeypatch.setattr(Runner, "_first_call", lambda _, variant: Side(name=variant.name, device=variant.device))
    monkeypatch.setattr(subject, "WARM_UP_S", WARM_UP_S)


class Machine:
    """Counts the calls of each side, and the waits for GPUs, with their times."""

    def __init__(self) -> None:
        self.seconds = 0.0  # of a clock that goes on with each call, and that no stall moves
        self.calls: dict[str, list[float]] = {}
        self.waits: list[float] = []
        self.runner = Runner(lambda: self.waits.append(time.perf_counter()))

    def side(self, device: str, name: str = "") -> Variant:
        def call() -> None:
            self.calls.setdefault(name or device, []).append(time.perf_counter())
            time.sleep(CALL_S)
            self.seconds += CALL_S

        return Variant(name or device, call, lambda _: None, device)

    def hold(self, candidate: Variant, baseline: Variant) -> tuple[Comparison, float]:
        """The comparison, and how long it took."""
        began = time.perf_counter()
        found, trouble = self.runner.hold(("made_up", "test"), candidate, baseline, at_least=1.0, plan=PLAN)
        assert trouble is None
        return found, time.perf_counter() - began


@pytest.mark.parametrize("order", [("GPU:0", "CPU:0"), ("CPU:0", "GPU:0"), ("GPU:0", "GPU:1")])
def test_a_comparison_with_a_gpu_on_either_side_begins_warm(
    order: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine()
    by_calls = types.SimpleNamespace(time=time.time, perf_counter=lambda: machine.seconds)
    monkeypatch.setattr(subject, "time", by_calls)  # for the warm-up; `measure` keeps the real clock
    found, took_s = machine.hold(*map(machine.side, order))
    assert took_s > WARM_UP_S
    assert found.on_gpu
    measured = found.rounds + 2  # two calls tell how many fill a round
    assert min(len(calls) for calls in machine.calls.values()) > measured + 5, "one of the sides was not warmed up"


def test_a_gpu_that_had_work_a_moment_ago_is_warm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "COOLS_AFTER_S", 600.0)  # on a busy machine, a moment may be long
    machine = Machine()
    sides = machine.side("GPU:0"), machine.side("GPU:0", "other")
    machine.hold(*sides)
    before = {name: len(calls) for name, calls in machine.calls.items()}
    found, _ = machine.hold(*sides)
    made = {name: len(calls) - before[name] for name, calls in machine.calls.items()}
    assert set(made.values()) == {found.rounds + 2}, "two calls tell how many fill a round; none more warms it up"


def test_a_gpu_that_was_idle_is_warmed_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "COOLS_AFTER_S", 0.1)
    machine = Machine()
    sides = machine.side("GPU:0"), machine.side("GPU:0", "other")
    machine.hold(*sides)
    time.sleep(2 * WARM_UP_S)
    _, took_s = machine.hold(*sides)
    assert took_s > WARM_UP_S


def test_work_on_the_cpu_does_not_keep_a_gpu_warm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "COOLS_AFTER_S", 0.1)
    machine = Machine()
    sides = machine.side("GPU:0"), machine.side("GPU:0", "other")
    machine.hold(*sides)
    until = time.perf_counter() + 2 * WARM_UP_S
    while time.perf_counter() < until:
        machine.hold(machine.side("CPU:0"), machine.side("CPU:0", "as this"))
    _, took_s = machine.hold(*sides)
    assert took_s > WARM_UP_S


def test_where_no_side_is_on_a_gpu_nobody_waits_for_one() -> None:
    machine = Machine()
    found, _ = machine.hold(machine.side("CPU:0"), machine.side("CPU:0", "as this"))
    assert machine.waits == []
    assert not found.on_gpu


def test_the_span_is_that_of_the_measurement_alone() -> None:
    """What is sampled in it says how the GPU ran while it was measured, not while the work was built."""
    machine = Machine()
    found, took_s = machine.hold(machine.side("GPU:0"), machine.side("CPU:0"))
    ((_, measured_s),) = found.spans
    assert PLAN.seconds <= measured_s < took_s - WARM_UP_S
    assert measured_s + WARM_UP_S <= found.took_s <= round(took_s, 3)  # it is given in ms


def test_a_warm_up_says_that_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[float] = []
    beat: Callable[[], None] = lambda: said.append(time.perf_counter())  # noqa: E731
    monkeypatch.setattr(subject, "alive", beat)
    machine = Machine()
    machine.hold(machine.side("GPU:0"), machine.side("CPU:0"))
    assert said
