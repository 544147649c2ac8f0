"""The simulator behind docs/calibration.md, against what is known without simulation."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

pytest.importorskip("scipy", reason="scipy, which the calibration needs, is not installed")
import calibrate_bench
from calibration.engine import judged, replay
from calibration.families import (
    COMPARISONS,
    Machine,
    engine,
    holm,
    learnt,
    lower_ends,
    simulate,
    simulate_processes,
    two_runs,
)
from calibration.methods import (
    fixed_b_quantile,
    lag_window,
    log_ratio,
    long_run_variance,
    longer_if_wide,
    paired,
    stationary_weights,
    t_interval,
    with_allowance,
)
from calibration.scenarios import SCENARIOS, SEED, Array, Scenario, Shape, autoregressive, bursts, from_slots, normal
from calibration.scores import Outcome, Score, of_engine, score, times
from scipy.stats import t

from tfgpu_doctor.accept.rules_suites import shown
from tfgpu_doctor.bench.measurement import Plan, measure
from tfgpu_doctor.bench.ratio import Ratio, ratio_of_processes
from tfgpu_doctor.model.facts.bench import Comparison
from tfgpu_doctor.perf_tests.budget import Passes


def random() -> np.random.Generator:
    return np.random.default_rng(3)


def share_covering(answer: Array, truth: float = 0.0) -> float:
    return float(((answer[:, 1] <= truth) & (truth <= answer[:, 2])).mean())


def given(name: str) -> Scenario:
    return next(each for each in SCENARIOS if each.name == name)


def test_there_are_fifteen_scenarios_each_with_its_own_name() -> None:
    assert len({each.name for each in SCENARIOS}) == len(SCENARIOS) == 15


@pytest.mark.parametrize("number", [2, 5, 12])
def test_students_interval_covers_95_percent_of_independent_normal_samples(number: int) -> None:
    assert share_covering(t_interval(random().standard_normal((20_000, number)))) == pytest.approx(0.95, abs=0.005)


@pytest.mark.parametrize(("step", "rounds"), [(0.5, 40), (0.9, 200), (0.98, 500)])
def test_the_mean_of_a_wander_varies_as_the_formula_says(step: float, rounds: int) -> None:
    """Variance of the mean of an AR(1) process: Law, Kelton, 2000, chapter 4.4."""
    means = autoregressive(random(), (8000, rounds), step, 2.0).mean(axis=1)
    lags = np.arange(1, rounds)
    inflation = 1 + 2 * ((1 - lags / rounds) * step**lags).sum()
    assert means.var() == pytest.approx(4.0 / rounds * inflation, rel=0.06)


def test_a_wander_starts_as_wide_as_it_ends() -> None:
    spread = autoregressive(random(), (20_000, 60), 0.98, 0.05).std(axis=0)
    assert spread == pytest.approx(0.05, rel=0.03)


def test_bursts_take_a_tenth_of_the_time_and_last_20_steps() -> None:
    on = bursts(random(), (4000, 400), 180, 20)
    starts = (on[:, 1:] > on[:, :-1]).sum()
    assert on.mean() == pytest.approx(0.1, rel=0.05)
    assert on[:, 1:].sum() / starts == pytest.approx(20, rel=0.06)


def test_slots_are_in_the_order_of_the_engine() -> None:
    order: list[str] = []
    now = iter(np.arange(1e6))
    plan = Plan(1e-9, rounds=4, least_rounds=4, least_round_s=0.0)
    sides = (lambda: order.append("c"), lambda: order.append("b"))
    measure(*sides, plan=plan, clock=lambda: float(next(now)), seed=SEED)
    baseline, candidate = from_slots(np.arange(8.0)).astype(int)
    rounds = order[-8:]
    assert [rounds[slot] for slot in baseline] == ["b"] * 4
    assert [rounds[slot] for slot in candidate] == ["c"] * 4


def test_the_engine_measures_the_times_that_it_is_given() -> None:
    sides = given("independent 5 %").times(random(), Shape(1, 1, 640))[0, 0]
    measured = replay(sides[0], sides[1], Plan(3.0))
    number = len(measured.baseline_s)
    assert measured.baseline_s == pytest.approx(sides[0, :number])
    assert measured.candidate_s == pytest.approx(sides[1, :number])
    assert measured.seconds == pytest.approx(sides[:, :number].sum())


def test_the_engine_combines_its_processes() -> None:
    sides = given("process offsets").times(random(), Shape(1, 3, 100))[0]
    ratio, seconds = judged(sides, Passes(3, 0.3))
    logs = [replay(each[0], each[1], Plan.part(0.3)).log_ratio for each in sides]
    assert ratio == ratio_of_processes(logs)
    assert 0.9 < seconds < 1.0
    alone, _ = judged(sides[:1], Passes(1, 0.3))
    assert alone == replay(sides[0, 0], sides[0, 1], Plan(0.3)).ratio


def test_a_planted_difference_scales_the_interval() -> None:
    sides = given("skewed").times(random(), Shape(1, 3, 40))[0]
    slower = sides.copy()
    slower[:, 1] /= 1.1
    same, planted = judged(sides, Passes(3, 0.1))[0], judged(slower, Passes(3, 0.1))[0]
    expected = times(same, 1.1)
    assert (planted.value, planted.low, planted.high) == pytest.approx(
        (expected.value, expected.low, expected.high), rel=0.02
    )


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
def test_the_true_ratio_is_1(scenario: Scenario) -> None:
    """Also of the boost that ends on one side, after its end."""
    sides = np.log(scenario.times(random(), Shape(300, 2, 400)))[:, 1]
    of_medians = np.median(sides, axis=-1)
    differences = of_medians[:, 0] - of_medians[:, 1]
    assert abs(differences.mean()) < 4 * differences.std() / math.sqrt(300)


def test_process_offsets_vary_from_process_to_process_alone() -> None:
    values = paired(given("process offsets").times(random(), Shape(2000, 4, 100)))
    assert values.std() == pytest.approx(math.hypot(0.015, 0.01 * math.sqrt(2 * math.pi / 2 / 100)), rel=0.03)
    visits = paired(given("process offsets").times(random(), Shape(500, 4, 100, fresh=False)))
    assert visits.std(axis=1).mean() < 0.003


def test_the_ratio_is_that_of_the_medians_and_an_own_factor_appears_in_it() -> None:
    sides = np.array([[[[3.0, 1.0, 2.0], [1.0, 9.0, 0.5]]]])
    assert np.exp(log_ratio(sides)) == pytest.approx(2.0)
    assert np.exp(paired(sides)) == pytest.approx(3.0)


def test_the_long_run_variance_is_that_of_the_mean() -> None:
    values = autoregressive(random(), (300, 2000), 0.5, 1.0)
    assert long_run_variance(values, 0.05).mean() == pytest.approx(3.0 / 2000, rel=0.07)


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_the_quantile_of_a_wide_window_covers_95_percent(share: float) -> None:
    sides = normal(0.05)(random(), Shape(4000, 1, 120))
    assert share_covering(lag_window(share)(np.exp(sides))) == pytest.approx(0.95, abs=0.012)
    assert fixed_b_quantile(0.0) == 1.96


def test_a_stationary_resample_draws_whole_processes_and_has_the_variance_of_the_mean() -> None:
    weights = stationary_weights(1, 200, 1.0, 4000)
    values = random().standard_normal(200)
    assert weights.sum(axis=1) == pytest.approx(1)
    assert (weights @ values).var() == pytest.approx(values.var() / 200, rel=0.1)
    of_three = stationary_weights(3, 10, 4.0, 500).reshape(500, 3, 10).sum(axis=2)
    assert np.allclose(of_three * 3, np.round(of_three * 3))


def test_an_allowance_adds_to_the_variance() -> None:
    sides = given("independent 1 %").times(random(), Shape(10, 5, 30))
    half = [answer[:, 2] - answer[:, 0] for answer in (with_allowance(0.0)(sides), with_allowance(0.015)(sides))]
    assert half[1] ** 2 == pytest.approx(half[0] ** 2 + (1.96 * 0.015) ** 2)


def test_more_processes_count_only_where_the_first_leave_a_wide_interval() -> None:
    sides = given("independent 15 %").times(random(), Shape(50, 6, 20))
    first, every = t_interval(paired(sides[:, :3])), t_interval(paired(sides))
    wide = first[:, 2] - first[:, 0] > 0.1
    assert 0 < wide.sum() < 50
    assert np.array_equal(longer_if_wide(3, 0.1)(sides), np.where(wide[:, None], every, first))


def test_holm_rejects_step_by_step() -> None:
    chances = np.array([[0.01, 0.04, 0.02, 0.9], [0.013, 0.014, 0.9, 0.9], [0.012, 0.016, 0.024, 0.9]])
    assert holm(chances).tolist() == [[1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 0]]


def test_unchanged_runs_have_as_many_false_alarms_as_the_level_says() -> None:
    same = simulate(random(), 20_000, spread=0.015, error=0.005, saved=1, planted=0)
    # A change must also be 2 % or more, which it is where Holm rejects it.
    assert two_runs(same).any(axis=1).mean() == pytest.approx(1 - (1 - 0.05 / COMPARISONS) ** COMPARISONS, abs=0.005)


def test_the_intervals_of_processes_vary_as_those_of_bench_do() -> None:
    runs = simulate_processes(random(), 400, spread=0.0, error=0.01, saved=2, planted=1, processes=3)
    assert runs.parts
    assert runs.now[:, 0].mean() == pytest.approx(math.log(0.9), abs=0.002)
    assert runs.now[:, 1:].std() == pytest.approx(0.01 / math.sqrt(3), rel=0.05)
    assert runs.parts[2].shape == (400, 2, COMPARISONS, 3)


def test_a_machine_that_did_not_change_is_rarely_slower_with_the_intervals_of_three_processes() -> None:
    drawn = {"spread": 0.015, "error": 0.005, "saved": 1, "processes": 3}
    assert engine(simulate_processes(random(), 60, planted=0, **drawn)).any(axis=1).mean() < 0.1  # type: ignore[arg-type]
    assert engine(simulate_processes(random(), 60, planted=1, **drawn))[:, 0].mean() > 0.8  # type: ignore[arg-type]


@pytest.mark.parametrize("error", [0.001, 0.1, 0.4])
def test_what_is_learnt_is_the_ratio_that_is_proven(error: float) -> None:
    ends = lower_ends(random(), (20,), error)
    for end, logs in zip(ends, error * random().standard_normal((20, 3)), strict=True):
        ratio = ratio_of_processes(logs.tolist())
        measured = Comparison(
            suite="s", name="n", verdict="faster", ratio=ratio.value, interval=(ratio.low, ratio.high)
        )
        assert shown(measured) == pytest.approx(math.exp(end))


def test_a_share_under_its_promise_is_marked() -> None:
    found = dataclasses.replace(of_engine(given("independent 1 %"), random(), 2, Passes(3, 0.1)), trials=1000)
    for held, text in ((0.96, "96.0"), (0.945, "*94.5*"), (0.9, "**90.0**")):
        judged = {"one": [dataclasses.replace(found, held=held)]}
        rows = calibrate_bench.side_by_side(judged, [given("independent 1 %")], "covered", lambda each: each.held)
        assert rows.splitlines()[-1].split("|")[2].strip() == text


def test_a_prediction_bound_keeps_the_share_of_its_level() -> None:
    def bounds(seen: Array) -> Array:
        wide = t.ppf(0.99, 4) * seen.std(axis=-1, ddof=1) * math.sqrt(1 + 1 / 5)
        lower: Array = seen.mean(axis=-1) - wide
        return lower

    found = learnt(random(), 1000, runs=5, machine=Machine("any", 0.02), bounds=bounds)
    assert found.each == pytest.approx(0.99, abs=0.002)
    assert found.whole == pytest.approx(0.99**COMPARISONS, abs=0.04)


def outcome(low: float, high: float) -> Outcome:
    return Outcome(Ratio(math.sqrt(low * high), low, high), 1.0)


def test_a_score_counts_verdicts_and_names_broken_promises() -> None:
    found = score([outcome(0.99, 1.01), outcome(1.05, 1.06), outcome(0.9, 0.95), outcome(0.7, 1.3)] * 4)
    assert (found.covered, found.held, found.faster, found.slower, found.noisy) == (0.5, 0.5, 0.25, 0.25, 0.25)
    assert (found.found_faster, found.found_slower) == (0.5, 0.75)
    assert found.misses(given("independent 1 %")) == ["covered", "false", "found"]
    assert found.misses(given("own wander 0.98")) == ["covered", "false"]


def test_noise_that_the_engine_tells_of_is_no_miss() -> None:
    """An interval beside the truth does no harm if the verdict is `too noisy`."""
    found = score([outcome(1.001, 1.5)] * 20)
    assert (found.covered, found.held, found.noisy) == (0, 1, 1)
    assert found.misses(given("own wander 0.98")) == []


def test_the_engine_covers_independent_noise() -> None:
    found = of_engine(given("independent 1 %"), random(), 150, Passes(5, 0.3))
    assert isinstance(found, Score)
    assert found.held > 0.85
    assert found.found_faster == found.found_slower == 1


def test_each_table_is_printed_and_the_same_seed_gives_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for _ in range(2):
        assert calibrate_bench.main(["methods", "designs", "learn", "--trials", "4"]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    for each in SCENARIOS:
        assert f"| {each.name} " in printed[0]


def test_the_engine_and_whole_runs_have_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert calibrate_bench.main(["engine", "compare", "--trials", "2"]) in {0, 1}
    text = capsys.readouterr().out
    assert "| boost end, one side " in text
    assert "Holm" in text


def test_an_unknown_table_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        calibrate_bench.main(["everything"])
    assert "unknown: everything" in capsys.readouterr().err
