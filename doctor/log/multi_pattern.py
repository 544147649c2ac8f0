"""Find phrases in a text at a speed that hardly depends on the number of phrases."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

_WORD = 8  # bytes that a memoryview returns as one number
# A phrase of at least this many bytes contains an aligned word (offset a multiple of eight), wherever it occurs in the text.
LONG = 2 * _WORD - 1
_STRETCH = 1 << 6  # words that are tested together for being part of a phrase: most are not


class MultiPattern:
    """A set of phrases. Long phrases are found together in one pass; each shorter phrase takes a separate pass."""

    def __init__(self, phrases: Iterable[bytes]) -> None:
        self._short: list[bytes] = []
        self._words: dict[int, list[tuple[bytes, int]]] = {}  # to the phrases, and the offset of the word in each
        for phrase in phrases:
            if not phrase:
                raise ValueError("an empty phrase matches everywhere")
            if len(phrase) < LONG:
                self._short.append(phrase)
                continue
            # Phrases differ at the end; many begin with "could not" or "failed to".
            for start in range(len(phrase) - LONG, len(phrase) - _WORD + 1):
                word = int.from_bytes(phrase[start : start + _WORD], sys.byteorder)
                self._words.setdefault(word, []).append((phrase, start))
        self._known = frozenset(self._words)

    def find(self, text: bytes) -> list[tuple[int, bytes]]:
        """Return every offset at which a phrase begins, and the phrase, in text order."""
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
