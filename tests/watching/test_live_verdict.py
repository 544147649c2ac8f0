"""The verdict at a moment: whether the machine comes first, or what the recordings say."""

from __future__ import annotations

from typing import Any

import made_watch
import msgspec
import pytest

from tfgpu_doctor.tracing import TraceReport
from tfgpu_doctor.watching.captures import Capture
from tfgpu_doctor.watching.live_verdict import LiveVerdict, slowed
from tfgpu_doctor.watching.reading import Reading

QUIET: dict[str, Any] = {"cpu": 1.8, "queued": 0.1, "cpus": 2.0, "others_cpu": 0.1}
CROWDED: dict[str, Any] = {"cpu": 1.0, "queued": 1.0, "cpus": 2.0, "others_cpu": 1.0}


def recorded(step_ms: float, *, healthy: bool) -> TraceReport:
    report = made_watch.traced(made_watch.healthy() if healthy else made_watch.input_bound())
    return msgspec.structs.replace(
        report, steps=msgspec.structs.replace(report.steps, median_ms=step_ms, mean_ms=step_ms)
    )


def said(
    before: TraceReport | None, after: TraceReport | None, *, crowded_from: int = 20, after_s: float = 28.0
) -> list[str]:
    """The verdicts of 40 s in which others come at 20 s; recordings at 10 s and later."""
    verdict = LiveVerdict(lambda cause: None)
    captures = [Capture(at_s, 7, each) for at_s, each in ((10.0, before), (after_s, after)) if each]
    found, readings = [], []
    for second in range(40):
        readings.append(Reading(at_s=float(second), **(CROWDED if second >= crowded_from else QUIET)))
        capture = next((each for each in reversed(captures) if each.at_s <= second), None)
        verdict.look(float(second), readings[-1], (), capture)
        report = capture.report if capture else None
        found.append(verdict.turn(float(second), None, report, readings, "watching").verdict)
    return found


def test_what_trained_well_before_is_slowed_by_the_machine() -> None:
    found = said(recorded(30, healthy=True), recorded(60, healthy=True))
    assert found[15] == "compute_bound"
    assert found[26] == found[-1] == "cpu_contention"


def test_a_bottleneck_of_its_own_that_became_much_longer_is_the_machine_s() -> None:
    found = said(recorded(30, healthy=False), recorded(70, healthy=False))
    assert found[15] == found[27] == "input_python"
    assert found[29] == found[-1] == "cpu_contention", "the steps take twice as long since the others came"


@pytest.mark.parametrize("step_ms", [25, 32, 44])
def test_a_bottleneck_that_stays_what_it_was_is_its_own(step_ms: float) -> None:
    assert said(recorded(30, healthy=False), recorded(step_ms, healthy=False))[-1] == "input_python"


def test_a_recording_made_after_the_others_came_and_before_they_show_is_not_the_one_before() -> None:
    verdicts = said(recorded(30, healthy=False), recorded(70, healthy=False), after_s=21.0)
    assert verdicts[-1] == "cpu_contention"


def test_steps_of_another_kind_are_not_compared() -> None:
    before, now = recorded(30, healthy=False), recorded(90, healthy=False)
    assert slowed(before, now)
    other = msgspec.structs.replace(now, steps=msgspec.structs.replace(now.steps, name="validation_step"))
    assert not slowed(before, other)
    none = msgspec.structs.replace(before, steps=msgspec.structs.replace(before.steps, median_ms=0.0))
    assert not slowed(none, now)
