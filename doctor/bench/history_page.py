"""Render the history of the perf suites on one machine, in every format."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from textwrap import indent

from tabulate import tabulate

from tfgpu_doctor.bench.history import ComparisonHistory, History, Trend
from tfgpu_doctor.model.plain_text import one_line
from tfgpu_doctor.render.json_document import as_json
from tfgpu_doctor.render.markdown_page import escape

_BARS = "▁▂▃▄▅▆▇█"
_MOST_BARS = 24  # of the newest runs
_MOST_POINTS = 60
_TONES: dict[Trend, str] = {"falling": "bad", "rising": "good", "steady": "good", "too few runs": "idle"}
_HEADS = ("suite", "comparison", "runs", "median", "spread", "latest", "trend", "oldest to newest")


def render_history(history: History, format_: str) -> str:
    """Render the document in one of the formats `text`, `markdown`, `json`, `html`."""
    if format_ == "json":
        return as_json(history)
    if format_ == "html":
        return _html(history)
    style, safe = ("pipe", escape) if format_ == "markdown" else ("simple", one_line)
    if not history.runs:
        whose = f" of this machine ({safe(history.place)})" if history.place else ""
        return f"There is no saved run{whose}; `tfgpu-doctor bench` saves one.\n"
    runs = [(day(run.kept), safe(run.name), f"{run.faster} of {run.comparisons} faster") for run in history.runs]
    comparisons = [[safe(cell) for cell in _row(each)] for each in history.comparisons]
    table = tabulate(comparisons, headers=_HEADS, tablefmt=style, disable_numparse=True)
    parts = [
        f"Runs of {safe(history.place)}",
        table if format_ == "markdown" else indent(table, "  "),  # a name at the margin could forge a verdict
        tabulate(runs, headers=("saved", "name", "comparisons"), tablefmt=style, disable_numparse=True),
    ]
    return "\n\n".join(parts) + "\n"


def _html(history: History) -> str:
    from tfgpu_doctor.render.charts import course
    from tfgpu_doctor.render.layout import render_page

    newest = len(history.runs) - 1
    return render_page(
        "history.html.jinja",
        history=history,
        counts=[(way, tone, sum(each.trend == way for each in history.comparisons)) for way, tone in _TONES.items()],
        comparisons=[
            (each, _TONES[each.trend], _trend(each), course(each.ratios[-_MOST_POINTS:]), each.runs[-1] == newest)
            for each in sorted(history.comparisons, key=lambda each: list(_TONES).index(each.trend))
        ],
        runs=[(run, day(run.kept)) for run in reversed(history.runs)],
    )


def _trend(comparison: ComparisonHistory) -> str:
    moves = comparison.trend in ("rising", "falling")
    return (
        f"{comparison.trend}, {comparison.step:+.1%} a run"
        if moves and comparison.step is not None
        else comparison.trend
    )


def _row(row: ComparisonHistory) -> tuple[str, ...]:
    return (
        row.suite, row.name, str(len(row.ratios)), f"{row.median:.2f}", f"±{row.spread:.0%}", f"{row.ratios[-1]:.2f}",
        _trend(row), sparkline(row.ratios[-_MOST_BARS:]),
    )  # fmt: skip


def sparkline(values: Sequence[float]) -> str:
    """Return one bar per value, the smallest for the lowest; bars of equal height if the values hardly differ."""
    low, high = min(values), max(values)
    if high - low < 0.01 * high:
        return _BARS[3] * len(values)
    return "".join(_BARS[round((value - low) / (high - low) * (len(_BARS) - 1))] for value in values)


def day(kept: float) -> str:
    """Format the time when a run was saved."""
    return dt.datetime.fromtimestamp(kept, dt.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
