"""The history of the perf suites on one machine, as text, Markdown and JSON."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import msgspec
from tabulate import tabulate

from tfgpu_doctor.bench.history import DuelHistory, History
from tfgpu_doctor.reports.markdown_page import escape
from tfgpu_doctor.reports.text import clean

_BARS = "▁▂▃▄▅▆▇█"
_MOST_BARS = 24  # of the newest runs
_HEADS = ("suite", "duel", "runs", "median", "spread", "latest", "trend", "oldest to newest")


def render_history(history: History, format_: str) -> str:
    """The document in one of the formats `text`, `markdown`, `json`."""
    if format_ == "json":
        return msgspec.json.format(msgspec.json.encode(history), indent=2).decode() + "\n"
    style, safe = ("pipe", escape) if format_ == "markdown" else ("simple", clean)
    if not history.runs:
        return f"No run is kept of this machine ({safe(history.place)}); `tfgpu-doctor bench` keeps one.\n"
    runs = [(_day(run.kept), safe(run.name), f"{run.faster} of {run.duels} faster") for run in history.runs]
    duels = [_row(each) for each in history.duels]
    parts = [
        safe(history.place),
        tabulate(duels, headers=_HEADS, tablefmt=style, disable_numparse=True),
        tabulate(runs, headers=("kept", "name", "duels"), tablefmt=style, disable_numparse=True),
    ]
    return "\n\n".join(parts) + "\n"


def _row(duel: DuelHistory) -> tuple[str, ...]:
    trend = duel.trend if duel.step is None else f"{duel.trend}, {duel.step:+.1%} a run"
    return (
        duel.suite, duel.name, str(len(duel.ratios)), f"{duel.median:.2f}", f"±{duel.spread:.0%}", f"{duel.ratios[-1]:.2f}",
        trend, sparkline(duel.ratios[-_MOST_BARS:]),
    )  # fmt: skip


def sparkline(values: Sequence[float]) -> str:
    """One bar a value, the lowest of them the smallest; all the same where they hardly differ."""
    low, high = min(values), max(values)
    if high - low < 0.01 * high:
        return _BARS[3] * len(values)
    return "".join(_BARS[round((value - low) / (high - low) * (len(_BARS) - 1))] for value in values)


def _day(kept: float) -> str:
    return dt.datetime.fromtimestamp(kept, dt.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
