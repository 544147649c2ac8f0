"""The history of the perf suites on one machine, in every format."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from tabulate import tabulate

from tfgpu_doctor.bench.history import DuelHistory, History, Trend
from tfgpu_doctor.render.json_document import as_json
from tfgpu_doctor.render.markdown_page import escape
from tfgpu_doctor.render.text import clean

_BARS = "▁▂▃▄▅▆▇█"
_MOST_BARS = 24  # of the newest runs
_MOST_POINTS = 60
_TONES: dict[Trend, str] = {"falling": "bad", "rising": "good", "steady": "good", "too few runs": "idle"}
_HEADS = ("suite", "duel", "runs", "median", "spread", "latest", "trend", "oldest to newest")


def render_history(history: History, format_: str) -> str:
    """The document in one of the formats `text`, `markdown`, `json`, `html`."""
    if format_ == "json":
        return as_json(history)
    if format_ == "html":
        return _html(history)
    style, safe = ("pipe", escape) if format_ == "markdown" else ("simple", clean)
    if not history.runs:
        return f"No run is kept of this machine ({safe(history.place)}); `tfgpu-doctor bench` keeps one.\n"
    runs = [(day(run.kept), safe(run.name), f"{run.faster} of {run.duels} faster") for run in history.runs]
    duels = [_row(each) for each in history.duels]
    parts = [
        safe(history.place),
        tabulate(duels, headers=_HEADS, tablefmt=style, disable_numparse=True),
        tabulate(runs, headers=("kept", "name", "duels"), tablefmt=style, disable_numparse=True),
    ]
    return "\n\n".join(parts) + "\n"


def _html(history: History) -> str:
    from tfgpu_doctor.render.charts import course
    from tfgpu_doctor.render.layout import render_page

    newest = len(history.runs) - 1
    return render_page(
        "history.html.jinja",
        history=history,
        counts=[(way, tone, sum(each.trend == way for each in history.duels)) for way, tone in _TONES.items()],
        duels=[
            (each, _TONES[each.trend], _trend(each), course(each.ratios[-_MOST_POINTS:]), each.runs[-1] == newest)
            for each in sorted(history.duels, key=lambda each: list(_TONES).index(each.trend))
        ],
        runs=[(run, day(run.kept)) for run in reversed(history.runs)],
    )


def _trend(duel: DuelHistory) -> str:
    moves = duel.trend in ("rising", "falling")
    return f"{duel.trend}, {duel.step:+.1%} a run" if moves and duel.step is not None else duel.trend


def _row(duel: DuelHistory) -> tuple[str, ...]:
    return (
        duel.suite, duel.name, str(len(duel.ratios)), f"{duel.median:.2f}", f"±{duel.spread:.0%}", f"{duel.ratios[-1]:.2f}",
        _trend(duel), sparkline(duel.ratios[-_MOST_BARS:]),
    )  # fmt: skip


def sparkline(values: Sequence[float]) -> str:
    """One bar a value, the lowest of them the smallest; all the same where they hardly differ."""
    low, high = min(values), max(values)
    if high - low < 0.01 * high:
        return _BARS[3] * len(values)
    return "".join(_BARS[round((value - low) / (high - low) * (len(_BARS) - 1))] for value in values)


def day(kept: float) -> str:
    """When a run was kept."""
    return dt.datetime.fromtimestamp(kept, dt.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
