"""A profile in memory: planes (a host, a device) of lines (a thread, a stream) of events, in columns."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass, field

Value = int | float | str


@dataclass(slots=True)
class Line:
    """The events of a thread or of a stream.

    `names`, `starts_ns`, `ends_ns`, `stats_at`, `stats_end` are columns of one length: the number of the name, begin
    and end in ns after `begin_ns` (since 1970), and where the statistics lie in the file (equal where there are none).
    """

    number: int = 0
    name: str = ""
    begin_ns: int = 0
    names: array[int] = field(default_factory=lambda: array("q"))
    starts_ns: array[float] = field(default_factory=lambda: array("d"))
    ends_ns: array[float] = field(default_factory=lambda: array("d"))
    stats_at: array[int] = field(default_factory=lambda: array("I"))  # of a file of at most 1 GiB
    stats_end: array[int] = field(default_factory=lambda: array("I"))
    unwanted: int = 0  # events that were passed over
    offset_ns: float = 0.0  # of its begin from the profile's; known when all lines are read

    def __len__(self) -> int:
        """The number of events that are kept."""
        return len(self.names)


@dataclass(slots=True)
class Plane:
    """A host or a device: its lines, the names of events by number, and what the profiler says of the whole."""

    name: str
    lines: list[Line] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    stats: dict[str, Value] = field(default_factory=dict)
    stats_reader: Callable[[Line, int], dict[str, Value]] = lambda _line, _place: {}

    def stats_of(self, line: Line, place: int) -> dict[str, Value]:
        """Return the statistics of an event by name; none if they are damaged."""
        try:
            return self.stats_reader(line, place)
        except ValueError:
            return {}
