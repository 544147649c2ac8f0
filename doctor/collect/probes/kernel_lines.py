"""Lines of the kernel's log as dmesg, journalctl and syslog write them: how old each is, and what it says."""

from __future__ import annotations

import datetime as dt
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

_LONGEST_LINE = 2000
SLACK_S = 60.0  # by which the time of the boot and the first lines of its log may disagree
_DAY_S = 86400.0
_FIRST_LINE = "Linux version "
# What comes before the message: seconds since 1970 (journalctl -o short-unix), a date (rsyslog, new form and old),
# or seconds since the boot (dmesg, with the task that spoke where the kernel tells; /var/log/dmesg).
_STARTS = re.compile(
    r"(?P<epoch>\d{9,11}\.\d+) \S+ [^:]{1,60}: "
    r"|(?:(?P<iso>\d{4}-\d\d-\d\dT\S+)|(?P<day>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d)) (?:\S+ )?kernel: (?:\[ *\d+\.\d+\] ?)?"
    r"|(?:<\d+>)?\[ *(?P<awake>\d+\.\d+)\](?:\[ *[TC]\d+\])? (?:kernel: )?"
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@dataclass(frozen=True)
class Clock:
    """What makes ages of stamps: the time now (s since 1970), and how long the machine has been awake, and up (s)."""

    now: float
    awake_s: float | None = None
    uptime_s: float | None = None


@dataclass(frozen=True)
class Line:
    """One message; its age in seconds, None where it has no date; how many boots ago it was written."""

    text: str
    age_s: float | None = None
    boots_ago: int = 0


@dataclass(frozen=True)
class Log:
    """The telling messages of a log, and from when to when all of it reaches (ages in seconds)."""

    lines: tuple[Line, ...]
    oldest_age_s: float | None = None
    newest_age_s: float | None = None
    from_boot: bool = False
    has_lines: bool = False  # whether there was any message of the kernel's, telling or not


def read_log(text: str, telling: re.Pattern[str], clock: Clock, *, boots_ago: int | None = None) -> Log:
    """The messages that match a pattern; those that go over several lines are put together.

    `boots_ago` is of all lines, where it is known: a journal may give the newest first. Else they are in their order.
    """
    # rsyslog writes a line's end inside a message as #012.
    rows = [row[:_LONGEST_LINE] for row in text.replace("\0", "").replace("#012", "\n ").split("\n")]
    boots = [place for place, row in enumerate(rows) if _FIRST_LINE in row and _STARTS.match(row)]
    ends = [age for order in (rows, reversed(rows)) for age in [_first_age(order, clock)] if age is not None]
    has_lines = any(_STARTS.match(row) for row in rows)
    # A syslog that nobody writes any more ends before the last boot.
    stale = int(bool(ends) and clock.uptime_s is not None and min(ends) > clock.uptime_s + SLACK_S)
    lines = []
    for place, start, message in _messages(rows, telling):
        age = _age(start, clock)
        before = age is not None and clock.uptime_s is not None and age > clock.uptime_s + SLACK_S
        counted = max(sum(boot > place for boot in boots) + stale, int(before))
        lines.append(Line(message, age, counted if boots_ago is None else boots_ago))
    return Log(
        tuple(lines),
        oldest_age_s=max(ends, default=None),
        newest_age_s=min(ends, default=None),
        from_boot=bool(boots) and not stale,
        has_lines=has_lines,
    )


def _messages(rows: list[str], telling: re.Pattern[str]) -> Iterator[tuple[int, re.Match[str], str]]:
    """Place, start and text of each telling message, with the lines that go on with it."""
    place = 0
    while place < len(rows):
        row, here = rows[place], place
        place += 1
        if not telling.search(row) or not (start := _STARTS.match(row)):
            continue
        message = row[start.end() :].rstrip()
        while place < len(rows) and (more := _continuation(start.group(), message, rows[place])):
            message = f"{message} {more}"
            place += 1
        yield here, start, message


def _continuation(start: str, message: str, row: str) -> str:
    """What a line adds to the message before it; empty where it is a message of its own.

    dmesg and journalctl indent such lines. A kernel that is read line by line repeats the start of each: those of the
    driver's long messages alone are joined, as they are told by their first words, and end with a full stop.
    """
    if row[:1].isspace():
        return row.strip().removeprefix("NVRM:").strip()
    if message.startswith("NVRM: The NVIDIA") and not message.endswith(".") and row.startswith(f"{start}NVRM: "):
        return row[len(start) :].removeprefix("NVRM:").strip()
    return ""


def _first_age(rows: Iterator[str] | list[str], clock: Clock) -> float | None:
    return next(
        (age for row in rows if (start := _STARTS.match(row)) and (age := _age(start, clock)) is not None), None
    )


def _age(start: re.Match[str], clock: Clock) -> float | None:
    """Seconds between a line's stamp and now; the future counts as now."""
    if start["awake"]:
        return round(max(0.0, clock.awake_s - float(start["awake"])), 1) if clock.awake_s is not None else None
    written = float(start["epoch"]) if start["epoch"] else _since_1970(start, clock.now)
    return round(max(0.0, clock.now - written), 1) if written is not None else None


def _since_1970(start: re.Match[str], now: float) -> float | None:
    try:
        if start["iso"]:
            return dt.datetime.fromisoformat(start["iso"].replace("Z", "+00:00")).timestamp()  # Z: from Python 3.11 on
        return _without_year(start["day"], now)
    except (ValueError, OverflowError, OSError):
        return None  # no such date


def _without_year(day: str, now: float) -> float:
    """`Nov  9 04:05:06` in the machine's own zone: the last one that is not to come. Raises ValueError."""
    month, number, clock = day.split()
    hours, minutes, seconds = (int(part) for part in clock.split(":"))
    year = time.localtime(now).tm_year
    fields = (_MONTHS.index(month) + 1, int(number), hours, minutes, seconds, 0, 0, -1)
    this_year = time.mktime((year, *fields))
    return this_year if this_year <= now + _DAY_S else time.mktime((year - 1, *fields))
