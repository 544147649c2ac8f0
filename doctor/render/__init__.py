"""The output formats; each renders the report alone."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfgpu_doctor.model import Check, Severity
    from tfgpu_doctor.model.report import Report

# Format to the module of `render/` that renders it, the function there, and what that takes beside the report, if anything.
# Text takes more.
_RENDERERS: dict[str, tuple[str, str, str | tuple[str, ...] | None]] = {
    "json": ("json_document", "as_json", None),
    "markdown": ("markdown_page", "render_markdown", "fail_level"),
    "junit": ("junit", "render_junit", "fail_level"),
    "github": ("github_annotations", "render_github", "fail_level"),
    "sarif": ("sarif", "render_sarif", ("checks", "fail_level")),
    "html": ("html_page", "render_html", "fail_level"),
    "prometheus": ("prometheus_text", "render_prometheus", "node"),
}
FORMATS = ("text", *_RENDERERS)
_WIDEST = 110


def render(
    report: Report, format_: str, *, checks: Sequence[Check] = (), node: str = "", verbose: bool = False,
    to_terminal: bool = False, fail_level: Severity = "error",
) -> str:  # fmt: skip
    """Return the report in one of `FORMATS`, as a complete document.

    SARIF takes the explanations of its rules from `checks`; `node` names the machine in Prometheus' series. Below the
    verdict stand the notes that fail the run at `fail_level`; JSON and SARIF contain every finding anyway. In JUnit, each
    check with a finding at or above the level is a failed test; in SARIF, the level decides the exit code of the invocation.
    """
    if format_ in _RENDERERS:
        module, function, takes = _RENDERERS[format_]
        renderer = getattr(importlib.import_module(f"tfgpu_doctor.render.{module}"), function)
        beside_it = {"checks": checks, "node": node, "fail_level": fail_level}
        names = (takes,) if isinstance(takes, str) else takes or ()
        document = renderer(report, **{name: beside_it[name] for name in names})
        assert isinstance(document, str)
        return document
    from tfgpu_doctor.render.text import render_text

    width, colour = look_of_text(to_terminal=to_terminal)
    return render_text(report, width=width, colour=colour, verbose=verbose, fail_level=fail_level)


def look_of_text(*, to_terminal: bool) -> tuple[int, bool]:
    """Return the width of a text in columns, and whether it may use colours."""
    from tfgpu_doctor.host import Host

    on_terminal = to_terminal and sys.stdout is not None and sys.stdout.isatty()
    width = min(shutil.get_terminal_size().columns, _WIDEST) if on_terminal else _WIDEST
    return width, on_terminal and wants_colour(Host().environment)


def wants_colour(environment: Mapping[str, str]) -> bool:
    """Follow https://no-color.org: any value of NO_COLOR that is not empty disables colours."""
    return not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"
