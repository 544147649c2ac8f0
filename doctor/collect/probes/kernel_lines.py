"""Lines of the kernel log as dmesg, journalctl and syslog write them: the age and the text of each."""

from __future__ import annotations

import datetime as dt
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

_LONGEST_LINE = 2000
SLACK_S = 60.0  # the tolerated difference between the time of the boot and the first lines of its log
_DAY_S = 86400.0
_FIRST_LINE = "Linux version "
# The prefix of a message: seconds since 1970 (journalctl -o short-unix), a date (rsyslog, new format and old),
# or seconds since the boot (dmesg, with the calling task if the kernel prints it; /var/log/dmesg).
_STARTS = re.compile(
    r"(?P<epoch>\d{9,11}\.\d+) \S+ [^:]{1,60}: "
    r"|(?:(?P<iso>\d{4}-\d\d-\d\dT\S+)|(?P<day>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d)) (?:\S+ )?kernel: "
    r"(?:\[ *\d+\.\d+\](?: ?\[ *[TC]\d+\])? ?)?"
    r"|(?:<\d+>)?\[ *(?P<awake>\d+\.\d+)\](?: ?\[ *[TC]\d+\])? (?:kernel: )?"
)
_ISO = re.compile(r"(?P<seconds>[\dT:-]{19})(?:[.,](?P<decimals>\d+))?(?P<offset>Z|[+-]\d\d:?\d\d)?")
# The driver's long messages: their first words are known, and they end with a full stop.
_LONG = ("NVRM: The NVIDIA", "NVRM: API mismatch", "NVRM: This can occur")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@dataclass(frozen=True)
class Clock:
    """The reference for ages: the time now (s since 1970), and how long the machine has been awake and up (s)."""

    now: float
    awake_s: float | None = None
    uptime_s: float | None = None


@dataclass(frozen=True)
class Line:
    """One message; its age in seconds, None if it has no date; how many boots ago it was written."""

    text: str
    age_s: float | None = None
    boots_ago: int = 0


@dataclass(frozen=True)
class Log:
    """The relevant messages of a log, and the time span that it covers completely (ages in seconds)."""

    lines: tuple[Line, ...]
    oldest_age_s: float | None = None
    newest_age_s: float | None = None
    from_boot: bool = False
    has_lines: bool = False  # whether there was any kernel message, relevant or not


def read_log(text: str, telling: re.Pattern[str], clock: Clock, *, boots_ago: int | None = None) -> Log:
    """The messages that match a pattern; those that span several lines are joined.

    `boots_ago` applies to all lines, if it is known: a journal may list the newest first. Otherwise lines are in order.
    """
    # rsyslog writes a line break inside a message as #012.
    rows = [row[:_LONGEST_LINE] for row in text.replace("\0", "").replace("#012", "\n ").split("\n")]
    boots = [place for place, row in enumerate(rows) if _FIRST_LINE in row and _STARTS.match(row)]
    ends = [age for order in (rows, reversed(rows)) for age in [_first_age(order, clock)] if age is not None]
    has_lines = any(_STARTS.match(row) for row in rows)
    # A syslog that is no longer written ends before the last boot.
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
    """Index, prefix and text of each relevant message, with its continuation lines."""
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
    """The text that a line adds to the message before it; empty if it is a separate message.

    dmesg and journalctl indent such lines, and older ones print them without a prefix. A kernel that is read line by line
    repeats the prefix of each: only the driver's long messages are joined.
    """
    if row[:1].isspace() or (row.startswith("NVRM: ") and "NVRM: " in message):
        return row.strip().removeprefix("NVRM:").strip()
    if message.startswith(_LONG) and not message.endswith(".") and row.startswith(f"{start}NVRM: "):
        return row[len(start) :].removeprefix("NVRM:").strip()
    return ""


def _first_age(rows: Iterator[str] | list[str], clock: Clock) -> float | None:
    return next(
        (age for row in rows if (start := _STARTS.match(row)) and (age := _age(start, clock)) is not None), None
    )


def _age(start: re.Match[str], clock: Clock) -> float | None:
    """Seconds between a line's timestamp and now; the future counts as now."""
    if start["awake"]:
        return round(max(0.0, clock.awake_s - float(start["awake"])), 1) if clock.awake_s is not None else None
    written = float(start["epoch"]) if start["epoch"] else _since_1970(start, clock.now)
    return round(max(0.0, clock.now - written), 1) if written is not None else None


def _since_1970(start: re.Match[str], now: float) -> float | None:
    try:
        if start["iso"]:
            return dt.datetime.fromisoformat(_as_python_3_10_reads(start["iso"])).timestamp()
        return _without_year(start["day"], now)
    except (ValueError, OverflowError, OSError):
        return None  # not a valid date


def _as_python_3_10_reads(iso: str) -> str:
    """`2025-01-17T17:39:30+0000` or `...30,491363Z` with a colon in the offset, a full stop, and at most six decimals."""
    found = _ISO.fullmatch(iso)
    if not found:
        return iso
    decimals = f".{found['decimals'][:6]:0<6}" if found["decimals"] else ""
    offset = "+00:00" if found["offset"] == "Z" else re.sub(r"(\d\d)(\d\d)$", r"\1:\2", found["offset"] or "")
    return f"{found['seconds']}{decimals}{offset}"


def _without_year(day: str, now: float) -> float:
    """`Nov  9 04:05:06` in the machine's time zone: the most recent such time in the past. Raises ValueError."""
    month, number, clock = day.split()
    hours, minutes, seconds = (int(part) for part in clock.split(":"))
    year = time.localtime(now).tm_year
    fields = (_MONTHS.index(month) + 1, int(number), hours, minutes, seconds, 0, 0, -1)
    this_year = time.mktime((year, *fields))
    return this_year if this_year <= now + _DAY_S else time.mktime((year - 1, *fields))
