"""The report on a run of the perf suites."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec
from tabulate import tabulate

from tfgpu_doctor.bench.regression import Regression
from tfgpu_doctor.bench.result import BenchReport
from tfgpu_doctor.model.facts.bench import Comparison, Metric
from tfgpu_doctor.model.report import RootCause
from tfgpu_doctor.render.json_document import as_json
from tfgpu_doctor.render.markdown_page import cause_in_markdown, escape
from tfgpu_doctor.render.text import Page, clean, say_cause
from tfgpu_doctor.render.words import gpus_in_words, number

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
_WIDTH = 110  # columns of what is no table
_ALWAYS = {
    "suite": "",
    "name": "",
    "verdict": "",
    "ratio": None,
    "interval": None,
    "rounds": 0,
    "reason": "",
    "device": "",
}


def render_bench(result: BenchReport, format_: str) -> str:
    """The document in one of the formats."""
    if format_ == "json":
        document = msgspec.to_builtins(result)
        document["comparisons"] = [{**_ALWAYS, **comparison} for comparison in document["comparisons"]]
        return as_json(document)
    if format_ == "html":
        from tfgpu_doctor.bench.html_page import render_bench_html

        return render_bench_html(result)
    page = _MARKDOWN if format_ == "markdown" else _TEXT
    return "\n\n".join(page.parts(result)) + "\n"


@dataclass(frozen=True)
class _Page:
    """The parts of the page: tables in a style of tabulate's, text made safe for the format."""

    style: str
    safe: Callable[[str], str]
    causes: Callable[[Sequence[RootCause]], str]
    lines: Callable[[Iterable[str]], str]

    def parts(self, result: BenchReport) -> list[str]:
        parts = [
            self._one_line(subject_of_bench(result)),
            self.causes(result.causes),
            self._comparisons(result.comparisons),
        ]
        parts += [self._metrics(result.metrics)]
        if result.reference:
            parts.append(self._regressions(result.regressions))
        parts.append(self.lines(f"not measured: {names}: {why}" for why, names in left_out(result)))
        parts.append(self.lines(f"✗ {line}" for line in found_wrong(result)))
        parts.append(self._one_line(not_told(result)))
        return [part for part in (*parts, self._one_line(closing(result))) if part]

    def _one_line(self, text: str) -> str:
        return self.safe(text.replace("\n", " "))

    def _table(self, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
        safe = [[self._one_line(cell) for cell in row] for row in rows]
        return tabulate(safe, headers=heads, tablefmt=self.style, disable_numparse=True) if safe else ""

    def _comparisons(self, comparisons: Sequence[Comparison]) -> str:
        heads = ("suite", "comparison", "verdict", "times as fast (95 %)", "rounds", "with it", "without it")
        rows = [
            (each.suite, each.name, each.verdict, ratio(each), str(each.rounds or ""), *times(each))
            for each in comparisons
        ]
        return self._table(heads, rows)

    def _metrics(self, metrics: Sequence[Metric]) -> str:
        heads = ("suite", "metric", "measured", "of what is possible", "device")
        rows = [(each.suite, each.name, measured(each), "; ".join(of_limits(each)), each.device) for each in metrics]
        return self._table(heads, rows)

    def _regressions(self, regressions: Sequence[Regression]) -> str:
        heads = ("suite", "comparison", "against the reference", "change", "earlier runs", "")
        rows = [
            (each.suite, each.name, each.status, change_in_words(each), str(each.runs or ""), each.reason)
            for each in regressions
        ]
        return self._table(heads, rows)


def _causes_in_markdown(causes: Iterable[RootCause]) -> str:
    return "\n".join(line for cause in causes for line in cause_in_markdown(cause)).rstrip()


def _causes_in_text(causes: Iterable[RootCause]) -> str:
    page = Page(_WIDTH, colour=False)
    for cause in causes:
        say_cause(page, cause, verbose=False)
    return page.text.rstrip()


def _lines_in_markdown(lines: Iterable[str]) -> str:
    return "\n".join(f"- {escape(line)}" for line in lines)


def _lines_in_text(lines: Iterable[str]) -> str:
    page = Page(_WIDTH, colour=False)
    for line in lines:
        page.say(line)
    return page.text.rstrip()


_TEXT = _Page("simple", clean, _causes_in_text, _lines_in_text)
_MARKDOWN = _Page("pipe", escape, _causes_in_markdown, _lines_in_markdown)


def subject_of_bench(result: BenchReport) -> str:
    """What was measured, on one line."""
    machine = result.machine
    words = (
        f"TensorFlow {result.target.tensorflow}" if result.target.tensorflow else "",
        gpus_in_words(machine.gpus) or "no GPU",
        f"driver {machine.driver}" if machine.driver else "",
        machine.system,
    )
    return " · ".join(word for word in words if word)


def ratio(comparison: Comparison) -> str:
    """`1.54 (1.50 to 1.60)`; empty where it was not measured."""
    if comparison.ratio is None or comparison.interval is None:
        return ""
    return f"{comparison.ratio:.2f} ({comparison.interval[0]:.2f} to {comparison.interval[1]:.2f})"


def times(comparison: Comparison) -> tuple[str, str]:
    """The median of the candidate and of the baseline: 1.23 ms."""
    first, second = (_time(side.median_s) if side else "" for side in (comparison.candidate, comparison.baseline))
    return first, second


def _time(seconds: float) -> str:
    """Three significant digits, in the unit that suits."""
    size, unit = next((row for row in _UNITS if seconds >= row[0]), _UNITS[-1])
    return f"{seconds / size:.3g} {unit}"


def measured(metric: Metric) -> str:
    """The value with its unit."""
    return f"{number(metric.value)} {metric.unit}".rstrip()


def of_limits(metric: Metric) -> list[str]:
    """Which share of its limits a metric is: the data sheet's, and the most that was measured here."""
    rows = [(metric.limit, ""), (metric.measured_limit, f" that {metric.bounded_by} reached")]
    return [
        f"{metric.value / limit:.0%} of {number(limit)} {metric.unit}".rstrip() + which
        for limit, which in rows
        if limit
    ]


def change_in_words(regression: Regression) -> str:
    """`-10.0%`; empty where there is nothing to compare with."""
    return f"{regression.change - 1:+.1%}" if regression.change else ""


def left_out(result: BenchReport) -> list[tuple[str, str]]:
    """Why something was not measured, each reason once, with the names of what it kept from being measured."""
    in_table = {comparison.name for comparison in result.comparisons}
    found: dict[str, list[str]] = {}
    for test, why in result.skipped.items():
        if _short_name(test) not in in_table:
            found.setdefault(why, []).append(_short_name(test))
    for comparison in result.comparisons:
        if comparison.verdict == "not run":
            found.setdefault(comparison.reason, []).append(f"{comparison.name} ({comparison.suite})")
    return [(why, ", ".join(names)) for why, names in found.items()]


def found_wrong(result: BenchReport) -> list[str]:
    """What kept suites from running, and the tests that found something wrong which no cause tells already."""
    told = {line for cause in result.causes for line in cause.evidence}
    failed = [(test, why) for test, why in result.failed.items() if f"{test}: {why}" not in told]
    return [*result.problems, *(f"{_short_name(test)}: {why}" for test, why in failed)]


def not_told(result: BenchReport) -> str:
    """What to do where a run could not be set against its reference; empty where it could."""
    if not result.untold:
        return ""
    of_them = "1 comparison" if result.untold == 1 else f"{result.untold} comparisons"
    why = f"of {of_them} it could not be told whether a tenth is lost"
    return f"{why}: run it again with --budget full, or when the machine is quiet"


def _short_name(test: str) -> str:
    return test.rpartition("::")[2].removeprefix("test_")


def closing(result: BenchReport) -> str:
    """How many comparisons got which verdict, how many are as in the reference, and the time."""
    parts = [_counted([comparison.verdict for comparison in result.comparisons]) or "no comparison was measured"]
    if result.regressions:
        parts.append(f"against {reference(result)}: {_counted([each.status for each in result.regressions])}")
    return " · ".join([*parts, f"{result.seconds:.1f} s"])


def _counted(words: Sequence[str]) -> str:
    return ", ".join(f"{words.count(each)} {each}" for each in dict.fromkeys(words))


def reference(result: BenchReport) -> str:
    """The run that this one was compared with, in words."""
    return "the last run" if result.reference == "last" else f"the reference {result.reference}"
