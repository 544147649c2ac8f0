"""Find phrases in a text, at a pace that hardly depends on how many they are."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

_WORD = 8  # bytes, that a memoryview gives as one number
# A phrase of so many bytes holds a word that begins at a multiple of eight, wherever in the text it stands.
LONG = 2 * _WORD - 1
_STRETCH = 1 << 6  # words that are asked at once whether any is of a phrase: most are not


class MultiPattern:
    """Knows phrases. Long ones are found together, in one pass; each shorter one costs a pass of its own."""

    def __init__(self, phrases: Iterable[bytes]) -> None:
        self._short: list[bytes] = []
        self._words: dict[int, list[tuple[bytes, int]]] = {}  # to phrases, and where in them the word begins
        for phrase in phrases:
            if not phrase:
                raise ValueError("an empty phrase stands everywhere")
            if len(phrase) < LONG:
                self._short.append(phrase)
                continue
            # Phrases differ at their end; many begin with "could not" or "failed to".
            for start in range(len(phrase) - LONG, len(phrase) - _WORD + 1):
                word = int.from_bytes(phrase[start : start + _WORD], sys.byteorder)
                self._words.setdefault(word, []).append((phrase, start))
        self._known = frozenset(self._words)

    def find(self, text: bytes) -> list[tuple[int, bytes]]:
        """Every place where a phrase begins, and the phrase; in the order of the text."""
        return sorted({*self._find_long(text), *self._find_short(text)})

    def _find_long(self, text: bytes) -> Iterator[tuple[int, bytes]]:
        words = memoryview(text + bytes(-len(text) % _WORD)).cast("Q")
        for first in range(0, len(words), _STRETCH):
            stretch = words[first : first + _STRETCH]
            if self._known.isdisjoint(stretch):
                continue
            known = bytes(map(self._known.__contains__, stretch))
            place = known.find(1)
            while place >= 0:
                for phrase, start in self._words[stretch[place]]:
                    begin = (first + place) * _WORD - start
                    if begin >= 0 and text.startswith(phrase, begin):
                        yield begin, phrase
                place = known.find(1, place + 1)

    def _find_short(self, text: bytes) -> Iterator[tuple[int, bytes]]:
        for phrase in self._short:
            begin = text.find(phrase)
            while begin >= 0:
                yield begin, phrase
                begin = text.find(phrase, begin + len(phrase))
