"""Shorten facts: drop the middle of long outputs and the end of very long texts."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.redaction import Redaction, redactions_of

_LONGEST = 8192  # characters of one text; a path has at most 4096
_MOST_LINES = 400  # of one output: no probe keeps this many


def shortened(facts: Facts, left_out: Counter[str]) -> Facts:
    """Return the facts, shortened where they are too long; count what is left out."""
    return msgspec.convert(_shortened(facts, None, left_out), Facts)


def _shortened(value: Any, rule: Redaction | None, left_out: Counter[str]) -> Any:
    if isinstance(value, msgspec.Struct):
        return {
            name: _shortened(getattr(value, name), rule, left_out) for name, rule in redactions_of(type(value)).items()
        }
    if isinstance(value, dict):
        return {key[:_LONGEST]: _shortened(each, rule, left_out) for key, each in value.items()}
    if isinstance(value, tuple):
        if rule and rule.values == "lines" and len(value) > _MOST_LINES:
            left_out["lines of long outputs"] += len(value) - _MOST_LINES
            value = (*value[: _MOST_LINES // 2], *value[-_MOST_LINES // 2 :])
        return tuple(_shortened(each, rule, left_out) for each in value)
    if isinstance(value, str) and len(value) > _LONGEST:
        left_out["characters of long texts"] += len(value) - _LONGEST
        return f"{value[:_LONGEST]} ..."
    return value
