"""What a run of weeks may collect without end, kept short: notes that repeat, and a timeline of many short stretches."""

from __future__ import annotations

import re

from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.watching.result import TimelineEntry

MOST_NOTES, MOST_TURNS = 100, 500
_NUMBERS = re.compile(r"\d+(\.\d+)?")


class Notes:
    """Adds notes to a list; one that differs from an earlier one only in its numbers is counted there."""

    def __init__(self, texts: list[str]) -> None:
        self._texts = texts
        self._places: dict[str, int] = {}
        self._times: dict[str, int] = {}
        self._first: dict[str, str] = {}
        self._more = 0

    def add(self, text: str) -> None:
        """Add a note, or count it."""
        kind = _NUMBERS.sub("#", text)
        if kind not in self._places:
            if len(self._places) >= MOST_NOTES:
                self._leave_out()
                return
            self._places[kind], self._first[kind] = len(self._texts), text
            self._texts.append(text)
        self._times[kind] = self._times.get(kind, 0) + 1
        if self._times[kind] > 1:
            self._texts[self._places[kind]] = f"{self._first[kind]} (the first of {self._times[kind]} such notes)"

    def _leave_out(self) -> None:
        self._more += 1
        text = f"{amount(self._more, 'more note')} {'is' if self._more == 1 else 'are'} left out"
        if self._more == 1:
            self._places[""] = len(self._texts)
            self._texts.append(text)
        self._texts[self._places[""]] = text


def shorten(timeline: list[TimelineEntry], most: int = MOST_TURNS) -> int:
    """Leave out the shortest stretches until there are no more than `most` turns; return how many were left out.

    What came before holds on over their time. The first turn and the last stay.
    """
    count = len(timeline)
    while len(timeline) > max(2, most):
        place = min(range(1, len(timeline) - 1), key=lambda at: timeline[at + 1].at_s - timeline[at].at_s)
        before, after = timeline[place - 1], timeline[place + 1]
        same = (before.verdict, before.causes) == (after.verdict, after.causes)
        del timeline[place : place + 1 + (same and place + 2 < len(timeline))]
    return count - len(timeline)
