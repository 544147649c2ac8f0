"""Patterns that are lists of texts are searched another way, and find what `re` finds."""

from __future__ import annotations

import random

import pytest
from every import every

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.log.alternatives import compiled, matches, split

SIGNATURES = read_knowledge().log_signatures
TEXTS = sorted({each for row in SIGNATURES for each in (*row.gate.split("|"), row.example)})
ODD = ["İ", "É", "\n", "x" * 50, "(", "-"]


@pytest.mark.parametrize(
    ("pattern", "parts"),
    [
        ("a|b", ["a", "b"]), (r"a\|b|c", [r"a\|b", "c"]), ("(?:a|b)c|d", ["(?:a|b)c", "d"]), ("[|]a|b", ["[|]a", "b"]),
        ("[]|]|b", ["[]|]", "b"]), ("[^]|]|b", ["[^]|]", "b"]), (r"[\]|]|b", [r"[\]|]", "b"]), ("a)|(b", None), ("(a", None),
        ("[a|b]|c", ["[a|b]", "c"]), ("[ab|c", None),
    ],
)  # fmt: skip
def test_it_is_split_at_its_own_alternatives(pattern: str, parts: list[str] | None) -> None:
    assert split(pattern) == parts


def made_up(chance: random.Random, most: int) -> str:
    """A text of phrases that signatures look for, whole and in parts, in any case."""
    found = []
    for _ in range(chance.randint(1, most)):
        words = chance.choice(TEXTS if chance.random() < 0.7 else ODD)
        begin = chance.randrange(len(words)) if chance.random() < 0.3 else 0
        found.append(chance.choice((str, str, str.upper))(words[begin:]))
    return chance.choice((" ", "", "\n")).join(found)


@every("seed", range(40))
def test_it_finds_what_re_finds_first(seed: int) -> None:
    chance = random.Random(seed)
    text = made_up(chance, 12)
    for row in SIGNATURES:
        expected, found = compiled(row.pattern).search(text), next(matches(row.pattern, text), None)
        wanted = None if expected is None else (expected.start(), expected.groups(), expected.groupdict())
        assert found == wanted, row.name


def test_a_pattern_whose_brackets_do_not_match_is_searched_whole() -> None:
    """A bracket in a comment is none."""
    assert split("(?#two (or more)words") is None
    assert list(matches("(?#two (or more)words", "many words")) == [(5, (), {})]


def test_every_match_of_a_pattern_with_values_is_found() -> None:
    found = list(matches(r"(?P<code>\d+) (x)?", "7 x8 "))
    assert found == [(0, ("7", "x"), {"code": "7"}), (3, ("8", None), {"code": "8"})]
