"""Make external text safe to print: `clean` for a text of several lines, `one_line` for one that stands inside a line.

Whatever somebody else wrote (a log, a report, a file's name, a variable, an error message) goes through one of them
before it reaches a terminal, standard error or a page. JSON keeps the text, and escapes it.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

_Struct = TypeVar("_Struct", bound=msgspec.Struct)
# Unicode: terminal controls, invisible line breaks, controls of the writing direction, and noncharacters.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff]")
_BREAK = re.compile(r"\r\n|[\t-\r\x85\u2028\u2029]")
# Text that a CI service interprets as a command anywhere in a log: GitHub (https://github.com/actions/runner,
# ActionCommand.cs), Azure Pipelines and TeamCity.
_COMMAND = re.compile(
    r":(?=:(?:(?:add|remove|set|save|stop|internal)-[a-z-]+|error|warning|notice|debug|(?:end)?group|echo)(?: |::))"
    r"|#(?=#[a-z]*\[)",
    re.IGNORECASE,
)
_LONGEST_NAME = 80  # characters


def clean(text: str) -> str:
    """Return text that controls no terminal, CI service or writing direction, and that XML can contain."""
    text = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\t", " "))
    return _COMMAND.sub(r"\g<0> ", text) if "::" in text or "##" in text else text


def one_line(text: str) -> str:
    """Return the same on one line: line breaks and tabs become spaces, and what UTF-8 cannot encode a question mark."""
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()
    return clean(_BREAK.sub(" ", text))


def in_lines(struct: _Struct) -> _Struct:
    """Return a copy for a page of text: every string in it is on one line, and harmless."""
    return msgspec.convert(_in_lines(msgspec.to_builtins(struct)), type(struct))


def _in_lines(value: Any) -> Any:
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, dict):
        return {one_line(key): _in_lines(each) for key, each in value.items()}
    return [_in_lines(each) for each in value] if isinstance(value, list | tuple) else value


def shortened(name: str) -> str:
    """Return a name as it can stand in a message: what somebody pasted may be a whole file."""
    name = name.strip()
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…"
