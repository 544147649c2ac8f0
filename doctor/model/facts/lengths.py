"""The longest text in the facts that is processed: longer texts are cut so that no check is slow or fails on them."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from tfgpu_doctor.model.facts.attempt import Fact
from tfgpu_doctor.model.facts.machine import Environment

# PATH_MAX of Linux; Python itself refuses numbers of more than 4300 digits. No known machine has a text of 300.
_LONGEST = 4096
_LONGEST_VARIABLE = 128 << 10  # MAX_ARG_STRLEN of Linux: lists of folders can be long

FactType = TypeVar("FactType", bound=Fact)


def shorten(facts: FactType) -> FactType:
    """The facts with every text cut to its limit; the same object if nothing is too long."""
    shortened: FactType = _short(facts, _LONGEST)
    return shortened


def _short(value: Any, longest: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= longest else value[:longest]
    if isinstance(value, tuple):
        items = tuple([_short(each, longest) for each in value])
        return value if _same(items, value) else items
    if isinstance(value, dict):
        found = {_short(key, longest): _short(each, longest) for key, each in value.items()}
        return value if found.keys() == value.keys() and _same(found.values(), value.values()) else found
    if isinstance(value, msgspec.Struct):
        return _short_fields(value, _LONGEST_VARIABLE if isinstance(value, Environment) else longest)
    return value


def _short_fields(fact: msgspec.Struct, longest: int) -> msgspec.Struct:
    changed = {}
    for name in fact.__struct_fields__:
        before = getattr(fact, name)
        after = _short(before, longest)
        if after is not before:
            changed[name] = after
    return msgspec.structs.replace(fact, **changed) if changed else fact


def _same(found: Any, before: Any) -> bool:
    return all(one is other for one, other in zip(found, before, strict=True))
