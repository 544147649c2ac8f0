"""Text from elsewhere, made safe to print: the report is cleaned once, when it is built."""

from __future__ import annotations

import re

# Of Unicode: what steers a terminal, ends a line unseen, turns the direction of writing, or is no character at all.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff]")
# What a CI service takes as a command wherever it stands in a log: GitHub (https://github.com/actions/runner,
# ActionCommand.cs), Azure Pipelines and TeamCity.
_COMMAND = re.compile(
    r":(?=:(?:(?:add|remove|set|save|stop|internal)-[a-z-]+|error|warning|notice|debug|(?:end)?group|echo)(?: |::))"
    r"|#(?=#[a-z]*\[)",
    re.IGNORECASE,
)


def clean(text: str) -> str:
    """Text that steers no terminal and no CI service, turns no direction of writing, and that XML can hold."""
    text = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
    return _COMMAND.sub(r"\g<0> ", text) if "::" in text or "##" in text else text
