"""The history of a machine: series, trends, and the page."""

from __future__ import annotations

import json

import pytest
from installed import skip_without_scipy

from tfgpu_doctor.bench.history import PastRun, history_of, trend_of
from tfgpu_doctor.bench.history_page import render_history, sparkline
from tfgpu_doctor.model.facts.bench import Bench, Comparison

skip_without_scipy()


def run(number: int, **ratios: float | None) -> PastRun:
    comparisons = [
        Comparison(suite="pipeline", name=name, verdict="faster" if ratio else "not run", ratio=ratio)
        for name, ratio in ratios.items()
    ]
    return PastRun(
        kept=1.8e9 + 3600 * number, name="first" if number == 0 else "", bench=Bench(comparisons=tuple(comparisons))
    )


RUNS = [run(number, cache=2 * 0.97**number, prefetch=1.5 if number % 2 else None) for number in range(8)]


def test_a_series_leaves_out_runs_that_measured_nothing() -> None:
    history = history_of("here", RUNS)
    cache, prefetch = history.comparisons
    assert cache.runs == tuple(range(8))
    assert prefetch.runs == (1, 3, 5, 7)
    assert [each.comparisons for each in history.runs] == [2] * 8
    assert [each.faster for each in history.runs] == [1, 2] * 4


def test_a_machine_that_gets_slower_is_told() -> None:
    cache, prefetch = history_of("here", RUNS).comparisons
    assert cache.trend == "falling"
    assert cache.step == pytest.approx(-0.03, abs=0.001)
    assert prefetch.trend == "too few runs"


@pytest.mark.parametrize(
    ("ratios", "trend"),
    [
        ([2.0] * 8, "steady"),
        ([2.0, 2.3, 1.9, 2.1, 2.2, 1.8, 2.1, 2.0], "steady"),
        ([2.0, 2.05, 2.1, 0.4, 2.2, 2.25, 2.3, 2.35], "rising"),  # one run that is far off changes nothing
        ([2.0, 2.05, 2.1], "too few runs"),
    ],
)
def test_trends(ratios: list[float], trend: str) -> None:
    assert trend_of(range(len(ratios)), ratios)[0] == trend


def test_the_page_tells_runs_and_trends() -> None:
    text = render_history(history_of("H100 | 550", RUNS), "text")
    assert "falling, -3.0% a run" in text
    assert "first" in text
    assert "1 of 2 faster" in text
    assert "2027-01-15" in text


def test_the_html_page_tells_the_same_and_draws_it() -> None:
    page = render_history(history_of("H100 | 550", RUNS), "html")
    for said in (
        "falling, -3.0% a run",
        "first",
        "1 of 2 faster",
        "2027-01-15",
        "1 falling",
        "1 too few runs",
        "8 runs of",
    ):
        assert said in page, said
    assert page.count('class="history"') == 2
    assert page.count("<circle") == 8 + 4


def test_no_run_is_said_with_what_makes_one() -> None:
    assert "this machine (here); `tfgpu-doctor bench` saves one" in render_history(history_of("here", []), "text")
    assert render_history(history_of("", []), "text") == "There is no saved run; `tfgpu-doctor bench` saves one.\n"
    page = render_history(history_of("here", []), "html")
    assert "No saved run of the perf suites" in page
    assert "<code>tfgpu-doctor bench</code></pre>" in page


def test_a_name_cannot_leave_its_cell() -> None:
    evil = PastRun(kept=1.8e9, name="a|b<script>\n# head", bench=RUNS[1].bench)
    page = render_history(history_of("<b>|x", [evil]), "markdown")
    assert "<script>" not in page
    assert "\n# head" not in page
    assert "a\\|b" in page
    assert json.loads(render_history(history_of("here", [evil]), "json"))["runs"][0]["name"] == evil.name


def test_bars_show_the_course() -> None:
    assert sparkline([1.0, 2.0, 3.0]) == "▁▅█"
    assert sparkline([2.0, 2.001]) == "▄▄"
