"""Names and passwords that are ordinary words go where a label, an option or a sentence tells what they are.

Each line of "go" kept at least one of its values, and each of "stay" lost something, or looks like one of the first.
"""

from __future__ import annotations

import json
import pathlib

import pytest

from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.ticket.identity import Identity
from tfgpu_doctor.ticket.named import NAMED
from tfgpu_doctor.ticket.patterns import NAMES, SECRETS
from tfgpu_doctor.ticket.scrub import Scrub

TABLES = json.loads((pathlib.Path(__file__).parent / "named.json").read_text("utf-8"))


def scrub(text: str) -> str:
    return Scrub(Facts(), Identity()).text(text)


@pytest.mark.parametrize("row", TABLES["go"], ids=lambda row: row[0][:40])
def test_a_named_value_goes(row: list[str]) -> None:
    text, *values = row
    shared = scrub(text)
    assert [value for value in values if value.lower() in shared.lower()] == []


@pytest.mark.parametrize("text", TABLES["stay"])
def test_evidence_stays(text: str) -> None:
    assert scrub(text) == text


def test_what_follows_a_quoted_password_stays() -> None:
    assert scrub("Namespace(epochs=30, password='memory', workers=8, token=None)") == (
        "Namespace(epochs=30, password=<secret-1>, workers=8, token=None)"
    )


def test_a_folder_named_like_a_secret_is_part_of_a_list() -> None:
    assert scrub("-v /run/secrets:/usr/local/cuda/lib64") == "-v /run/<name-1>:/usr/local/cuda/lib64"


def test_of_a_list_of_arguments_only_the_value_of_the_option_goes() -> None:
    assert scrub("- --token\n- memory\n- --gpus\n- all") == "- --token\n- <secret-1>\n- --gpus\n- all"


def test_an_option_without_a_value_hides_no_other_option() -> None:
    assert scrub("- --token\n- --gpus=all") == "- --token\n- --gpus=all"


def test_the_words_that_a_pattern_needs_are_written_small() -> None:
    needs = {word for each in (*SECRETS, *NAMES, *NAMED) for word in each.needs}
    assert needs
    assert {word for word in needs if word != word.lower() or not word} == set()


def test_every_line_that_a_pattern_matches_has_a_word_that_it_needs() -> None:
    texts = [row[0] for row in TABLES["go"]]
    missed = [
        (text, pattern.expression.pattern)
        for text in texts
        for line in text.split("\n")
        for pattern in NAMED
        if pattern.expression.search(line) and not any(word in line.lower() for word in pattern.needs)
    ]
    assert missed == []
