"""Lines of the kernel log, read as the doctor reads that of a machine; their ages count from the newest line."""

from __future__ import annotations

import datetime as dt
import functools
import re
import time
from collections.abc import Sequence

from tfgpu_doctor.collect.probes.kernel_lines import Clock, read_log
from tfgpu_doctor.collect.probes.kernel_messages import RELEVANT, gather
from tfgpu_doctor.model.facts.kernel import KernelLog, LogSource

SOURCE = "the kernel messages in this log"
_AWAKE = re.compile(r"(?:<\d{1,3}>)?\[ *(\d{1,9}\.\d{6})\](?=[ \[])")
_FACILITY = re.compile(r"(?:kern|user|daemon|syslog)\s*:\w{3,7}\s*: ")  # dmesg -x
_TALOS = re.compile(  # talosctl dmesg, with the address of the machine if it was asked for several
    r"\s*(?:\S{1,100}: )?(?:kern|user|daemon|syslog): +\w{3,7}: \[(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)[.,](\d{1,9})Z\]: "
)
_RELATIVE = re.compile(
    r"(?:<\d{1,3}>)?\[(?: *\+\d{1,9}\.\d{6}|[A-Z][a-z]{2} ?\d{1,2} \d\d:\d\d)\] "
)  # dmesg -e: no seconds
_DELTA = re.compile(r"((?:<\d{1,3}>)?\[ *\d{1,9}\.\d{6}) < *\d{1,9}\.\d{6}>\]")  # dmesg -d
_CTIME = re.compile(r"(?:<\d{1,3}>)?\[(?:[A-Z][a-z]{2} )?([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})\] ")  # dmesg -T
_ISO = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)[.,](\d{1,9})([+-]\d\d:\d\d|Z)? (?=\S)")  # dmesg --time-format=iso
_DATED = re.compile(
    r"(?:\d{4}-\d\d-\d\dT\S{8,30}|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) (?:\S{1,100} )?kernel: "
    r"|\d{9,11}\.\d{1,9} \S{1,100} kernel: "
)
_UNDATED = re.compile(r"(?:kernel: )?(?:NVRM: |nvidia-nvswitch\d{1,2}: SXid )")
_BARE = "[0.000000] "
_AHEAD_S = 86400.0  # a log whose clock is up to this far ahead, as in another time zone


def read_kernel_log(lines: Sequence[str]) -> tuple[int, KernelLog | None]:
    """The line (from 1) of the first kernel message, and the log; None without a message that the doctor knows.

    A text is written when something happened, but the doctor reads it later: the newest line counts as now.
    """
    first, rows = _rows(lines)
    if not rows:
        return 0, None
    text, now = "\n".join(rows), float(int(time.time())) + _AHEAD_S
    awake = max((float(found[1]) for row in rows if (found := _AWAKE.match(row))), default=None)
    newest = read_log(text, RELEVANT, Clock(now)).newest_age_s or 0.0  # of those with a date
    log = read_log(text, RELEVANT, Clock(now - newest, awake_s=awake))
    messages, left_out = gather(log.lines)
    if not messages and not log.from_boot:
        return 0, None
    source = LogSource(
        name=SOURCE, oldest_age_s=log.oldest_age_s, newest_age_s=log.newest_age_s, from_boot=log.from_boot
    )
    return first, KernelLog(source=SOURCE, tried=(source,), messages=messages, left_out=left_out)


def _rows(lines: Sequence[str]) -> tuple[int, list[str]]:
    """The line of the first kernel message, and all of them, with their continuation lines, as dmesg or syslog write them."""
    first, rows, last, inside = 0, [], _BARE, False
    for place, line in enumerate(lines):
        row, prefix = _row(line, last)
        if row:
            first, last, inside = first or place + 1, prefix, True
            rows.append(row)
        elif inside and line[:1].isspace() and line.strip():
            rows.append(line)
        else:
            inside = False
    return first, rows


def _row(line: str, last: str) -> tuple[str, str]:
    """A kernel message in a form that the doctor reads, and its prefix; empty if the line is none.

    A message without a date has that of the one before it.
    """
    line = line.lstrip() if line[:8].lstrip()[:1] in ("[", "<") else line
    if talos := _TALOS.match(line):
        prefix = f"{talos[1]}.{talos[2][:6].ljust(6, '0')}Z kernel: "
        return prefix + line[talos.end() :], prefix
    facility = _FACILITY.match(line)
    rest = line[facility.end() :] if facility else line
    if relative := _RELATIVE.match(rest):
        return last + rest[relative.end() :], last
    rest = _DELTA.sub(r"\1]", rest, count=1)
    if awake := _AWAKE.match(rest):
        return rest, f"{awake.group()} "
    if dated := _DATED.match(rest):
        return rest, dated.group()
    if (found := _CTIME.match(rest)) and (moment := _moment(found[1])):
        return f"{moment} kernel: {rest[found.end() :]}", f"{moment} kernel: "
    if (found := _ISO.match(rest)) and (facility or _UNDATED.match(rest, found.end())):
        moment = f"{found[1]}.{found[2][:6].ljust(6, '0')}{found[3] or ''}"
        return f"{moment} kernel: {rest[found.end() :]}", f"{moment} kernel: "
    return (last + rest.removeprefix("kernel: "), last) if _UNDATED.match(rest) else ("", last)


@functools.lru_cache(maxsize=1024)
def _moment(text: str) -> str:
    """`Feb 23 16:24:18 2025` as ISO writes it; empty if there is no such day."""
    try:
        return dt.datetime.strptime(text, "%b %d %H:%M:%S %Y").isoformat()
    except ValueError:
        return ""
