"""Placeholders for values that must not be shared, numbered in order of occurrence, so that they reveal nothing."""

from __future__ import annotations

import re
from collections import Counter

KNOWN = (
    "user", "host", "name", "process", "package", "variable", "uuid", "ip", "mac", "email", "url", "key", "secret",
    "token", "number", "telephone", "address", "digest", "id", "blob", "job", "text",
)  # fmt: skip
_NAMES = frozenset({"user", "host"})
PLACEHOLDER = re.compile(rf"<(?:{'|'.join(KNOWN)})-\d{{1,5}}>")


class Placeholders:
    """The placeholder of each value: always the same for a value, with the kind that was assigned first."""

    def __init__(self) -> None:
        self._by_value: dict[str, str] = {}
        self._last: Counter[str] = Counter()
        self.uses: Counter[str] = Counter()  # the number of replacements of each kind

    def reserve(self, text: str) -> None:
        """Reserve the placeholder numbers that a previously scrubbed text already uses."""
        for found in PLACEHOLDER.findall(text):
            kind, _, number = found[1:-1].rpartition("-")
            self._last[kind] = max(self._last[kind], int(number))

    def of(self, kind: str, value: str) -> str:
        """Return the placeholder for a value."""
        key = value.casefold()
        if key not in self._by_value:
            self._last[kind] += 1
            self._by_value[key] = f"<{kind}-{self._last[kind]}>"
        found = self._by_value[key]
        self.uses[found[1:].rpartition("-")[0]] += 1
        return found

    def known(self, value: str) -> str:
        """Return the placeholder that the name of a user or host already has; empty if it has none."""
        found = self._by_value.get(value.casefold(), "")
        return found if found[1:].rpartition("-")[0] in _NAMES else ""

    @property
    def different(self) -> Counter[str]:
        """The number of distinct values of each kind."""
        return Counter(found[1:].rpartition("-")[0] for found in self._by_value.values())
