"""The output formats: each renders the report, and nothing but the report."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping

from tfgpu_doctor.report import Report

_WIDEST = 110


def render(report: Report, format_: str, *, verbose: bool = False, to_terminal: bool = False) -> str:
    """The report in one of the formats `text`, `json`, `markdown`, as a whole document with its last newline."""
    if format_ == "json":
        from tfgpu_doctor.reports.json_document import render_json

        return render_json(report)
    if format_ == "markdown":
        from tfgpu_doctor.reports.markdown_page import render_markdown

        return render_markdown(report)
    from tfgpu_doctor.reports.text import render_text

    width, colour = look_of_text(to_terminal=to_terminal)
    return render_text(report, width=width, colour=colour, verbose=verbose)


def look_of_text(*, to_terminal: bool) -> tuple[int, bool]:
    """How wide a text may be (columns), and whether it may have colours."""
    from tfgpu_doctor.host import Host

    on_terminal = to_terminal and sys.stdout is not None and sys.stdout.isatty()
    width = min(shutil.get_terminal_size().columns, _WIDEST) if on_terminal else _WIDEST
    return width, on_terminal and _wants_colour(Host().environment)


def _wants_colour(environment: Mapping[str, str]) -> bool:
    """https://no-color.org: any value of NO_COLOR that is not empty."""
    return not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"
