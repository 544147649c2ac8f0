"""Amounts with a unit, as profiles write them: ">= 230 GB/s", "<= 5 %"."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FORM = re.compile(r"\s*(>=|<=)\s*(\d+(?:\.\d+)?)(?:\s*(%)|\s+(\D.*?))\s*")
PERCENT = "%"


@dataclass(frozen=True)
class Amount:
    """The least or the most that a value may be."""

    most: bool  # it is an upper limit
    value: float
    unit: str

    def holds(self, values: list[float]) -> bool:
        """Return whether every value is within the limit; there is at least one."""
        return max(values) <= self.value if self.most else min(values) >= self.value

    def __str__(self) -> str:
        return f"{'at most' if self.most else 'at least'} {self.value:,.6g} {self.unit}"


def amount_of(text: str) -> Amount | None:
    """Return the amount that a text states; None if it states none."""
    found = _FORM.fullmatch(text)
    return Amount(found[1] == "<=", float(found[2]), found[3] or found[4]) if found else None
