"""The certificate of acceptance in each format: text, JSON, Markdown, HTML, JUnit."""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec
from tabulate import tabulate

from tfgpu_doctor.accept.certificate import Certificate
from tfgpu_doctor.accept.requirement import Outcome
from tfgpu_doctor.accept.terms import Resolved
from tfgpu_doctor.accept.verifying import page_with_tail
from tfgpu_doctor.accept.words import (
    counts_line,
    deciding,
    headline,
    measured,
    on_one_line,
    proofs,
    remedies,
    subject,
)
from tfgpu_doctor.render.json_document import as_json, safe_json

_MARKS: dict[Outcome, str] = {
    "met": "✓", "missed": "✗", "not measured": "✗", "explained": "·", "allowed": "!", "not judged": "-",
}  # fmt: skip
_TONES: dict[Outcome, str] = {
    "met": "good", "missed": "bad", "not measured": "bad", "explained": "idle", "allowed": "poor", "not judged": "idle",
}  # fmt: skip
_HEADS = ("", "requirement", "required", "measured", "from")
_LEAST_WIDTH, _WIDEST = 60, 110
_LONGEST_CELL = 200  # characters in text and Markdown; JSON and HTML contain more


def render_certificate(
    certificate: Certificate, format_: str, *, key: bytes | None = None, to_terminal: bool = False
) -> str:
    """Return the certificate in one of `FORMATS`, as a complete document that ends with a newline."""
    if format_ == "json":
        return as_json(certificate)
    if format_ == "markdown":
        return _markdown(certificate)
    if format_ == "html":
        return _html(certificate, key)
    if format_ == "junit":
        from tfgpu_doctor.accept.junit_page import render_junit

        return render_junit(certificate)
    return _text(certificate, to_terminal)


def _text(certificate: Certificate, to_terminal: bool) -> str:
    """Return the verdict and causes, the table, and further notes."""
    from tfgpu_doctor.render import look_of_text
    from tfgpu_doctor.render.text import Page, say_cause

    width, colour = look_of_text(to_terminal=to_terminal)
    head, end = Page(width, colour), Page(width, colour)
    # It begins with a name: at the margin that could forge a verdict.
    head.say(subject(certificate), start="  ", style="dim")
    head.gap()
    mark, style = ("✓", "green") if certificate.verdict == "accepted" else ("✗", "red")
    head.say(headline(certificate), start=f"{mark} ", style="bold", start_style=f"bold {style}")
    head.gap()
    against = deciding(certificate)
    for cause in against:
        say_cause(head, cause, verbose=False)
    end.gap()
    for line in remedies(certificate):
        end.say(line, start="• ")
    for line in [f"{cause.title} ({cause.id})" for cause in certificate.causes if cause not in against]:
        end.say(line, start="! ")
    for note in certificate.notes:
        end.say(note, start="! ")
    end.say(f"{counts_line(certificate)}   {certificate.seconds:.1f} s", style="dim")
    for line in proofs(certificate):
        end.say(line, style="dim")
    return f"{head.text}{_table(certificate, width)}\n{end.text}"


def _table(certificate: Certificate, width: int) -> str:
    from tfgpu_doctor.model.plain_text import one_line

    space = min(max(width, _LEAST_WIDTH), _WIDEST) - 10  # the mark, and two columns between any two
    widths = [None, int(space * 0.3), int(space * 0.2), int(space * 0.36), int(space * 0.14)]
    rows = [
        (_MARKS[row.outcome], *(one_line(_cut(cell)) for cell in (row.title, row.required, measured(row), row.profile)))
        for row in certificate.requirements
    ]
    table = tabulate(rows, headers=_HEADS, tablefmt="simple", disable_numparse=True, maxcolwidths=widths)
    return "\n".join(line.rstrip() for line in table.splitlines())


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_CELL else text[:_LONGEST_CELL] + " ..."


def _markdown(certificate: Certificate) -> str:
    from tfgpu_doctor.render.markdown_page import escape

    lines = [f"## {escape(headline(certificate))}", "", escape(subject(certificate)), ""]
    for cause in certificate.causes:
        lines += [f"- **{escape(cause.title)}** ({cause.id}, `{cause.label}`): {escape(cause.fix.text)}"]
    lines += [f"- {escape(line)}" for line in (*remedies(certificate), *certificate.notes)]
    rows = [
        (_MARKS[row.outcome], *(escape(_cut(cell)) for cell in (row.title, row.required, measured(row), row.profile)))
        for row in certificate.requirements
    ]
    table = tabulate(rows, headers=_HEADS, tablefmt="github", disable_numparse=True)
    lines += ["", table, "", escape(counts_line(certificate)), ""]
    lines += [f"_{escape(line)}_  " for line in proofs(certificate)]
    return "\n".join(lines) + "\n"


def _asked(resolved: Resolved) -> Iterator[tuple[str, str, str]]:
    """Yield each key that the profile sets, with its value in JSON, and the file that sets it."""
    for key, value in msgspec.to_builtins(resolved.profile).items():
        if key not in resolved.sources:
            continue
        for name, each in value.items() if isinstance(value, dict) else [("", value)]:
            place = f"{key}.{name}" if name else key
            if place in resolved.sources:
                yield place, json.dumps(each, ensure_ascii=False), resolved.source(place)


def _html(certificate: Certificate, key: bytes | None) -> str:
    from markupsafe import Markup

    from tfgpu_doctor.render.layout import render_page

    # ASCII without "<": the document can then neither end its element nor change the page's writing direction.
    block = safe_json(json.dumps(msgspec.to_builtins(certificate))).replace("<", "\\u003c")
    against = deciding(certificate)
    page = render_page(
        "certificate.html.jinja",
        certificate=certificate,
        heading=headline(certificate),
        subject=subject(certificate),
        counts=counts_line(certificate),
        rows=[(row, measured(row), _TONES[row.outcome]) for row in certificate.requirements],
        against=[(cause, headline(certificate).endswith(on_one_line(cause.title))) for cause in against],
        beside=[cause for cause in certificate.causes if cause not in against],
        remedies=remedies(certificate),
        proofs=proofs(certificate),
        profile=list(_asked(certificate.profile)),
        document=Markup(block),  # noqa: S704 - it contains no "<"
    )
    return page_with_tail(page, certificate, key)
