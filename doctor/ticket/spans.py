"""Spans of a text that are claimed, and their replacements."""

from __future__ import annotations

from collections.abc import Callable


class Spans:
    """The first claim to a span wins; unclaimed parts are filled in at the end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._taken = bytearray(len(text))
        self._claims: list[tuple[int, int, str]] = []

    def are_free(self, start: int, end: int) -> bool:
        """Whether the span is not empty and no part of it is claimed."""
        return start < end and self._taken.find(1, start, end) < 0

    def claim(self, start: int, end: int, replacement: str | Callable[[], str]) -> None:
        """Set the replacement of a span if it is free; a replacement function is called only then."""
        if self.are_free(start, end):
            self._taken[start:end] = b"\1" * (end - start)
            self._claims.append((start, end, replacement if isinstance(replacement, str) else replacement()))

    def filled(self, fill: Callable[[str], str]) -> str:
        """Return the text, with each unclaimed part passed through `fill`."""
        done: list[str] = []
        last = 0
        for start, end, replacement in sorted(self._claims):
            done += [fill(self._text[last:start]), replacement]
            last = end
        return "".join([*done, fill(self._text[last:])])
