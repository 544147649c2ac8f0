"""Phrases are found wherever they stand, and nothing else is."""

from __future__ import annotations

import pytest
from every import every
from hypothesis import given, settings
from hypothesis import strategies as st

from tfgpu_doctor.log.multi_pattern import LONG, MultiPattern

PHRASES = [
    b"could not open the library",
    b"could not find",
    b"a phrase of fifteen"[:LONG],
    b"[]",
    b"aaaaaaaaaaaaaaaaaaaaa",
]


def slowly(text: bytes, phrases: list[bytes]) -> set[tuple[int, bytes]]:
    return {(place, phrase) for phrase in phrases for place in range(len(text)) if text.startswith(phrase, place)}


@every("phrase", PHRASES, key=lambda phrase: phrase.decode())
@every("shift", range(9))
def test_a_phrase_is_found_at_every_shift(phrase: bytes, shift: int) -> None:
    assert (shift, phrase) in MultiPattern(PHRASES).find(b"x" * shift + phrase)
    assert (shift, phrase) in MultiPattern(PHRASES).find(b"x" * shift + phrase + b"y" * 70_000)
    assert (70_000 + shift, phrase) in MultiPattern(PHRASES).find(b"x" * (70_000 + shift) + phrase + b"y" * shift)


@pytest.mark.parametrize(
    "phrase", [phrase for phrase in PHRASES if len(phrase) >= LONG], ids=lambda phrase: phrase.decode()
)
def test_part_of_a_phrase_is_none(phrase: bytes) -> None:
    for text in (phrase[1:], phrase[:-1], phrase[:-1] + b"?", b"?" + phrase[1:]):
        assert phrase not in {found for _, found in MultiPattern([phrase]).find((text + b"\n") * 3)}


@settings(max_examples=300, derandomize=True, database=None)
@given(
    st.lists(
        st.one_of(st.binary(max_size=40), st.sampled_from(PHRASES), st.sampled_from([each[:-8] for each in PHRASES]))
    )
)
def test_it_finds_what_a_slow_search_finds(parts: list[bytes]) -> None:
    text = b"".join(parts)
    found = MultiPattern(PHRASES).find(text)
    assert found == sorted(found)
    overlapping = {(place, phrase) for place, phrase in slowly(text, PHRASES) if len(phrase) < LONG}
    assert set(found) >= slowly(text, PHRASES) - overlapping
    assert set(found) <= slowly(text, PHRASES)


@settings(max_examples=200, derandomize=True, database=None)
@given(st.lists(st.binary(min_size=1, max_size=60), max_size=12, unique=True), st.binary(max_size=200))
def test_any_phrases_are_found(phrases: list[bytes], text: bytes) -> None:
    whole = text + b"".join(phrases) + text
    found = {phrase for _, phrase in MultiPattern(phrases).find(whole)}
    assert found == {phrase for phrase in phrases if phrase in whole}


def test_an_empty_phrase_is_refused() -> None:
    with pytest.raises(ValueError, match="empty phrase"):
        MultiPattern([b"could not find", b""])
