"""Settings in TOML, which may come from anybody: neither depth nor long keys cost more than the text is worth."""

from __future__ import annotations

import sys
from typing import Any

_MOST_PARTS = 100  # of a key; tomllib needs time in proportion to their square


def decode_toml(text: str) -> dict[str, Any]:
    """Return the document. Raises ValueError, also for what is nested too deep."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    for number, line in enumerate(text.splitlines(), start=1):
        if line.partition("=")[0].count(".") > _MOST_PARTS:
            raise ValueError(f"a key of more than {_MOST_PARTS} parts (at line {number})")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
