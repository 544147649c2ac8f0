"""The values of a GPU that `nvidia-smi -q` shows, by path: as text and as XML it names them almost alike."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tfgpu_doctor.log.readers.text import number, size, whole

_LONGEST_VALUE = 200
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
LOST = ("gpu is lost", "gpu requires reset")


def normal(name: str) -> str:
    """The name of a value in both formats: `FB Memory Usage` and `fb_memory_usage`."""
    return _NOT_IN_NAMES.sub("_", name.lower()).strip("_")


@dataclass
class Values:
    """The values of a GPU by their path; how often each path occurs, the second of them with `#2` at its end."""

    address: str
    texts: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def enter(self, path: str) -> str:
        """The path of a section, which may repeat."""
        self.counts[path] = self.counts.get(path, 0) + 1
        return path if self.counts[path] == 1 else f"{path}#{self.counts[path]}"

    def put(self, path: str, text: str) -> None:
        """Keep a value, of several the first."""
        self.texts.setdefault(path, text.strip()[:_LONGEST_VALUE])

    def groups(self, *paths: str) -> Iterator[str]:
        """The paths of all sections of that name."""
        for path in paths:
            for place in range(1, self.counts.get(path, 0) + 1):
                yield path if place == 1 else f"{path}#{place}"

    def text(self, *paths: str) -> str:
        """The first of these values that the driver reports."""
        texts = (self.texts.get(path, "") for path in paths)
        return next((text for text in texts if text and not _is_nothing(text)), "")

    def number(self, *paths: str) -> float | None:
        """The first of these values that is a number."""
        return next((found for path in paths if (found := number(self.texts.get(path, ""))) is not None), None)

    def whole(self, *paths: str) -> int | None:
        """The first of these values that is a whole number."""
        return next((found for path in paths if (found := whole(self.texts.get(path, ""))) is not None), None)

    def size(self, *paths: str) -> int | None:
        """The first of these values that is a size, in bytes."""
        return next((found for path in paths if (found := size(self.texts.get(path, ""))) is not None), None)

    def flag(self, *paths: str) -> bool | None:
        """Whether it is on: `Enabled`, `Yes`, `Active`; None if it is neither on nor off."""
        words = {"enabled": True, "yes": True, "active": True, "disabled": False, "no": False, "not active": False}
        texts = (self.texts.get(path, "").lower() for path in paths)
        return next((words[text] for text in texts if text in words), None)


def _is_nothing(text: str) -> bool:
    lowered = text.strip("[]").lower()
    return lowered in ("n/a", "not supported", "unknown error", "err!", *LOST) or "deprecated" in lowered
