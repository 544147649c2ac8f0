"""The part of a paragraph that a symptom shows."""

from __future__ import annotations

import pytest

from tfgpu_doctor.knowledge.schema import LogSymptom
from tfgpu_doctor.log.statements import read_statements

SAID = "TensorFlow is not using my GPU"
SYMPTOM = LogSymptom(name="unused", pattern="tensorflow is not", example=SAID, meaning="it is unused")


def shown(text: str) -> list[str]:
    return [hit.text for hit in read_statements([(1, text)], [SYMPTOM]).symptoms["unused"]]


def test_a_short_paragraph_is_shown_whole() -> None:
    assert shown(f"{SAID}\n") == [SAID]
    assert shown(f"  {SAID}\nand it is slow.\n") == [f"{SAID} and it is slow."]


@pytest.mark.parametrize(
    ("before", "cut"),
    [("x" * 100 + " ", ""), ("x" * 159 + " ", ""), ("x" * 160 + " ", "... "), ("x" * 300 + " ", "... ")],
)
def test_of_a_long_paragraph_a_hundred_characters_before_the_symptom_are_shown(before: str, cut: str) -> None:
    whole = f"{before}{SAID}"
    assert shown(whole) == [f"{cut}{whole[-100 - len(SAID) :] if cut else whole}"]


def test_of_a_long_paragraph_two_hundred_characters_are_shown() -> None:
    assert shown(SAID + "!" * (200 - len(SAID))) == [SAID + "!" * (200 - len(SAID))]
    assert shown(SAID + "!" * (201 - len(SAID))) == [SAID + "!" * (200 - len(SAID)) + " ..."]
