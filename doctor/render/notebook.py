"""Pages in a notebook."""

from __future__ import annotations

import contextlib
import sys

from markupsafe import Markup, escape

_HEIGHT = 640  # pixels: a page in a notebook scrolls inside its frame


def framed(page: str, title: str) -> str:
    """Return a page in its own frame, so that its style and script do not affect the notebook."""
    return Markup(  # noqa: S704 - all input is escaped
        f'<iframe title="{escape(title)}" sandbox="allow-scripts" width="100%" height="{_HEIGHT}" style="border:0" '
        f'srcdoc="{escape(page)}"></iframe>'
    )


def displayed(answer: object) -> bool:
    """Show an object with `_repr_html_` if this process is a notebook's; return whether it is."""
    if "IPython" not in sys.modules:
        return False
    with contextlib.suppress(ImportError, AttributeError):
        from IPython import display, get_ipython

        if get_ipython() is not None:
            display.display(answer)  # type: ignore[no-untyped-call, unused-ignore]
            return True
    return False
