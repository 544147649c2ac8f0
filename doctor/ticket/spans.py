"""Places of a text that are settled, and what stands there from now on."""

from __future__ import annotations

from collections.abc import Callable


class Spans:
    """Who claims a place first has it; what nobody claims is filled in at the end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._taken = bytearray(len(text))
        self._claims: list[tuple[int, int, str]] = []

    def are_free(self, start: int, end: int) -> bool:
        """Whether nobody claimed any of it, and it is not empty."""
        return start < end and self._taken.find(1, start, end) < 0

    def claim(self, start: int, end: int, replacement: str | Callable[[], str]) -> None:
        """Settle what stands there, if it is free; a function is only then asked."""
        if self.are_free(start, end):
            self._taken[start:end] = b"\1" * (end - start)
            self._claims.append((start, end, replacement if isinstance(replacement, str) else replacement()))

    def filled(self, fill: Callable[[str], str]) -> str:
        """The text, each part that nobody claimed as `fill` gives it."""
        done: list[str] = []
        last = 0
        for start, end, replacement in sorted(self._claims):
            done += [fill(self._text[last:start]), replacement]
            last = end
        return "".join([*done, fill(self._text[last:])])
