"""Phrases are found wherever they stand, and nothing else is."""

from __future__ import annotations

import sys

import pytest
from every import every
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tfgpu_doctor.log import multi_pattern
from tfgpu_doctor.log.multi_pattern import MultiPattern

PHRASES = [
    b"could not open the library",
    b"could not find",
    b"a phrase of fifteen",
    b"[]",
    b"aaaaaaaaaaaaaaaaaaaaa",
    b"find",
]


def slowly(text: bytes, phrases: list[bytes]) -> set[tuple[int, bytes]]:
    return {(place, phrase) for phrase in phrases for place in range(len(text)) if text.startswith(phrase, place)}


def found_in(text: bytes, phrases: list[bytes]) -> list[tuple[int, bytes]]:
    pattern = MultiPattern(phrases)
    matches = pattern.find(text)
    assert [end for _, _, end in matches] == sorted(end for _, _, end in matches)
    assert all(text[begin:end] == pattern.phrases[number] for number, begin, end in matches)
    return [(begin, pattern.phrases[number]) for number, begin, _ in matches]


@every("phrase", PHRASES, key=lambda phrase: phrase.decode())
@every("shift", range(9))
def test_a_phrase_is_found_at_every_shift(phrase: bytes, shift: int) -> None:
    assert (shift, phrase) in found_in(b"x" * shift + phrase, PHRASES)
    assert (shift, phrase) in found_in(b"x" * shift + phrase + b"y" * 70_000, PHRASES)
    assert (70_000 + shift, phrase) in found_in(b"x" * (70_000 + shift) + phrase + b"y" * shift, PHRASES)


@every("phrase", PHRASES, key=lambda phrase: phrase.decode())
def test_part_of_a_phrase_is_none(phrase: bytes) -> None:
    for text in (phrase[1:], phrase[:-1], phrase[:-1] + b"?", b"?" + phrase[1:]):
        assert found_in((text + b"\n") * 3, [phrase]) == []


@every("small", [0, 1 << 20])
@settings(
    max_examples=300, derandomize=True, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    parts=st.lists(
        st.one_of(st.binary(max_size=40), st.sampled_from(PHRASES), st.sampled_from([each[:-1] for each in PHRASES]))
    )
)
def test_it_finds_what_a_slow_search_finds(monkeypatch: pytest.MonkeyPatch, small: int, parts: list[bytes]) -> None:
    monkeypatch.setattr(multi_pattern, "_SMALL", small)
    text = b"".join(parts)
    found = found_in(text, PHRASES)
    assert len(found) == len(set(found))
    assert set(found) == slowly(text, PHRASES)


@every("small", [0, 1 << 20])
@settings(
    max_examples=200, derandomize=True, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(phrases=st.lists(st.binary(min_size=1, max_size=60), max_size=12, unique=True), text=st.binary(max_size=200))
def test_any_phrases_are_found(monkeypatch: pytest.MonkeyPatch, small: int, phrases: list[bytes], text: bytes) -> None:
    monkeypatch.setattr(multi_pattern, "_SMALL", small)
    whole = text + b"".join(phrases) + text
    assert {phrase for _, phrase in found_in(whole, phrases)} == {phrase for phrase in phrases if phrase in whole}


def test_without_the_library_the_same_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b" ".join(PHRASES) * 3000
    with_it = found_in(text, PHRASES)
    monkeypatch.setitem(sys.modules, "ahocorasick_rs", None)
    assert found_in(text, PHRASES) == with_it


def test_an_empty_phrase_is_refused() -> None:
    with pytest.raises(ValueError, match="empty phrase"):
        MultiPattern([b"could not find", b""])
