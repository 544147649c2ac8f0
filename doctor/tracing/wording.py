"""The texts of the table of verdicts, with what a trace knows filled in."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping

_CHOICE = re.compile(r"\[([^\[\]]*)\]")


def filled(text: str, words: Mapping[str, str]) -> str:
    """Fill in the words. Of `[Look at {place}|Look around]` the first choice is taken whose words are known, else none.

    What a trace calls something is no template: braces and brackets in a word stay what they are.
    """
    fixed_and_choices = _CHOICE.split(text)  # in turn: what always stands there, and what was in brackets
    return "".join(
        _first_known(part.split("|"), words) if place % 2 else part.format_map(words)
        for place, part in enumerate(fixed_and_choices)
    )


def _first_known(choices: list[str], words: Mapping[str, str]) -> str:
    for choice in choices:
        if all(words.get(name) for _, name, _, _ in string.Formatter().parse(choice) if name):
            return choice.format_map(words)
    return ""
