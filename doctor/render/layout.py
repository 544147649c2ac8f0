"""HTML pages with a common design, from the templates in `render/html`; values are escaped, and each page is one file."""

from __future__ import annotations

import base64
import functools
import hashlib
import os

import jinja2
from markupsafe import Markup

from tfgpu_doctor.host.files import Files
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.model.plain_text import clean

_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "html")
_LONGEST = 5000  # characters of one text, more than any path has; longer text would hide the rest of the page


def render_page(template: str, **values: object) -> str:
    """Return the page of the template with that name, which extends layout.html.jinja."""
    return _environment().get_template(template).render(**values).rstrip("\n") + "\n"


def shown(value: object) -> object:
    """Return a text that is safe on a page: without control of the writing direction, and limited in length.

    The environment applies this to everything that a template prints; the filter is for text that is joined first.
    """
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    if len(value) > _LONGEST:
        value = f"{value[:_LONGEST]}… ({len(value):,} characters, truncated)"
    return clean(value.encode("utf-8", "replace").decode())


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_source), autoescape=True, finalize=shown, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    style, script = _source("style.css"), _source("script.js")
    environment.filters.update(clean=shown, amount=amount)
    environment.globals.update(style=Markup(style), script=Markup(script), policy=_policy(style, script))  # noqa: S704 - ours
    return environment


def _policy(style: str, script: str) -> str:
    """Return a policy that loads nothing, and allows only the page's own style and script, identified by their digests."""
    rules = ("default-src 'none'", f"style-src {_digest(style)}", f"script-src {_digest(script)}")
    return "; ".join((*rules, "base-uri 'none'", "form-action 'none'"))


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _source(name: str) -> str:
    return Files().read_text(os.path.join(_FOLDER, name))
