"""Every place of the facts where a string may stand, found by walking their types."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec import inspect

from tfgpu_doctor.model.facts import SCHEMA, Facts

_PLAIN = {inspect.IntType: 1, inspect.FloatType: 1.0, inspect.BoolType: True, inspect.NoneType: None}
FREE, CLOSED, NUMBER = "free", "closed", "number"


@functools.cache
def _type_of_facts() -> inspect.Type:
    return inspect.type_info(Facts)


@functools.cache
def string_places() -> dict[str, str]:
    """`Struct.field` of every string, `[]` behind it for the keys of a dict; and whether any text may stand there."""
    return {place: what for place, what in _all_places() if what != NUMBER}


def _all_places() -> Iterator[tuple[str, str]]:
    return _places(_type_of_facts(), "", set())


def _places(type_: inspect.Type, place: str, seen: set[type]) -> Iterator[tuple[str, str]]:
    type_ = _plain(type_)
    if isinstance(type_, inspect.StructType):
        if type_.cls not in seen:
            seen.add(type_.cls)
            for field in type_.fields:
                yield from _places(field.type, f"{type_.cls.__name__}.{field.name}", seen)
    elif isinstance(type_, inspect.DictType):
        yield from _places(type_.key_type, f"{place}[]", seen)
        yield from _places(type_.value_type, place, seen)
    elif isinstance(type_, inspect.StrType):
        yield place, FREE
    elif isinstance(type_, inspect.LiteralType):
        yield place, CLOSED
    elif isinstance(type_, (inspect.IntType, inspect.FloatType)):
        yield place, NUMBER
    else:
        for each in _inner(type_):
            yield from _places(each, place, seen)


def _inner(type_: inspect.Type) -> tuple[inspect.Type, ...]:
    if isinstance(type_, inspect.UnionType):
        return type_.types
    if isinstance(type_, (inspect.VarTupleType, inspect.ListType)):
        return (type_.item_type,)
    if isinstance(type_, inspect.TupleType):
        return type_.item_types
    assert type(type_) in _PLAIN, f"no test knows what strings {type_} holds"
    return ()


def structs_of_facts() -> set[type[msgspec.Struct]]:
    """Every struct that facts are made of."""
    seen: set[type] = set()
    list(_places(_type_of_facts(), "", seen))
    return seen


def facts_with(fill: Callable[[str], str]) -> Facts:
    """Facts in which everything is known: one of each, and every string as `fill` gives it for its place."""
    return msgspec.convert(_filled(_type_of_facts(), "", fill), Facts)


def _plain(type_: inspect.Type) -> inspect.Type:
    """The type itself, where it bears the name of its redaction."""
    return type_.type if isinstance(type_, inspect.Metadata) else type_


def _filled(type_: inspect.Type, place: str, fill: Callable[[str], str]) -> Any:
    type_ = _plain(type_)
    if isinstance(type_, inspect.StructType):
        filled = {field.name: _filled(field.type, f"{type_.cls.__name__}.{field.name}", fill) for field in type_.fields}
        return {**filled, "schema": SCHEMA} if type_.cls is Facts else filled
    if isinstance(type_, inspect.DictType):
        return {_filled(type_.key_type, f"{place}[]", fill): _filled(type_.value_type, place, fill)}
    if isinstance(type_, inspect.StrType):
        return fill(place)
    if isinstance(type_, inspect.LiteralType):
        return type_.values[0]
    if isinstance(type_, inspect.UnionType):
        return _filled(next(each for each in type_.types if not isinstance(each, inspect.NoneType)), place, fill)
    if isinstance(type_, (inspect.VarTupleType, inspect.ListType, inspect.TupleType)):
        return [_filled(each, place, fill) for each in _inner(type_)]
    return _PLAIN[type(type_)]


def with_planted(facts: Facts, plant: Callable[[str, str, Any], str]) -> Facts:
    """The same facts, each string as `plant` gives it: it gets the place, the string, and the struct around it."""
    return msgspec.convert(_planted(facts, plant), Facts)


def _planted(fact: Any, plant: Callable[[str, str, Any], str]) -> Any:
    closed = {place for place, what in string_places().items() if what == CLOSED}

    def planted(value: Any, place: str, around: Any) -> Any:
        if isinstance(value, msgspec.Struct):
            return {
                name: planted(getattr(value, name), f"{type(value).__name__}.{name}", value)
                for name in value.__struct_fields__
            }
        if isinstance(value, dict):
            return {planted(key, f"{place}[]", around): planted(each, place, around) for key, each in value.items()}
        if isinstance(value, (tuple, list)):
            return [planted(each, place, around) for each in value]
        return plant(place, value, around) if isinstance(value, str) and place not in closed else value

    return planted(fact, "", None)
