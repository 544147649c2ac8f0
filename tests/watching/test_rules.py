"""Rules of --fail-if: what they mean, and when they are broken."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
import pytest

from tfgpu_doctor.watching.reading import GpuReading, Reading
from tfgpu_doctor.watching.rules import VALUES, Rule, RuleWatch, parse_rule, values_of, watch_rule


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("gpu_idle > 40 % for 5 min", Rule("gpu_idle > 40 % for 5 min", "gpu_idle", ">", 0.4, 300.0)),
        ("gpu_idle>40%", Rule("gpu_idle>40%", "gpu_idle", ">", 0.4, 60.0)),
        ("  step_ms >= 250 ms  for 30 s ", Rule("step_ms >= 250 ms for 30 s", "step_ms", ">=", 250.0, 30.0)),
        ("step_ms > 2 s for 1.5 h", Rule("step_ms > 2 s for 1.5 h", "step_ms", ">", 2000.0, 5400.0)),
        ("gpu_util < 70 for 2m", Rule("gpu_util < 70 for 2m", "gpu_util", "<", 0.7, 120.0)),
    ],
)
def test_a_rule_is_read(text: str, rule: Rule) -> None:
    assert parse_rule(text) == rule


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("gpu_idle", "is no rule; write it like"),
        ("gpu_idle > 40 % for ever", "is no rule"),
        ("gpu_idel > 40 %", "'gpu_idel' in 'gpu_idel > 40 %' is not known; there are gpu_util, gpu_idle"),
        ("gpu_idle > 40 ms", "gpu_idle in 'gpu_idle > 40 ms' is measured in %"),
        ("step_ms > 40 %", "is measured in ms"),
        ("gpu_idle > 40 % for 0 s", "must be longer than 0 s"),
    ],
)
def test_what_is_no_rule_is_told(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        parse_rule(text)


def followed(text: str, values: Sequence[float | None]) -> tuple[RuleWatch, list[int]]:
    """A rule that saw a value each second, and when it said that it is broken."""
    watch = watch_rule(parse_rule(text))
    assert isinstance(watch, RuleWatch)
    name = watch.rule.name
    return watch, [second for second, value in enumerate(values) if watch.add(float(second), {name: value})]


def test_a_rule_is_broken_once_by_the_mean_of_its_time() -> None:
    watch, said = followed("gpu_idle > 40 % for 10 s", [0.0] * 20 + [1.0] * 30)
    assert said == [24]  # 5 of the 11 looks of ten seconds
    assert watch.result().broken is True
    assert watch.result().at_s == 24.0
    assert watch.result().longest_s == 29.0


def test_a_short_peak_breaks_nothing() -> None:
    watch, said = followed("gpu_idle > 40 % for 10 s", [0.0] * 20 + [1.0] * 3 + [0.0] * 20)
    assert said == []
    assert (watch.result().broken, watch.result().longest_s) == (False, 2.0)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([None] * 40, "gpu_idle was never known"),
        ([1.0, None, None] * 20, "gpu_idle was not known for 10 s together"),
    ],
)
def test_what_was_not_measured_is_neither_kept_nor_broken(values: list[float | None], why: str) -> None:
    watch, said = followed("gpu_idle > 40 % for 10 s", values)
    assert said == []
    assert (watch.result().broken, watch.result().why) == (None, why)


def test_a_run_shorter_than_the_rule_has_not_broken_it() -> None:
    watch, said = followed("gpu_idle > 40 % for 10 s", [1.0] * 5)
    assert said == []
    assert (watch.result().broken, watch.result().why) == (False, "the run was shorter than 10 s")


def test_only_the_gpus_that_the_program_uses_count() -> None:
    mine = GpuReading(at_s=0.0, index=0, utilization=0.9, own_bytes=1 << 30, used_bytes=1 << 30, total_bytes=4 << 30)
    idle = GpuReading(at_s=0.0, index=1, utilization=0.0, own_bytes=0, used_bytes=0, total_bytes=4 << 30)
    unknown = [msgspec.structs.replace(each, own_bytes=None) for each in (mine, idle)]
    reading = Reading(at_s=0.0)
    assert values_of(reading, [mine, idle], None)["gpu_idle"] == pytest.approx(0.1)
    assert values_of(reading, unknown, None)["gpu_idle"] == pytest.approx(0.55)
    assert values_of(reading, [], None)["gpu_idle"] is None
    seen = [msgspec.structs.replace(each, visible=each.index == 0) for each in unknown]
    assert values_of(reading, seen, None)["gpu_idle"] == pytest.approx(0.1)
    hidden = [msgspec.structs.replace(each, visible=False) for each in unknown]
    assert values_of(reading, hidden, None)["gpu_idle"] is None


def test_how_many_threads_wait_is_told_only_where_the_kernel_counts_it() -> None:
    reading = Reading(at_s=0.0, cpus=4.0, cpu=2.0)
    assert values_of(reading, [], None)["cpu_queued"] is None
    assert values_of(msgspec.structs.replace(reading, queued=1.0), [], None)["cpu_queued"] == 0.25


def test_each_value_has_a_unit_and_a_sentence() -> None:
    assert {unit for _, unit in VALUES.values()} == {"%", "ms"}
    assert all(about for about, _ in VALUES.values())
