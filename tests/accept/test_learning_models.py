"""A profile of a model, from several machines: machines vary more than the runs of one, and units stand beside shares."""

from __future__ import annotations

import math
import pathlib
import random

import msgspec
import pytest
from judged import judged, profile_of, red
from learnt_runs import run
from of_models import machine_of

from tfgpu_doctor.accept.bounds import DAYS
from tfgpu_doctor.accept.learning import NotLearnt, can_be_left_out, learn
from tfgpu_doctor.accept.learning_models import bounds_among
from tfgpu_doctor.accept.writing import profile_text
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.bench import Metric

SPEEDS = (1.0, 1.03, 0.97, 1.01, 0.99)  # of machines


def another(facts: Facts, number: int) -> Facts:
    """The same facts of another machine."""
    assert facts.nvml
    gpus = tuple(
        msgspec.structs.replace(gpu, uuid=f"GPU-{number:04}-{place}") for place, gpu in enumerate(facts.nvml.gpus)
    )
    return msgspec.structs.replace(facts, nvml=msgspec.structs.replace(facts.nvml, gpus=gpus))


def fleet(runs: int = 2) -> list[Facts]:
    """Runs of machines whose speeds differ by 2 %, and from run to run by half a percent."""
    return [
        another(run(times * (1 + 0.005 * turn)), number) for number, times in enumerate(SPEEDS) for turn in range(runs)
    ]


def test_equal_machines_meet_all_bounds() -> None:
    """Of machines that differ by 3 %, and by 0.5 % from run to run, 95 % at least: four runs of one are not four machines."""
    dice, met = random.Random(11), 0
    for _ in range(300):
        places = range(10)
        table = {
            str(place): [
                [math.exp(mean + dice.gauss(0, 0.005)) for _ in range(4)]
                for mean in (dice.gauss(3, 0.03) for _ in range(5))
            ]
            for place in places
        }
        bounds = bounds_among(table, 10)
        met += all(
            math.exp(dice.gauss(3, math.hypot(0.03, 0.005, math.sqrt(2) * DAYS))) >= bounds[str(place)].value
            for place in places
        )
    assert met >= 277  # 285 are meant; binomial, 1 %


def test_machines_that_differ_get_lower_bounds_than_runs_of_one() -> None:
    one = learn([run(times) for times in (1.0, 1.005, 0.995)])
    several = learn(fleet())
    assert several.machines == 5
    key = "device_placement/gpu[matmul]"
    assert several.speed_ups[key].value < one.speed_ups[key].value
    assert len(several.speed_ups[key].runs) == 10


def test_the_share_of_equals_is_counted_on_machines_that_were_left_out() -> None:
    assert learn(fleet()).accepted == 5
    slow = [another(run(0.8), 77), another(run(0.8), 77)]
    found = learn(
        [*(another(run(times), number) for number, times in enumerate((1.0, 1.01, 0.99, 1.0, 1.0, 1.01, 0.99))), *slow]
    )
    assert (found.machines, found.accepted) == (8, 7)


def test_the_profile_names_its_machines_and_accepts_another(tmp_path: pathlib.Path) -> None:
    profile_of('level = "deep"\nsuites = ["device_placement", "training"]\n', tmp_path, "base.toml")
    learnt = learn(fleet())
    resolved = profile_of(profile_text(learnt, "base.toml", ""), tmp_path)
    assert red(judged(another(run(0.98), 99), resolved)) == []
    assert "speed-ups.training/step[cnn]" in red(judged(another(run(0.6), 99), resolved))


@pytest.mark.parametrize("count", [2])
def test_two_machines_are_too_few(count: int) -> None:
    with pytest.raises(NotLearnt, match="3 machines or more are required, or only one; there are 2"):
        learn(fleet()[: 2 * count])


def test_the_oldest_driver_is_the_minimum() -> None:
    runs = fleet(1)
    assert runs[2].nvml
    older = msgspec.structs.replace(runs[2].nvml, driver_version="550.54.15")
    assert learn([*runs[:2], msgspec.structs.replace(runs[2], nvml=older), *runs[3:]]).driver == "550.54.15"


def test_what_has_no_peak_is_learnt_in_units(tmp_path: pathlib.Path) -> None:
    def of_b200(number: int, times: float) -> Facts:
        metrics = (
            Metric(suite="training", name="training cnn", value=3000 * times, unit="samples/s", device="GPU:0"),
            Metric(suite="training", name="training cnn", value=9.0, unit="samples/s", device="CPU:0"),
        )
        facts = machine_of("NVIDIA B200", {"float32": 70 * times, "float16": 1600 * times}, metrics=metrics)
        return another(facts, number)

    runs = [of_b200(number, times) for number, times in enumerate(SPEEDS)]
    learnt = learn(runs)
    assert learnt.peak_fractions == {}
    assert set(learnt.metrics) == {"float32", "float16", "host-to-device", "device-to-host", "training/training cnn"}
    assert can_be_left_out("training/training cnn")
    assert can_be_left_out("host-to-device")
    profile_of('level = "deep"\nsuites = ["device_placement", "training"]\n', tmp_path, "base.toml")
    resolved = profile_of(profile_text(learnt, "base.toml", ""), tmp_path)
    assert resolved.profile.metrics["float16"].endswith(" TFLOP/s")
    assert resolved.profile.metrics["training/training cnn"].startswith(">= 2")
    assert red(judged(of_b200(9, 0.98), resolved)) == []
    assert "metrics.float16" in red(judged(of_b200(9, 0.7), resolved))
    assert learn(runs, ["host-to-device"]).metrics.keys() == learnt.metrics.keys() - {"host-to-device"}
