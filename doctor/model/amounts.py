"""Counts of things in words."""

from __future__ import annotations

_WITH_ES = ("s", "x", "ch", "sh")


def amount(count: float, noun: str) -> str:
    """Return `1 GPU`, `8 GPUs`, `0.5 CPUs`, `1,200 processes`, `2 libraries`: the noun is in the plural except for 1."""
    number = f"{count:,}" if isinstance(count, int) else f"{count:g}"
    if count == 1:
        return f"{number} {noun}"
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{number} {noun[:-1]}ies"
    return f"{number} {noun}{'es' if noun.endswith(_WITH_ES) else 's'}"
