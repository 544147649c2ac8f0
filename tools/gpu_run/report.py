"""report.md: what a human reads first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tabulate import tabulate

from gpu_run.results import PartResult, Results

_MOST = 240  # characters of a cell


def page(results: Results) -> str:
    """The whole page."""
    gpus = ", ".join(results.machine.get("GPUs", ())) or "no GPU"
    lines = [f"# Recording of {'a stand-in for ' if results.stand_in else ''}{gpus}", ""]
    lines += [f"Begun {results.began}, tfgpu-doctor {results.doctor}, {results.minutes:g} minutes given."]
    if results.stand_in:
        lines += ["", "**A processor stood in for the GPU: no figure on this page says how fast a GPU is.**"]
    lines += [
        "",
        "## Machine",
        "",
        table(("what", "value"), [(key, said(value)) for key, value in results.machine.items()]),
    ]
    lines += ["", "## Parts", "", table(("part", "state", "seconds", "commands", "question"), map(_row, results.parts))]
    lines += ["", "## Findings: what was wrong, or has to be looked at", ""]
    lines += [f"- **{each.part}**: {plain(each.what)}" for each in results.findings] or ["none"]
    missing = [f"- **{each.name}** ({each.status}): {plain(each.why)}" for each in results.parts if each.why]
    lines += ["", "## Not reached, not run, cut short", "", *(missing or ["nothing"])]
    lines += ["", *(f"- too large to pack: {each}" for each in results.left_out)]
    for each in results.tables:
        lines += ["", f"## {each.part}: {each.title}", "", table(each.headers, each.rows) if each.rows else "nothing"]
    return "\n".join(lines) + "\n"


def _row(part: PartResult) -> tuple[Any, ...]:
    return part.name, part.status, f"{part.seconds:.0f} of {part.given_s:.0f}", len(part.commands), part.question


def table(headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table in Markdown."""
    shown = [[plain("" if cell is None else str(cell)) for cell in row] for row in rows]
    return tabulate(shown, headers=headers, tablefmt="pipe", disable_numparse=True)


def said(value: Any) -> str:
    """A value in words."""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def plain(text: str) -> str:
    """A text on one line, that ends no cell."""
    short = text if len(text) <= _MOST else f"{text[:_MOST]}…"
    return " ".join(short.split()).replace("|", "\\|").replace("<", "&lt;")
