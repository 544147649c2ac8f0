"""Find phrases in a text at a speed that hardly depends on the number of phrases (Aho and Corasick, 1975)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

Match = tuple[int, int, int]  # the number of the phrase, and where it begins and ends
Search = Callable[[bytes], Sequence[Match]]
_SMALL = 1 << 15  # bytes: a smaller text is searched before the automaton is built


class MultiPattern:
    """A set of phrases. All are found in one pass, also those that overlap."""

    def __init__(self, phrases: Iterable[bytes]) -> None:
        self.phrases = tuple(dict.fromkeys(phrases))
        if b"" in self.phrases:
            raise ValueError("an empty phrase matches everywhere")
        self._automaton: Search | None = None

    def find(self, text: bytes) -> Sequence[Match]:
        """Return every occurrence of a phrase, ordered by where it ends."""
        if self._automaton is None and len(text) > _SMALL:
            self._automaton = _build_automaton(self.phrases) or self._find_one_by_one
        return self._automaton(text) if self._automaton else self._find_one_by_one(text)

    def _find_one_by_one(self, text: bytes) -> Sequence[Match]:
        """Search with Python's own means: a pass for each phrase."""
        found = []
        for number, phrase in enumerate(self.phrases):
            begin = text.find(phrase)
            while begin >= 0:
                found.append((begin + len(phrase), number, begin))
                begin = text.find(phrase, begin + 1)
        return [(number, begin, end) for end, number, begin in sorted(found)]


def _build_automaton(phrases: Sequence[bytes]) -> Search | None:
    """Return a search with the library; None if it has no wheel for this platform."""
    try:
        from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind
    except ImportError:
        return None
    automaton = BytesAhoCorasick(phrases, matchkind=MatchKind.Standard, implementation=Implementation.DFA)
    return lambda text: automaton.find_matches_as_indexes(text, overlapping=True)
