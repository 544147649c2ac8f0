"""The charts, as a browser draws them: marks lie where the numbers say."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from browser import Browser
from built_bench import built_bench, built_history, built_report

from tfgpu_doctor.bench.history_page import render_history
from tfgpu_doctor.bench.page import render_bench

MARKS = """
const box = each => { const {left, right, top, bottom, width} = each.getBoundingClientRect();
  return {left, right, top, bottom, width, middle: (left + right) / 2, height: (top + bottom) / 2}; };
return [...document.querySelectorAll("%s")].map(svg => ({
  words: svg.getAttribute("aria-label"), frame: box(svg),
  circles: [...svg.querySelectorAll("circle")].map(box), lines: [...svg.querySelectorAll("line.%s")].map(box),
  even: [...svg.querySelectorAll("line.even")].map(box), marked: [...svg.querySelectorAll("circle.now")].map(box),
  texts: [...svg.querySelectorAll("text")].map(each => each.textContent), filled: [...svg.querySelectorAll("rect.filled")].map(box),
}));
"""


def marks(browser: Browser, svg: str, line: str = "curve") -> list[dict[str, Any]]:
    """What is drawn in each chart of a kind."""
    found: list[dict[str, Any]] = browser.run(MARKS % (svg, line))
    return found


@pytest.fixture(scope="module", params=[1200, 360])
def width(request: pytest.FixtureRequest) -> int:
    found: int = request.param
    return found


@pytest.fixture(scope="module")
def bench(browser: Browser, width: int) -> Browser:
    browser.show(render_bench(built_report(30), "html"), width=width)
    return browser


def test_every_measured_comparison_is_drawn_with_its_interval(bench: Browser) -> None:
    comparisons = [comparison for comparison in built_bench(30, run=8).comparisons if comparison.ratio]
    bars = marks(bench, "#comparisons svg.bar", "interval")
    assert len(bars) == len(comparisons) == 29
    places = {}
    for bar in bars:
        [circle] = bar["circles"]
        whole, *_ = bar["lines"]
        assert bar["frame"]["left"] <= circle["left"] < circle["right"] <= bar["frame"]["right"]
        assert whole["left"] <= circle["middle"] <= whole["right"]
        places[bar["words"]] = circle["middle"] - bar["even"][0]["middle"]
    by_ratio = sorted(places, key=lambda words: float(words.split()[0]))
    assert all(places[low] <= places[high] + 0.5 for low, high in itertools.pairwise(by_ratio))
    assert all((float(words.split()[0]) > 1) == (place > 0) for words, place in places.items())


def test_changes_and_history_are_drawn(bench: Browser) -> None:
    regressions = built_report(30).regressions
    compared = [each for each in regressions if each.change]
    assert len(marks(bench, "#history svg.bar", "interval")) == len(compared)
    courses = marks(bench, "#history svg.history")
    assert [len(each["circles"]) for each in courses] == [9] * len(compared)  # 8 earlier runs and this one
    for each, regression in zip(courses, compared, strict=True):
        first, last = each["circles"][0], each["circles"][-1]
        assert regression.change
        assert (last["height"] > first["height"]) == (regression.change < 1)  # slower lies further down
        assert each["marked"] == [last]


def test_crossover_and_knee_stand_out(bench: Browser) -> None:
    crossover, knee = marks(bench, "#curves svg")
    for curve, points in ((crossover, 7), (knee, 6)):
        assert len(curve["circles"]) == points
        assert len(curve["lines"]) == points - 1
        assert len(curve["marked"]) == 1
        assert all(a["middle"] < b["middle"] for a, b in itertools.pairwise(curve["circles"]))
        assert all(a["height"] > b["height"] for a, b in itertools.pairwise(curve["circles"]))
        for line, (start, end) in zip(curve["lines"], itertools.pairwise(curve["circles"]), strict=True):
            assert line["left"] == pytest.approx(start["middle"], abs=1)
            assert line["right"] == pytest.approx(end["middle"], abs=1)
    [even] = crossover["even"]
    below = [circle for circle in crossover["circles"] if circle["height"] > even["height"]]
    assert len(below) == 2  # 64 and 128, where the CPU wins
    assert crossover["marked"][0] == crossover["circles"][2]
    assert {"64", "4096", "1x"} <= set(crossover["texts"])
    words = bench.run("return document.querySelector('#curves').textContent")
    assert "crossover of matmul: 256, the GPU wins from this size on" in words
    assert "knee of the batch size: 256, reaches 90% of 41200 samples/s" in words


def test_figures_are_as_long_as_their_share(bench: Browser) -> None:
    shares = marks(bench, "#metrics svg.share", "least")
    assert len(shares) == 24
    for each in shares:
        said = float(each["words"].split("%")[0]) / 100
        assert each["filled"][0]["width"] / each["frame"]["width"] == pytest.approx(said, abs=0.01)
    reached = [each for each in shares if each["lines"]]
    assert len(reached) == 8  # those with a measured limit beside the data sheet's
    for each in reached:
        length = each["lines"][0]["middle"] - each["frame"]["left"]
        assert length / each["frame"]["width"] == pytest.approx(712 / 989, abs=0.01)
        assert "71% of 712 TFLOP/s that matmul in bfloat16 reached" in each["words"]


def test_the_numbers_stand_beside_each_curve(bench: Browser) -> None:
    rows = bench.run("return [...document.querySelectorAll('#curves tbody tr')].map(each => each.textContent)")
    assert len(rows) == 13
    assert "25640,800" in rows


def test_every_run_of_the_history_is_drawn(browser: Browser, width: int) -> None:
    history = built_history()
    browser.show(render_history(history, "html"), width=width)
    assert sorted(len(each["circles"]) for each in marks(browser, "svg.history")) == sorted(
        len(comparison.ratios) for comparison in history.comparisons
    )
    first = browser.run("return document.querySelector('tbody th').textContent")
    assert first.startswith(("technique_3", "technique_10"))  # what falls comes first
