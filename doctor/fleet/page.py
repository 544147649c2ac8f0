"""Render the comparison of a fleet in every output format."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tfgpu_doctor.fleet.fleet import Fleet
from tfgpu_doctor.fleet.words import Section, headline, sections
from tfgpu_doctor.render.json_document import as_json

if TYPE_CHECKING:
    from tfgpu_doctor.render.text import Page

_MARKS = {"bad": ("✗", "red"), "poor": ("!", "yellow"), "idle": ("·", "dim"), "good": ("✓", "green")}


def render_fleet(fleet: Fleet, format_: str, *, width: int = 110, colour: bool = False, reports: str = "") -> str:
    """Return the document in one of `FLEET_FORMATS`, with the final newline.

    `reports`: the folder of the reports, seen from the page, for its links; empty if that is unknown.
    """
    if format_ == "json":
        return as_json(fleet)
    if format_ == "html":
        from tfgpu_doctor.fleet.html_page import render_html

        return render_html(fleet, reports)
    if format_ == "prometheus":
        from tfgpu_doctor.fleet.prometheus import render_prometheus

        return render_prometheus(fleet)
    return _markdown(fleet) if format_ == "markdown" else _text(fleet, width, colour)


def _text(fleet: Fleet, width: int, colour: bool) -> str:
    from tfgpu_doctor.render.text import Page

    page = Page(width, colour)
    page.say(headline(fleet), style="bold green" if fleet.exit_code == 0 else "bold")
    say_sections(page, sections(fleet))
    if fleet.exit_code == 0 and not fleet.causes:
        page.gap()
        page.say(_nothing_found(fleet))
    return page.text


def _nothing_found(fleet: Fleet) -> str:
    """Say in what nothing was found, and only of what was compared."""
    said = ["Every node is healthy according to its own report."]
    if not fleet.varied and all(kind.nodes > 1 for kind in fleet.kinds):
        said.append("No node differs.")
    if not fleet.series:
        said.append("No speed was measured.")
    elif any(each.limit is None for each in fleet.series):
        said.append("Not every speed was compared.")
    elif any(each.note for each in fleet.series) or fleet.slow_groups:
        said.append("Apart from the values named above, no node is slower than noise explains.")
    else:
        said.append("No node is slower than noise explains.")
    return " ".join(said)


def say_sections(page: Page, sections: Iterable[Section]) -> None:
    """Add each section with its mark and its lines to a page of text."""
    for section in sections:
        page.gap()
        mark, style = _MARKS[section.tone]
        page.say(section.title, start=f"{mark} ", style="bold", start_style=f"bold {style}")
        for line in section.lines:
            page.say(" ".join(line.split()), start="  • ")


def _markdown(fleet: Fleet) -> str:
    from tfgpu_doctor.render.markdown_page import escape

    lines = ["## tfgpu-doctor fleet report", "", f"**{escape(headline(fleet))}**", ""]
    lines += sections_in_markdown(sections(fleet))
    table = [
        f"| {escape(each.measurement)} | {escape(each.model)} | {each.nodes} | {each.median:.4g} {escape(each.unit)} | "
        f"{each.spread:.1%} | "
        f"{'' if each.limit is None else f'{each.limit:.4g}'} |"
        for each in fleet.series[:200]
    ]  # fmt: skip
    if table:
        lines += [
            "<details><summary>Measurements</summary>",
            "",
            "| measurement | device | nodes | median | spread | suspect limit |",
        ]
        lines += ["|---|---|---|---|---|---|", *table, "", "</details>", ""]
    return "\n".join([*lines, f"_tfgpu-doctor {escape(fleet.doctor)}_", ""])


def sections_in_markdown(sections: Iterable[Section]) -> list[str]:
    """Return the lines of Markdown of all sections."""
    from tfgpu_doctor.render.markdown_page import escape

    lines = []
    for section in sections:
        lines += [f"### {section.title}", "", *(f"- {escape(line)}" for line in section.lines), ""]
    return lines
