"""Render what changed over time in every output format."""

from __future__ import annotations

from tfgpu_doctor.fleet.history import History
from tfgpu_doctor.fleet.history_words import history_headline, history_sections
from tfgpu_doctor.fleet.page import say_sections, sections_in_markdown
from tfgpu_doctor.render.json_document import as_json


def render_history(history: History, format_: str, *, width: int = 110, colour: bool = False) -> str:
    """Return the document in one of `FLEET_FORMATS`, with the final newline."""
    if format_ == "json":
        return as_json(history)
    if format_ == "html":
        from tfgpu_doctor.render.layout import render_page

        return render_page(
            "fleet_history.html.jinja",
            history=history,
            heading=history_headline(history),
            sections=history_sections(history),
        )
    if format_ == "prometheus":
        from tfgpu_doctor.fleet.history_metrics import history_metrics

        return history_metrics(history)
    return _markdown(history) if format_ == "markdown" else _text(history, width, colour)


def _text(history: History, width: int, colour: bool) -> str:
    from tfgpu_doctor.render.text import Page

    page = Page(width, colour)
    page.say(history_headline(history), style="bold green" if history.exit_code == 0 else "bold")
    say_sections(page, history_sections(history))
    return page.text


def _markdown(history: History) -> str:
    from tfgpu_doctor.render.markdown_page import escape

    lines = ["## tfgpu-doctor fleet history", "", f"**{escape(history_headline(history))}**", ""]
    lines += sections_in_markdown(history_sections(history))
    return "\n".join([*lines, f"_tfgpu-doctor {escape(history.doctor)}_", ""])
