"""HTML pages of one look: templates of `render/html`, whose text cannot leave its place, and no file beside them."""

from __future__ import annotations

import base64
import functools
import hashlib
import os

import jinja2
from markupsafe import Markup

from tfgpu_doctor.host.files import Files
from tfgpu_doctor.model.plain_text import clean

_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "html")
_LONGEST = 5000  # characters of one text, more than any path has; what is longer would bury the rest of the page


def render_page(template: str, **values: object) -> str:
    """A page of the template with that name, which extends layout.html.jinja."""
    return _environment().get_template(template).render(**values).rstrip("\n") + "\n"


def shown(value: object) -> object:
    """A text as a page may hold it: nothing that steers the direction of writing, and of no boundless length.

    The environment does this with all that a template prints; as a filter it is for what is joined before.
    """
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    if len(value) > _LONGEST:
        value = f"{value[:_LONGEST]}… ({len(value):,} characters, cut here)"
    return clean(value.encode("utf-8", "replace").decode())


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_source), autoescape=True, finalize=shown, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    style, script = _source("style.css"), _source("script.js")
    environment.filters["clean"] = shown
    environment.globals.update(style=Markup(style), script=Markup(script), policy=_policy(style, script))  # noqa: S704 - ours
    return environment


def _policy(style: str, script: str) -> str:
    """Nothing may be loaded from anywhere; the page's own style and script are known by their digests."""
    rules = ("default-src 'none'", f"style-src {_digest(style)}", f"script-src {_digest(script)}")
    return "; ".join((*rules, "base-uri 'none'", "form-action 'none'"))


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _source(name: str) -> str:
    return Files().read_text(os.path.join(_FOLDER, name))
