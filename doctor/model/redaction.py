"""How a ticket treats each value of a fact: the type of a field names the rule.

A field of facts has one of these types, and never a plain `str`, `int` or `float`: a ticket rejects values without a
rule, and a test finds them earlier. Values of a `Literal` and booleans are kept.
"""

from __future__ import annotations

import typing
from functools import cache
from typing import Annotated, Any, Literal

import msgspec

Rule = Literal[
    "text", "lines", "model", "path", "version", "release", "process", "package", "user", "variable", "job", "digest",
    "code", "number", "account",
]  # fmt: skip


def _redacted(rule: Rule) -> msgspec.Meta:
    return msgspec.Meta(extra={"redaction": rule})


Text = Annotated[str, _redacted("text")]  # each word is checked
Line = Annotated[str, _redacted("lines")]  # a line of output: a secret key may span many of them
ModelName = Annotated[str, _redacted("model")]  # of hardware
FilePath = Annotated[str, _redacted("path")]
Version = Annotated[str, _redacted("version")]
Release = Annotated[str, _redacted("release")]  # of a kernel
ProcessName = Annotated[str, _redacted("process")]
PackageName = Annotated[str, _redacted("package")]
UserName = Annotated[str, _redacted("user")]
Variable = Annotated[str, _redacted("variable")]  # the value of an environment variable, or its name
JobId = Annotated[str, _redacted("job")]
Digest = Annotated[str, _redacted("digest")]
PciCode = Annotated[str, _redacted("code")]  # four or six hexadecimal digits
Count = Annotated[int, _redacted("number")]  # sizes, counts, codes: nothing personal
Number = Annotated[float, _redacted("number")]  # measured values
Account = Annotated[int, _redacted("account")]  # the id of a user or group; personal ids are replaced


class Redaction(typing.NamedTuple):
    """The rule of a field's values, and that of its keys if it is a dict; None if it needs or has none."""

    values: Rule | None
    keys: Rule | None = None
    plain: bool = False  # it contains text or numbers without a rule


@cache
def redactions_of(struct: type[msgspec.Struct]) -> dict[str, Redaction]:
    """The rule of each field of a struct."""
    hints = typing.get_type_hints(struct, include_extras=True)
    return {name: _redaction(hints[name]) for name in struct.__struct_fields__}


def _redaction(hint: Any) -> Redaction:
    if hint in (str, int, float):
        return Redaction(None, plain=True)
    if typing.get_origin(hint) is Annotated:
        metas = [each for each in hint.__metadata__ if isinstance(each, msgspec.Meta) and each.extra]
        return Redaction(metas[0].extra["redaction"]) if metas and metas[0].extra else Redaction(None, plain=True)
    if typing.get_origin(hint) is Literal:
        return Redaction(None)
    parts = [_redaction(each) for each in typing.get_args(hint)]
    if typing.get_origin(hint) is dict:
        keys, values = parts
        return Redaction(values.values, keys.values, plain=keys.plain or values.plain)
    return Redaction(
        next((each.values for each in parts if each.values), None),
        next((each.keys for each in parts if each.keys), None),
        plain=any(each.plain for each in parts),
    )
