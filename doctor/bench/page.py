"""Render the report on a run of the perf suites."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec
from tabulate import tabulate

from tfgpu_doctor.bench.reasons import FAULT, no_faults, reasons, reference, short_name
from tfgpu_doctor.bench.regression import Regression
from tfgpu_doctor.bench.result import BenchReport
from tfgpu_doctor.bench.verdict import CLOCK_FELL
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.facts.bench import Comparison, Metric
from tfgpu_doctor.model.plain_text import one_line
from tfgpu_doctor.model.report import RootCause
from tfgpu_doctor.render.json_document import as_json
from tfgpu_doctor.render.markdown_page import cause_in_markdown, escape
from tfgpu_doctor.render.text import Page, say_cause
from tfgpu_doctor.render.words import gpus_in_words, number

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
_WIDTH = 110  # columns of text outside tables
_FEW = 4
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
    """Render the document in one of the formats."""
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
    """Renders the parts of a page: tables in a tabulate style, text escaped for the format."""

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
            parts += [self._one_line(changed_in_words(result)), self._regressions(result.regressions)]
        parts.append(self.lines(clocks_that_fell(result)))
        parts.append(self.lines(f"not measured: {names}: {why}" for why, names in left_out(result)))
        parts.append(self.lines(f"{key.replace('::', ' ')}: {why}" for key, why in no_faults(result).items()))
        parts.append(self.lines([told] if (told := one_gpu(result)) else []))
        parts.append(self.lines(f"✗ {line}" for line in found_wrong(result)))
        parts.append(self.lines(not_told(result)))
        return [part for part in (*parts, self._one_line(closing(result))) if part]

    def _one_line(self, text: str) -> str:
        return self.safe(text)

    def _table(self, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
        safe = [[self._one_line(cell) for cell in row] for row in rows]
        return tabulate(safe, headers=heads, tablefmt=self.style, disable_numparse=True) if safe else ""

    def _comparisons(self, comparisons: Sequence[Comparison]) -> str:
        heads = ("suite", "comparison", "verdict", "times as fast (95 %)", "rounds", "candidate", "baseline")
        rows = [
            (each.suite, each.name, each.verdict, ratio(each), str(each.rounds or ""), *times(each))
            for each in comparisons
        ]
        return self._table(heads, rows)

    def _metrics(self, metrics: Sequence[Metric]) -> str:
        heads = ("suite", "metric", "measured", "share of the limit", "device")
        rows = [(each.suite, each.name, measured(each), "; ".join(of_limits(each)), each.device) for each in metrics]
        return self._table(heads, rows)

    def _regressions(self, regressions: Sequence[Regression]) -> str:
        heads = ("suite", "comparison", "status", "change", "earlier runs", "")
        rows = [
            (each.suite, each.name, each.status, change_in_words(each), str(each.runs or ""), _told(each))
            for each in regressions
        ]
        return self._table(heads, rows)


def _told(regression: Regression) -> str:
    return f"measured twice: {regression.reason}" if regression.measured_again else regression.reason


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


_TEXT = _Page("simple", one_line, _causes_in_text, _lines_in_text)
_MARKDOWN = _Page("pipe", escape, _causes_in_markdown, _lines_in_markdown)


def subject_of_bench(result: BenchReport) -> str:
    """Describe the measured machine on one line."""
    machine = result.machine
    words = (
        f"TensorFlow {result.target.tensorflow}" if result.target.tensorflow else "",
        gpus_in_words(machine.gpus) or "no GPU",
        f"driver {machine.driver}" if machine.driver else "",
        machine.system,
    )
    return " · ".join(word for word in words if word)


def ratio(comparison: Comparison) -> str:
    """Format the ratio as `1.54 (1.50 to 1.60)`; empty if it was not measured."""
    if comparison.ratio is None or comparison.interval is None:
        return ""
    return f"{comparison.ratio:.2f} ({comparison.interval[0]:.2f} to {comparison.interval[1]:.2f})"


def times(comparison: Comparison) -> tuple[str, str]:
    """Format the median times of the candidate and the baseline, such as 1.23 ms."""
    first, second = (_time(side.median_s) if side else "" for side in (comparison.candidate, comparison.baseline))
    return first, second


def _time(seconds: float) -> str:
    """Format a time with three significant digits in a suitable unit."""
    size, unit = next((row for row in _UNITS if seconds >= row[0]), _UNITS[-1])
    return f"{seconds / size:.3g} {unit}"


def measured(metric: Metric) -> str:
    """Format the value with its unit."""
    return f"{number(metric.value)} {metric.unit}".rstrip()


def of_limits(metric: Metric) -> list[str]:
    """Format a metric as a share of its limits: the data sheet's, and the maximum measured on this machine."""
    rows = [(metric.limit, ""), (metric.measured_limit, f" that {metric.bounded_by} reached")]
    return [
        f"{metric.value / limit:.0%} of {number(limit)} {metric.unit}".rstrip() + which
        for limit, which in rows
        if limit
    ]


def change_in_words(regression: Regression) -> str:
    """Format the change as `-10.0%`; empty if there is nothing to compare with."""
    return f"{regression.change - 1:+.1%}" if regression.change else ""


def changed_in_words(result: BenchReport) -> str:
    """Say what else differs from the reference; empty if nothing is known to."""
    told = [f"{each.what} {each.reference} → {each.now}" for each in result.changed]
    return f"changed since {reference(result)}: {'; '.join(told)}" if told else ""


def left_out(result: BenchReport) -> list[tuple[str, str]]:
    """List the reasons why something was not measured, each once, with the names of the tests and comparisons."""
    in_table = {comparison.name for comparison in result.comparisons}
    found: dict[str, list[str]] = {}
    for test, why in result.skipped.items():
        if short_name(test) not in in_table:
            found.setdefault(why, []).append(short_name(test))
    for comparison in result.comparisons:
        if comparison.verdict == "not run":
            found.setdefault(comparison.reason, []).append(f"{comparison.name} ({comparison.suite})")
    return [(why, ", ".join(names)) for why, names in found.items()]


def clock_that_fell(comparison: Comparison) -> str:
    """Say that the clock of a GPU fell during a comparison, whose sides then had not the same one; empty if none did."""
    return "; ".join(part for part in comparison.reason.split("; ") if part.startswith(CLOCK_FELL))


def clocks_that_fell(result: BenchReport) -> list[str]:
    """List the comparisons during which the clock of a GPU fell."""
    return [f"{each.name}: {told}" for each in result.comparisons if (told := clock_that_fell(each))]


def found_wrong(result: BenchReport) -> list[str]:
    """List the problems that stopped suites, and the failed tests that no cause reports already, each reason once."""
    told = {line for cause in result.causes for line in cause.evidence}
    failed: dict[str, list[str]] = {}
    for test, why in result.failed.items():
        if f"{test}: {why}" not in told:
            failed.setdefault(why, []).append(short_name(test))
    return [*result.problems, *(f"{', '.join(names)}: {why}" for why, names in failed.items())]


def one_gpu(result: BenchReport) -> str:
    """Say which GPUs were not measured, where work for one GPU was measured on others; empty if none was left out."""
    left = result.gpus_not_measured
    if not left:
        return ""
    listed = [f"GPU:{number}" for number in range(result.gpus_listed)]
    measured = ", ".join(name for name in listed if name not in left)
    is_end = len(left) > _FEW and listed[-len(left) :] == [*left]
    names = f"{left[0]} to {left[-1]}" if is_end else ", ".join(left)
    others = f"{amount(len(left), 'other GPU')} {'was' if len(left) == 1 else 'were'}"
    how = "`tfgpu-doctor --level deep` tests every GPU"
    return f"what needs one GPU was measured on {measured}; {others} not measured ({names}): {how}"


def not_told(result: BenchReport) -> list[str]:
    """List the reasons for the exit code that neither a cause, a problem nor a table tells."""
    told = ("causes", "wrong", "")
    found = [each for each in reasons(result) if each.section not in told]
    return [
        f"✗ {each.text}" if each.code == FAULT else each.text
        for each in found
        if (each.code, each.section) != (FAULT, "history")
    ]


def closing(result: BenchReport) -> str:
    """Count the comparisons by verdict and by status against the reference, and add the time."""
    parts = ["interrupted"] if result.interrupted else []
    parts += [_counted([comparison.verdict for comparison in result.comparisons]) or without_comparisons(result)]
    if result.regressions:
        parts.append(f"compared with {reference(result)}: {_counted([each.status for each in result.regressions])}")
    return " · ".join([*parts, f"{result.seconds:.1f} s"])


def without_comparisons(result: BenchReport) -> str:
    """Say what was measured where no comparison was."""
    measured = amount(len(result.metrics), "metric")
    return f"{measured}, no comparison" if result.metrics else "no comparison was measured"


def _counted(words: Sequence[str]) -> str:
    return ", ".join(f"{words.count(each)} {each}" for each in dict.fromkeys(words))
