"""What stands before and behind each line of a report in a larger log: timestamps, marks of CI services, quotes."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LONGEST = 300  # characters before or behind a line
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True)
class Framing:
    """What a log adds to each line; the digits of it may differ from line to line."""

    before: re.Pattern[str]
    behind: re.Pattern[str]
    is_optional: bool = False  # GitHub's log has a timestamp before the first line of a message alone

    @classmethod
    def of(cls, before: str, behind: str = "", *, is_optional: bool = False) -> Framing:
        """The framing of which one line has these texts."""
        return cls(re.compile(_shape(before)), re.compile(f"{_shape(behind)}$"), is_optional)

    def bare(self, line: str) -> str | None:
        """Return a line without its framing; None if it has another one, as the lines of other programs have."""
        line = line.rstrip()
        found = self.before.match(line)
        if found:
            rest = line[found.end() :]
        elif (cut := self.before.match(f"{line} ")) and cut.end() > len(line):
            return ""  # an empty line has lost the space at its end
        elif self.is_optional or not line:
            rest = line
        else:
            return None
        return self.behind.sub("", rest).rstrip()


def _shape(text: str) -> str:
    parts = _DIGITS.split(text[:_LONGEST])
    return r"\d+".join(map(re.escape, parts))
