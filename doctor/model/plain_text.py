"""Make external text safe to print: the report is cleaned once, when it is built."""

from __future__ import annotations

import re

# Unicode: terminal controls, invisible line breaks, controls of the writing direction, and noncharacters.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff]")
# Text that a CI service interprets as a command anywhere in a log: GitHub (https://github.com/actions/runner,
# ActionCommand.cs), Azure Pipelines and TeamCity.
_COMMAND = re.compile(
    r":(?=:(?:(?:add|remove|set|save|stop|internal)-[a-z-]+|error|warning|notice|debug|(?:end)?group|echo)(?: |::))"
    r"|#(?=#[a-z]*\[)",
    re.IGNORECASE,
)


def clean(text: str) -> str:
    """Return text that controls no terminal, CI service or writing direction, and that XML can contain."""
    text = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
    return _COMMAND.sub(r"\g<0> ", text) if "::" in text or "##" in text else text
