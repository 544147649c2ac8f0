"""TensorFlow's profile as it lies in an .xplane.pb: planes of lines of events, in columns.

The messages: https://github.com/openxla/xla/blob/main/third_party/tsl/tsl/profiler/protobuf/xplane.proto
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sized

from tfgpu_doctor.tracing.events import Line, Plane, Value
from tfgpu_doctor.tracing.wire import BYTES, FIXED64, CutOff, double, fields, signed, text, varint

_METADATA, _OFFSET, _DURATION, _STATS = 0x08, 0x10, 0x18, 0x22  # the keys of an event's fields
_LARGEST = (1 << 63) - 1  # that a column holds
_EVENTS = 0x22  # the key of a line's events
# Far more than profiles have. Each takes kilobytes, and two bytes in a file make one.
_MOST_PLANES, _MOST_LINES, _MOST_NAMES = 10_000, 100_000, 2_000_000


def read_planes(data: bytes | memoryview, wanted: Callable[[str], bool]) -> Iterator[Plane]:
    """Yield the planes of an XSpace, with those events whose names are wanted.

    `CutOff` after the last whole one if the data end early; ValueError if they are something else.
    """
    planes = 0
    for number, kind, at, end in fields(data, 0, len(data)):
        if number == 1 and kind == BYTES:
            planes += 1
            if planes > _MOST_PLANES:
                raise ValueError(f"more than {_MOST_PLANES} planes")
            yield _plane(data, at, end, wanted)


def read_messages(data: bytes | memoryview) -> tuple[str, ...]:
    """What the profiler says of its own work: the errors and the warnings of an XSpace; those before it is cut off."""
    found = []
    try:
        for number, kind, at, end in fields(data, 0, len(data)):
            if number in (2, 3) and kind == BYTES:
                found.append(text(data, at, end))
    except ValueError:
        pass
    return tuple(found)


def _plane(data: bytes | memoryview, at: int, end: int, wanted: Callable[[str], bool]) -> Plane:
    name, lines, stats = "", [], []
    plane = Plane("")
    statistics: dict[int, str] = {}
    for number, kind, value, after in fields(data, at, end):
        if kind != BYTES:
            continue
        if number == 2:
            name = text(data, value, after)
        elif number == 3:
            lines.append((value, after))
            _refuse_more(lines, _MOST_LINES, "lines")
        elif number == 4:
            key, called, shown = _metadata(data, value, after)
            _refuse_more(plane.names, _MOST_NAMES, "names of events")
            plane.names[key] = shown or called if called.isdecimal() else called
        elif number == 5:
            key, called, _ = _metadata(data, value, after)
            _refuse_more(statistics, _MOST_NAMES, "names of statistics")
            statistics[key] = called
        elif number == 6:
            stats.append((value, after))
            _refuse_more(stats, _MOST_NAMES, "statistics")
    plane.name = name
    plane.stats_reader = lambda line, place: _stats(data, line.stats_at[place], line.stats_end[place], statistics)
    plane.stats.update(pair for each in stats if (pair := _stat(data, *each, statistics)))
    unwanted = {key for key, called in plane.names.items() if not wanted(called)}
    plane.lines = [_line(data, *each, unwanted) for each in lines]
    return plane


def _metadata(data: bytes | memoryview, at: int, end: int) -> tuple[int, str, str]:
    """An entry of a map: its key, and of its value the name and what is shown for it."""
    key, name, shown = 0, "", ""
    for number, kind, value, after in fields(data, at, end):
        if number == 1 and kind != BYTES:
            key = value
        elif number == 2 and kind == BYTES:
            for inner, inner_kind, inner_value, inner_after in fields(data, value, after):
                if inner == 2 and inner_kind == BYTES:
                    name = text(data, inner_value, inner_after)
                elif inner == 4 and inner_kind == BYTES:
                    shown = text(data, inner_value, inner_after)
    return key, name, shown


def _refuse_more(found: Sized, most: int, what: str) -> None:
    if len(found) > most:
        raise ValueError(f"a plane with more than {most} {what}")


def _line(data: bytes | memoryview, at: int, end: int, unwanted: set[int]) -> Line:
    line = Line()
    display = ""
    first = 0
    for number, kind, value, after in fields(data, at, end):
        if number == 4 and kind == BYTES:
            first = first or value
            break  # the events come last but for the display's name; they are read below, for speed
        if number == 1:
            line.number = signed(value)
        elif number == 2 and kind == BYTES:
            line.name = text(data, value, after)
        elif number == 3:
            line.begin_ns = signed(value)
        elif number == 11 and kind == BYTES:
            display = text(data, value, after)
    if first:
        display = _events(data, _before(data, first), end, line, unwanted) or display
    line.name = line.name or display
    return line


def _before(data: bytes | memoryview, at: int) -> int:
    """Where the field begins whose content begins at an offset: one key, and a length of one to five bytes."""
    for size in range(1, 6):
        length_at = at - size
        if data[length_at - 1] == _EVENTS and all(data[each] & 128 for each in range(length_at, at - 1)):
            return length_at - 1
    raise ValueError(f"no event before byte {at}")


def _events(data: bytes | memoryview, at: int, end: int, line: Line, unwanted: set[int]) -> str:
    """Read the events of a line; written for speed, as a long profile has millions. Returns the display's name, if any."""
    display = ""
    name, start, stop = line.names.append, line.starts_ns.append, line.ends_ns.append
    stats_at, stats_end = line.stats_at.append, line.stats_end.append
    try:
        while at < end:
            if data[at] != _EVENTS:
                at, shown = _other_field(data, at, end)
                display = shown or display
                continue
            size = data[at + 1]
            at += 2
            if size > 127:
                size, at = varint(data, at - 1)
            after = at + size
            if after > end:
                raise CutOff(f"an event ends behind its line, at byte {at}")
            number = offset = duration = 0
            if size and data[at] == _METADATA:
                number, at = varint(data, at + 1)
            if number in unwanted:
                line.unwanted += 1
                at = after
                continue
            if at < after and data[at] == _OFFSET:
                offset, at = varint(data, at + 1)
            if at < after and data[at] == _DURATION:
                duration, at = varint(data, at + 1)
            name(number & _LARGEST)
            start(offset / 1000.0)
            stop((offset + duration) / 1000.0)
            stats_at(at)
            stats_end(after)
            at = after
    except IndexError:
        raise CutOff(f"a line ends within an event, at byte {at}") from None
    return display


def _other_field(data: bytes | memoryview, at: int, end: int) -> tuple[int, str]:
    for number, kind, value, after in fields(data, at, end):
        return after, text(data, value, after) if number == 11 and kind == BYTES else ""
    return end, ""


def _stats(data: bytes | memoryview, at: int, end: int, statistics: Mapping[int, str]) -> dict[str, Value]:
    return dict(
        pair
        for number, kind, value, after in fields(data, at, end)
        if number == 4 and kind == BYTES and (pair := _stat(data, value, after, statistics))
    )


def _stat(data: bytes | memoryview, at: int, end: int, statistics: Mapping[int, str]) -> tuple[str, Value] | None:
    name: str = ""
    found: Value | None = None
    for number, kind, value, after in fields(data, at, end):
        if number == 1:
            name = statistics.get(value, "")
        elif number == 2 and kind == FIXED64:
            found = double(value)
        elif number == 3:
            found = value
        elif number == 4:
            found = signed(value)
        elif number in (5, 6) and kind == BYTES:
            found = text(data, value, after)
        elif number == 7:
            found = statistics.get(value, "")
    return (name, found) if name and found is not None else None
