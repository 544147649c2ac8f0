"""Rules by the names of SageMaker's, with its defaults: what breaks them, what keeps them, and what cannot be judged."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
from collections.abc import Sequence

import pytest
from doctor_command import clean_environment, doctor_argv

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.watching.named_rules import NamedRule, NamedRuleWatch
from tfgpu_doctor.watching.reading import GpuReading, Reading
from tfgpu_doctor.watching.rules import parse_rule, values_of, watch_rule

SOON = "patience=40, window=40, scan_interval_us=1000000"  # 20 s in place of minutes
USUAL = {"cpu": 0.5, "io_stalled": 0.0, "gpu_util.0": 0.9, "gpu_memory.0": 0.8, "steps": 1.0}
Values = dict[str, float | None]


def test_defaults_are_those_that_its_users_know() -> None:
    rows = read_knowledge().watch_rules
    assert rows["LowGPUUtilization"].parameters["threshold_p95"] == 70
    assert rows["LowGPUUtilization"].parameters["threshold_p5"] == 10
    assert {"threshold": 50, "gpu_threshold": 10, "cpu_threshold": 90}.items() <= rows[
        "CPUBottleneck"
    ].parameters.items()
    assert {"threshold": 50, "gpu_threshold": 10, "io_threshold": 50}.items() <= rows["IOBottleneck"].parameters.items()
    assert rows["BatchSize"].parameters["gpu_memory_threshold_p95"] == 70
    assert rows["GPUMemoryIncrease"].parameters["increase"] == 5
    assert (rows["StepOutlier"].parameters["stddev"], rows["MaxInitializationTime"].parameters["threshold"]) == (3, 20)


@pytest.mark.parametrize(
    "text", ["LowGPUUtilization", " LowGPUUtilization( ) ", "LowGPUUtilization(threshold_p95=60, patience = 200)"]
)
def test_a_name_is_read(text: str) -> None:
    rule = parse_rule(text)
    assert isinstance(rule, NamedRule)
    assert rule.name == "LowGPUUtilization"
    assert rule.parameters["threshold_p95"] == (60 if "60" in text else 70)
    assert rule.parameters["patience"] == (200 if "200" in text else 1000)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("LowGpuUsage", "'LowGpuUsage' is not known; there are LowGPUUtilization, CPUBottleneck, IOBottleneck, BatchSize"),
        ("OverallSystemUsage", "'OverallSystemUsage' is not known; there are"),
        ("LowGPUUtilization(p95=60)", "LowGPUUtilization has no 'p95'; it has threshold_p95, threshold_p5, window, patience"),
        ("LowGPUUtilization(threshold_p95=high)", "'threshold_p95=high' in"),
        ("LowGPUUtilization(threshold_p95=60", "is no rule; write it like"),
        ("LowGPUUtilization(window=0)", "window in 'LowGPUUtilization(window=0)' must be larger than 0"),
    ],
)  # fmt: skip
def test_what_is_no_name_is_told(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        parse_rule(text)


def followed(text: str, values: Sequence[Values]) -> tuple[NamedRuleWatch, list[int]]:
    """A rule that saw values each second, and when it said that it is broken."""
    watch = watch_rule(parse_rule(text))
    assert isinstance(watch, NamedRuleWatch)
    return watch, [second for second, each in enumerate(values) if watch.add(float(second), {**USUAL, **each})]


def looks(count: int, **more: float | None) -> list[Values]:
    return [{name.replace("__", "."): value for name, value in more.items()} for _ in range(count)]


WAVES = [{"gpu_util.0": 1.0 if second % 10 else 0.0} for second in range(60)]
TWO = [{"gpu_util.0": 0.9 - second % 7 / 50, "gpu_util.1": 0.9 - second % 5 / 40} for second in range(60)]


@pytest.mark.parametrize(
    ("name", "values", "broken"),
    [
        ("LowGPUUtilization", looks(60, gpu_util__0=0.5), True),
        ("LowGPUUtilization", WAVES, True),
        ("LowGPUUtilization", looks(60), False),
        ("LowGPUUtilization", [*looks(60, gpu_util__1=0.9)[:30], *looks(60, gpu_util__1=0.1)], True),  # one of two
        ("CPUBottleneck", looks(60, cpu=0.97, gpu_util__0=0.05), True),
        ("CPUBottleneck", looks(60, cpu=0.97), False),
        ("CPUBottleneck", looks(60, gpu_util__0=0.05), False),
        ("CPUBottleneck", [*looks(2, cpu=0.97, gpu_util__0=0.05), *looks(3)] * 12, False),
        ("IOBottleneck", looks(60, io_stalled=0.8, gpu_util__0=0.05), True),
        ("IOBottleneck", looks(60, io_stalled=0.8), False),
        ("BatchSize", looks(60, cpu=0.3, gpu_util__0=0.4, gpu_memory__0=0.2), True),
        ("BatchSize", looks(60, cpu=0.3, gpu_util__0=0.4), False),
        ("GPUMemoryIncrease", [{"gpu_memory.0": 0.3 + 0.3 * (second > 40)} for second in range(60)], True),
        ("GPUMemoryIncrease", [{"gpu_memory.0": 0.3 + 0.001 * second} for second in range(60)], False),
        ("LoadBalancing", looks(60, gpu_util__1=0.2), True),
        ("LoadBalancing", looks(60, gpu_util__1=0.9), False),
        ("LoadBalancing", looks(60), False),
    ],
)
def test_a_rule_is_broken_or_kept(name: str, values: Sequence[Values], broken: bool) -> None:
    given = read_knowledge().watch_rules[name].parameters
    soon = ", ".join(each for each in SOON.split(", ") if each.partition("=")[0] in given and each[:4] != "wind")
    window = ", window=40" if "window" in given and name != "GPUMemoryIncrease" else ""
    watch, said = followed(f"{name}({soon}{window})", values)
    assert len(said) == broken
    assert (watch.result().broken, watch.result().why) == (broken, ""), watch.result()


def test_the_start_of_a_training_breaks_nothing() -> None:
    """By default the first 500 s do not count, as there: 1000 looks of half a second."""
    watch, said = followed("LowGPUUtilization", looks(480, gpu_util__0=0.0))
    assert said == []
    assert (watch.result().broken, watch.result().why) == (False, "the run was shorter than 500 s")
    assert followed("LowGPUUtilization", looks(800, gpu_util__0=0.3))[1] == [500]
    assert followed("LowGPUUtilization", [*looks(240, gpu_util__0=0.0), *looks(600)])[1] == []


@pytest.mark.parametrize(
    ("text", "values", "why"),
    [
        (f"LowGPUUtilization({SOON})", looks(60, gpu_util__0=None), "gpu_util was not known"),
        ("BatchSize(patience=40)", looks(60, gpu_memory__0=None), "gpu_memory was not known"),
        ("IOBottleneck(patience=40)", looks(60, io_stalled=None), "io_stalled was not known"),
        ("StepOutlier", looks(60), "the times of single steps are not kept"),
        ("MaxInitializationTime(threshold=0.5)", looks(60, steps=None), "nobody knows whether there was a step: no recording was read"),
    ],
)  # fmt: skip
def test_what_was_not_measured_is_neither_kept_nor_broken(text: str, values: Sequence[Values], why: str) -> None:
    watch, said = followed(text, values)
    assert said == []
    assert (watch.result().broken, watch.result().why) == (None, why)


def test_no_step_for_long() -> None:
    assert followed("MaxInitializationTime(threshold=0.5)", looks(60, steps=0.0))[1] == [30]
    assert followed("MaxInitializationTime(threshold=0.5)", [*looks(20, steps=None), *looks(90)])[1] == []
    watch, _ = followed("MaxInitializationTime", looks(60, steps=0.0))
    assert (watch.result().broken, watch.result().why) == (False, "the run was shorter than 1200 s")


def test_values_of_each_gpu_and_whether_there_was_a_step() -> None:
    gpus = [
        GpuReading(
            at_s=0.0, index=index, utilization=0.1 * index, used_bytes=index, total_bytes=4, own_bytes=int(index > 0)
        )
        for index in range(3)
    ]
    values = values_of(Reading(at_s=0.0), gpus, None, recordings=2)
    found = {name: value for name, value in values.items() if "." in name}
    assert found == {"gpu_util.1": 0.1, "gpu_util.2": 0.2, "gpu_memory.1": 0.25, "gpu_memory.2": 0.5}
    assert (values["steps"], values_of(Reading(at_s=0.0), [], None)["steps"]) == (0.0, None)
    assert values_of(Reading(at_s=0.0), [], None, recordings=2, trained=True)["steps"] == 1.0


def watched(folder: pathlib.Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        doctor_argv("watch", *words), capture_output=True, text=True, cwd=folder, check=False, env=clean_environment()
    )


@pytest.mark.timed
def test_the_command_knows_the_names(tmp_path: pathlib.Path) -> None:
    done = watched(tmp_path, "--fail-if", "LowGPU", "--", "true")
    assert (done.returncode, done.stdout) == (2, "")
    assert "'LowGPU' is not known; there are LowGPUUtilization" in done.stderr
    program = (sys.executable, "-c", "import time; time.sleep(2)")
    done = watched(tmp_path, "--fail-if", "StepOutlier", "--no-live", "-o", "report", "--", *program)
    assert done.returncode == 19, done.stderr
    assert "StepOutlier: not known: the times of single steps are not kept" in (tmp_path / "report").read_text()
