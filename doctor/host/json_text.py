"""JSON that may come from anybody: whatever is wrong with it, one kind of error says so."""

from __future__ import annotations

import json
from typing import Any, TypeVar

import msgspec

_Kind = TypeVar("_Kind")
_DEEP = "it is nested too deep"


def decode_json(content: bytes | str, kind: type[_Kind]) -> _Kind:
    """Return a document of a kind. Raises msgspec.DecodeError, also for what is nested too deep or is no UTF-8."""
    try:
        return msgspec.json.decode(content, type=kind)
    except RecursionError:
        raise msgspec.DecodeError(_DEEP) from None
    except UnicodeError as error:
        raise msgspec.DecodeError(f"it is not UTF-8: {error}") from None


def read_json(content: bytes | str) -> Any:
    """Return any document, with all that the standard library's writer may leave in it: NaN, lone surrogates.

    Raises ValueError, also for what is nested too deep.
    """
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError(_DEEP) from None
