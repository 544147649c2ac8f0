"""A profile from a known-good machine: bounds with a margin from what was seen, and refusals that name what varied."""

from __future__ import annotations

import math
import pathlib
import random
import shlex
import statistics

import hypothesis.strategies as st
import msgspec
import pytest
from healthy import broken, healthy
from hypothesis import given
from judged import bench, comparison, judged, profile_of, red, shipped
from learnt_runs import run

from tfgpu_doctor.accept.bounds import DAYS, LEAST_RUNS, MOST_RUNS, T95, bounds_of, quantile
from tfgpu_doctor.accept.learning import MOST_MARGIN, NotLearnt, can_be_left_out, learn
from tfgpu_doctor.accept.writing import profile_text
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.bench import Comparison

SPREAD = (1.0, 1.02, 0.99, 1.01, 0.985)


@given(st.lists(st.floats(0.01, 1000), min_size=LEAST_RUNS, max_size=MOST_RUNS), st.integers(1, 40))
def test_a_bound_is_below_the_mean_by_what_days_differ(runs: list[float], values: int) -> None:
    bound = bounds_of({"one": runs}, values)["one"]
    mean = math.exp(statistics.fmean(map(math.log, runs)))
    assert 0 < bound.value <= mean * math.exp(-1.6 * math.sqrt(2) * DAYS) * (1 + 1e-9)
    assert 0 < bound.margin <= 1


def test_what_varies_more_gets_a_lower_bound() -> None:
    table = {f"{width}": [20.0 * (1 + width * (each - 1)) for each in SPREAD] for width in (1.0, 2.0, 6.0)}
    bounds = bounds_of(table, 3)
    assert bounds["6.0"].value < bounds["2.0"].value < 20.0
    assert bounds["1.0"].margin == pytest.approx(bounds["2.0"].margin)  # both vary less than the mean of the kind


def test_with_more_values_each_bound_is_lower() -> None:
    assert bounds_of({"one": SPREAD}, 35)["one"].value < bounds_of({"one": SPREAD}, 2)["one"].value


def test_an_equal_machine_meets_all_bounds() -> None:
    """Of machines that vary by 2 % from run to run and by `DAYS` from day to day, 95 % at least."""
    dice = random.Random(7)
    met = 0
    for _ in range(400):
        table = {str(place): [math.exp(dice.gauss(3.0, 0.02)) for _ in range(5)] for place in range(20)}
        bounds = bounds_of(table, 20)
        met += all(
            math.exp(dice.gauss(3.0, math.hypot(0.02, math.sqrt(2) * DAYS))) >= bounds[name].value for name in table
        )
    assert met >= 370  # 380 are meant; binomial, 1 %


def test_the_quantiles_are_those_of_students_t() -> None:
    student = pytest.importorskip("scipy.stats", reason="the benchmarks' own packages are not installed").t
    for freedom, due in enumerate(T95, LEAST_RUNS - 1):
        assert quantile(freedom, 1) == due == pytest.approx(student.ppf(0.95, freedom), abs=6e-4)
    assert len(T95) == MOST_RUNS - LEAST_RUNS + 1
    for values in (2, 5, 35, 100):
        for freedom in (4, 6, 10, 40, 700):
            assert quantile(freedom, values) == pytest.approx(student.ppf(1 - 0.05 / values, freedom), rel=0.02)


def test_the_machine_is_accepted_by_what_was_learnt_from_it(tmp_path: pathlib.Path) -> None:
    profile_of('level = "deep"\nsuites = ["device_placement", "training"]\n', tmp_path, "base.toml")
    learnt = learn([run(times) for times in SPREAD])
    resolved = profile_of(profile_text(learnt, "base.toml", 'of "node 7" \\ \x7f'), tmp_path)
    profile = resolved.profile
    assert (profile.gpus, profile.models, profile.gpu_memory) == (1, ("NVIDIA GeForce RTX 3090",), "24576 MiB")
    assert (profile.driver, profile.tensorflow) == (">=560.35.03", "==2.20.*")
    assert profile.about == 'of "node 7" \\ \x7f'
    assert 16 < profile.speed_ups["device_placement/gpu[matmul]"] < 19
    assert 0.5 < profile.peak_fractions["float32"] < 0.65
    assert 0.7 < profile.metric_fractions["device_placement/copy in the device"] < 0.9
    assert red(judged(run(0.98), resolved)) == []
    slower = red(judged(run(0.7), resolved))
    assert {"speed-ups.device_placement/gpu[matmul]", "speed-ups.training/step[cnn]"} <= set(slower)


def test_each_bound_stands_beside_the_runs_that_it_is_from() -> None:
    text = profile_text(learn([run(times) for times in SPREAD]), "server", "")
    (line,) = [line for line in text.splitlines() if line.startswith('"device_placement/gpu[matmul]"')]
    assert line.endswith("# 19.6, 20, 19.4, 19.8, 19.3")


def test_what_varies_too_much_is_named_with_how_much() -> None:
    runs = [run(times) for times in (1.0, 1.3, 0.7)]
    with pytest.raises(NotLearnt) as caught:
        learn(runs)
    words = str(caught.value)
    assert words.startswith(
        "the runs vary too much: device_placement/gpu[matmul] (19.6, 25.5, 13.7): a bound would be "
    )
    assert f"the maximum is {MOST_MARGIN:.0%}" in words
    assert "float32" in words
    assert "measure while nothing else runs, with more --runs or a longer `budget`" in words
    options = shlex.split(words.rpartition("set no minimum for it:")[2])
    assert learn(runs, options[1::2]).speed_ups == {}  # what it says to leave out is enough
    assert set(options[::2]) == {"--leave-out"}


def test_what_is_left_out_keeps_the_minimum_of_the_base_profile(tmp_path: pathlib.Path) -> None:
    assert can_be_left_out("training/step[cnn]")
    assert can_be_left_out("float32")
    assert not can_be_left_out("training")
    assert not can_be_left_out("training/no_such_comparison")
    learnt = learn([run(times) for times in SPREAD], ["training/step[cnn]"])
    assert set(learnt.speed_ups) == {"device_placement/gpu[matmul]"}
    asked, base = profile_of(profile_text(learnt, "server", ""), tmp_path).profile, shipped("server").profile
    assert asked.speed_ups.get("training/step[cnn]") == base.speed_ups.get("training/step[cnn]")


def test_more_runs_are_needed() -> None:
    with pytest.raises(NotLearnt, match="3 to 20 runs are required; there are 2"):
        learn([run(), run()])


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (broken(runtime={"version": "2.21.0"}), "TensorFlow changed from run to run: 2.20.0, 2.21.0"),
        (broken(nvml={"driver_version": "570.1"}), "the driver changed from run to run: 560.35.03, 570.1"),
        (broken(runtime={"gpus": ()}), "the GPUs changed from run to run: "),
    ],
)
def test_runs_of_different_machines_are_no_runs_of_one(other: Facts, said: str) -> None:
    with pytest.raises(NotLearnt) as caught:
        learn([healthy(), healthy(), other])
    assert str(caught.value).startswith(said)


def test_what_does_not_pay_is_left_out() -> None:
    slower = comparison("training", "step[cnn]", 0.8, verdict="slower")
    runs = [msgspec.structs.replace(healthy(), bench=bench(comparison(), slower)) for _ in range(3)]
    assert set(learn(runs).speed_ups) == {"device_placement/gpu[matmul]"}


def test_a_version_that_is_none_gets_into_no_profile() -> None:
    strange = broken(nvml={"driver_version": '560"\ngpus = 9'})
    with pytest.raises(NotLearnt, match=r"^the driver reports the version "):
        learn([strange] * 3)


@pytest.mark.parametrize("other", [None, comparison("training", "step[cnn]", verdict="too noisy")])
def test_what_not_every_run_shows_is_named(other: Comparison | None) -> None:
    won = bench(comparison(), comparison("training", "step[cnn]"))
    lost = bench(*filter(None, (comparison(), other)))
    runs = [msgspec.structs.replace(healthy(), bench=run) for run in (won, lost, won, won)]
    with pytest.raises(
        NotLearnt, match=r"^not every run has training/step\[cnn\] \(in 3 of 4\); measure while nothing else runs"
    ):
        learn(runs)


def test_the_comparisons_of_an_own_suite_are_learnt_like_the_doctors() -> None:
    def with_own(times: float) -> Facts:
        facts = run(times)
        assert facts.bench
        own = comparison("ingest", "parse", 5.0 * times)
        rows = (*facts.bench.comparisons, own)
        return msgspec.structs.replace(facts, bench=msgspec.structs.replace(facts.bench, comparisons=rows))

    assert "ingest/parse" in learn([with_own(times) for times in SPREAD]).speed_ups


@pytest.mark.parametrize(("base", "tables"), [("ci", ()), ("workstation", ("speed_ups", "metric_fractions"))])
def test_what_the_base_profile_does_not_measure_is_not_learnt(
    base: str, tables: tuple[str, ...], tmp_path: pathlib.Path
) -> None:
    """Records may hold more than the profile asks for; what it does not measure again cannot be required."""
    learnt = learn([run(times) for times in SPREAD], asked=shipped(base).profile)
    profile = profile_of(profile_text(learnt, base, ""), tmp_path).profile
    assert {
        name for name in ("speed_ups", "peak_fractions", "metric_fractions", "metrics") if getattr(learnt, name)
    } == set(tables)
    assert "training/step[cnn]" not in profile.speed_ups
