"""Render the report on a run of the perf suites as an HTML page with charts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from tfgpu_doctor.bench import charts
from tfgpu_doctor.bench import page as words
from tfgpu_doctor.bench.reasons import FAULT, no_faults, reasons, reference
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.render.charts import Axis
from tfgpu_doctor.render.layout import render_page

if TYPE_CHECKING:
    from tfgpu_doctor.bench.result import BenchReport
    from tfgpu_doctor.model.facts.bench import Comparison, Metric

_Row = TypeVar("_Row", "Comparison", "Metric")
_VERDICTS = {
    0: ("As expected", "good"),
    1: ("Not as expected", "bad"),
    3: ("Inconclusive", "poor"),
    130: ("Interrupted", "poor"),
}


@dataclass(frozen=True)
class ComparisonRow:
    """A comparison as text and as a bar."""

    comparison: Comparison
    tone: str
    bar: charts.Bar | None
    least: float | None  # position of the required minimum ratio, if that is more than 1
    ratio: str
    times: tuple[str, str]
    told: str  # why it was not measured, what disturbed it, or why it is no fault


def render_bench_html(result: BenchReport) -> str:
    """Render the whole page."""
    axis = charts.speed_up_axis(result.comparisons)
    changes = charts.change_axis(result.regressions)
    drawn, metrics = charts.curves(result.metrics)
    told = no_faults(result)
    word, tone = _VERDICTS.get(result.exit_code, _VERDICTS[1])
    return render_page(
        "bench.html.jinja",
        result=result,
        verdict_word=word,
        verdict_tone=tone,
        heading=_heading(result),
        against=_against(result, _sections(result)),
        subject=words.subject_of_bench(result),
        closing=words.closing(result),
        one_gpu=words.one_gpu(result),
        axis=axis,
        one=axis.at(1.0),
        suites=[
            (suite, [_row(each, axis, told.get(each.key, "")) for each in rows])
            for suite, rows in _by_suite(result.comparisons)
        ],
        curves=drawn,
        metrics=[
            (suite, [(each, words.measured(each), words.of_limits(each), charts.share(each)) for each in rows])
            for suite, rows in _by_suite(sorted(metrics, key=lambda each: each.name))
        ],
        reference=reference(result),
        changed=words.changed_in_words(result),
        changes=changes,
        same=changes.at(1.0),
        compared=any(each.change for each in result.regressions),
        regressions=[
            (each, charts.TONES[each.status], charts.change(each, changes), words.change_in_words(each), charts.trend(each))
            for each in result.regressions
        ],
        found_wrong=words.found_wrong(result),
        left_out=words.left_out(result),
    )  # fmt: skip


def _heading(result: BenchReport) -> str:
    ran = [comparison for comparison in result.comparisons if comparison.verdict != "not run"]
    if not ran:
        return amount(len(result.metrics), "metric") if result.metrics else "No comparison was measured"
    faster = sum(comparison.verdict == "faster" for comparison in ran)
    return f"{faster} of {len(ran)} candidates are faster" if len(ran) > 1 else f"One comparison: {ran[0].verdict}"


def _against(result: BenchReport, sections: set[str]) -> list[tuple[str, str, str]]:
    """Return the reasons for the exit code: of each the section that explains it, if there is one, a tone, and one line."""
    return [
        (each.section if each.section in sections else "", "bad" if each.code == FAULT else "poor", each.text)
        for each in reasons(result)
    ]


def _sections(result: BenchReport) -> set[str]:
    """Return the names of the sections that the page has."""
    parts = {
        "causes": result.causes, "comparisons": result.comparisons, "history": result.regressions,
        "wrong": words.found_wrong(result), "left-out": words.left_out(result),
    }  # fmt: skip
    return {name for name, rows in parts.items() if rows}


def _row(comparison: Comparison, axis: Axis, no_fault: str) -> ComparisonRow:
    least = axis.at(comparison.at_least) if comparison.at_least > 1 else None
    return ComparisonRow(
        comparison,
        charts.TONES[comparison.verdict],
        charts.speed_up(comparison, axis),
        least,
        words.ratio(comparison),
        words.times(comparison),
        comparison.reason if comparison.verdict == "not run" else no_fault or words.clock_that_fell(comparison),
    )


def _by_suite(rows: Iterable[_Row]) -> list[tuple[str, list[_Row]]]:
    found: dict[str, list[_Row]] = {}
    for row in rows:
        found.setdefault(row.suite, []).append(row)
    return [(_in_words(suite), members) for suite, members in found.items()]


def _in_words(suite: str) -> str:
    return suite.replace("_", " ")
