"""What is shown while the training runs: in the last rows of the terminal, or as one line per change of the verdict."""

from __future__ import annotations

import os
import re
import select
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.cells import cell_len

from tfgpu_doctor.cli.output import note
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.amounts import amount
from tfgpu_doctor.tracing import Shares, TraceReport
from tfgpu_doctor.watching.reading import GpuReading, Reading
from tfgpu_doctor.watching.result import Hang, RuleResult
from tfgpu_doctor.watching.units import clock, cut, duration, megahertz, of, one_line, percent
from tfgpu_doctor.watching.words import first_cause, slowdown_names

_FEWEST_ROWS = 6  # of a terminal; one with no more belongs to the program alone
_PATIENCE_S = 1.0  # for a terminal that takes no bytes
_LONGEST_LINE = 400  # characters of a line that goes into a log
_PLACE = re.compile(r" found ([^()]+ \([^()]+:\d+\))$")  # "97% of the looks found load (train.py:31)"
_SHORT = {
    "eager": "starting operations one by one from Python", "retracing": "tracing the function again and again",
    "compile": "XLA compiling again and again", "host_callback": "waiting for a callback",
    "host_python": "waiting for the program's Python", "uneven_steps": "other work between the steps",
    "launch_bound": "starting steps that are too small", "copies": "copies between host and GPU",
    "collectives": "reductions between replicas", "epoch_end": "waiting for the end of old iterators",
    "new_iterators": "making new iterators",
    "input_memory": "waiting for input, for lack of memory",
}  # fmt: skip
_COLOURS = {True: "32", False: "1;31", None: "33"}
_MARKS = {True: "✓", False: "✗", None: "·"}


@dataclass(frozen=True)
class State:
    """What is known at this moment. `seconds` since the start; `sentence` is the verdict in one sentence."""

    seconds: float = 0.0
    verdict: str = ""
    title: str = ""
    sentence: str = ""
    healthy: bool | None = None
    gpus: Sequence[GpuReading] = field(default_factory=list)
    reading: Reading | None = None
    step_ms: float | None = None
    hang: Hang | None = None
    shares: Shares | None = None  # of the last recording
    causes: tuple[str, ...] = ()  # labels of what of the machine is at work
    captures: int | None = None  # recordings that were read
    rules: tuple[RuleResult, ...] = ()


def sentence(report: TraceReport, behind: str = "") -> str:
    """Return the verdict in one sentence: "waiting for input 89 % of each step: `decode (train.py:7)` in `ParallelMap`".

    `behind` names what from outside of the program is behind it.
    """
    cause = first_cause(report)
    if cause:
        label = cause.label
        short = _SHORT.get(label, "waiting for input" if label.startswith("input_") else cause.title)
        whole = "of the steps' time" if label in ("uneven_steps", "epoch_end", "new_iterators") else "of each step"
        where = _where(report, cause.evidence)
        text = f"{short} {percent(cause.share)} {whole}{': ' + where if where else ''}"
    elif report.healthy:
        text = f"healthy: computation takes {percent(report.shares.compute)} of each step"
    else:
        text = f"{report.title}: {report.why}" if report.why else report.title
    return one_line(f"{text}; behind it: {behind}" if behind else text)


def _where(report: TraceReport, evidence: Sequence[str]) -> str:
    """The function that the looks at Python found, and the stage of the pipeline that is the slowest."""
    place = next((found[1] for line in evidence if (found := _PLACE.search(line))), "")
    stage = next((each.path.rpartition("::")[2] for each in report.pipeline if each.is_slowest), "")
    return " in ".join(f"`{name}`" for name in (place, stage) if name)


def lines(state: State, width: int) -> list[str]:
    """Return one line per GPU, or one on the CPUs where there is no GPU, and the verdict's; none is wider than `width`."""
    machine = _gpu_lines(state.gpus)
    if not machine and state.reading:
        machine = [_cpu_line(state.reading)]
    return [cut(line, width) for line in (*machine, status(state))]


def status(state: State) -> str:
    """Return the verdict's line: a mark, the time, the step's time, the sentence."""
    healthy = False if state.hang else state.healthy
    step = f"{state.step_ms:.1f} ms a step  " if state.step_ms is not None and not state.hang else ""
    return f"{_MARKS[healthy]} {clock(state.seconds)}  {step}{_said(state)}"


def _said(state: State) -> str:
    if state.hang:
        return f"no step for {duration(state.hang.seconds)}: {one_line(state.hang.title)}"
    return one_line(state.sentence or state.title) or "looking"


def _gpu_lines(gpus: Sequence[GpuReading]) -> list[str]:
    """One line per GPU; columns stand below each other."""
    rows = [_gpu_columns(gpu) for gpu in gpus]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(_padded(row, widths)).rstrip() for row in rows]


def _padded(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True) if width]


def _gpu_columns(gpu: GpuReading) -> list[str]:
    power = "" if gpu.power_w is None else f"{gpu.power_w:.0f}"
    limit = "" if gpu.power_limit_w is None else f"/{gpu.power_limit_w:.0f}"
    others = ", ".join(f"{one_line(name) or 'a process'} ({pid})" for pid, name, _ in gpu.tenants[:2])
    slow = slowdown_names(gpu.reasons)
    return [
        f"GPU {gpu.index} {one_line(gpu.name)[:40]}".rstrip(),
        "" if gpu.utilization is None else f"util {percent(gpu.utilization)}",
        "" if gpu.used_bytes is None else f"mem {of(gpu.used_bytes, gpu.total_bytes)}",
        megahertz(gpu.sm_mhz, gpu.max_sm_mhz),
        f"{power}{limit} W" if power else "",
        "" if gpu.temperature_c is None else f"{gpu.temperature_c:.0f} °C",
        f"slowed: {slow}" if slow else "",
        f"shared with {others}{', …' if len(gpu.tenants) > 2 else ''}" if others else "",
    ]


def _cpu_line(reading: Reading) -> str:
    cores = " cores" if reading.cpus is None else f" of {amount(reading.cpus, 'core')}"
    parts = [
        f"CPU {reading.cpu:.1f}{cores}",
        "" if reading.queued is None else f"{reading.queued:.1f} waiting",
        "" if reading.others_cpu is None else f"others {reading.others_cpu:.1f}",
        f"quota used up {percent(reading.throttled)} of the time" if reading.throttled else "",
    ]
    return ", ".join(part for part in parts if part)


class Bottom:
    """Shows the lines in the last rows of a terminal, below what the program writes to the same terminal.

    The rows are taken from the terminal's scroll region (DECSTBM), so that the program scrolls above them. Each picture
    is one write: the cursor is saved, and put back where the program has it.
    """

    def __init__(self, fd: int, *, term: str | None = None, colour: bool = True, encoding: str = "utf-8") -> None:
        term = Host().environment.get("TERM", "") if term is None else term
        self._fd, self._colour, self._encoding = fd, colour, encoding
        self._able = term not in ("", "dumb", "unknown") and os.isatty(fd)
        self._shown: tuple[int, int, int] | None = None  # columns, rows, and how many of them are ours
        self._owed = b""  # of a picture that the terminal did not take whole

    def show(self, state: State) -> None:
        """Draw the lines anew. A terminal that is stopped (Ctrl-S) is left alone, and one that has gone for good.

        In the background (`bg`) the terminal is the shell's.
        """
        if not self._able or not self._is_ready(0.0):
            return
        if not self._is_foreground():
            self.close()
            return
        try:
            columns, rows = os.get_terminal_size(self._fd)
        except OSError:
            self._able = False
            return
        if rows <= _FEWEST_ROWS or columns < 2:
            self.close()
            return
        texts = _fitted(lines(state, columns - 1), rows)  # in the last column, terminals wrap in different ways
        place = columns, rows, len(texts)
        reserved = "" if place == self._shown else self._reserved(len(texts))
        self._shown = place
        self._write(reserved + self._changes(texts, rows, False if state.hang else state.healthy))

    def close(self) -> None:
        """Give the rows back, empty, and the cursor to where the program had it."""
        if self._shown is None:
            return
        columns, rows, count = self._shown
        self._shown = None
        try:
            same = os.get_terminal_size(self._fd) == (columns, rows)
        except OSError:
            return
        wiped = "".join(f"\x1b[{row};1H\x1b[2K" for row in range(rows - count + 1, rows + 1))
        self._write(f"\x1b7\x1b[r{wiped}\x1b8" if same else "\x1b7\x1b[r\x1b8" + _wiped_below(1))

    def _reserved(self, count: int) -> str:
        """Scroll until the rows are free; after another size, wipe what the earlier picture left below the cursor."""
        if self._shown is None:
            return "\x1bD" * count + f"\x1b[{count}A"
        return "\x1b7\x1b[r\x1b8" + _wiped_below(count)

    def _changes(self, texts: Sequence[str], rows: int, healthy: bool | None) -> str:
        """The region each time anew: a program that resets the terminal takes it away."""
        first = rows - len(texts) + 1
        drawn = "".join(f"\x1b[{first + place};1H\x1b[0m\x1b[2K{text}" for place, text in enumerate(texts[:-1]))
        colour = f"\x1b[{_COLOURS[healthy]}m" if self._colour else ""
        return f"\x1b7\x1b[1;{first - 1}r{drawn}\x1b[{rows};1H\x1b[0m\x1b[2K{colour}{texts[-1]}\x1b[0m\x1b8"

    def _write(self, text: str) -> None:
        """Write all of it, or keep the rest for the next time: half a picture would leave the cursor in our rows."""
        data = self._owed + text.encode(self._encoding, "replace")
        ends = time.monotonic() + _PATIENCE_S
        try:
            while data and self._is_ready(max(0.0, ends - time.monotonic())):
                data = data[os.write(self._fd, data) :]
        except BlockingIOError:
            pass
        except OSError:
            self._able, data = False, b""
        self._owed = data

    def _is_foreground(self) -> bool:
        try:
            return os.tcgetpgrp(self._fd) == os.getpgrp()
        except OSError:
            return True  # it is not the terminal that controls this process

    def _is_ready(self, seconds: float) -> bool:
        try:
            return bool(select.select((), (self._fd,), (), seconds)[1])
        except (OSError, ValueError):
            self._able = False
            return False


def _wiped_below(count: int) -> str:
    """Make sure of that many rows below the cursor, and wipe all that is there; the cursor stays on its line."""
    return "\x1bD" * count + f"\x1b[{count}A" + "\x1b7\x1b[1B\r\x1b[0m\x1b[J\x1b8"


def _fitted(found: Sequence[str], rows: int) -> list[str]:
    """At most a third of the rows: of many GPUs only the first, and how many more there are."""
    most = max(2, rows // 3)
    if len(found) <= most:
        return list(found)
    kept = most - 2
    return [*found[:kept], f"… {len(found) - 1 - kept} more GPUs", found[-1]]


class PlainLines:
    """Prints one line on standard error for each change of the verdict, where there is no terminal."""

    _last: tuple[str, str, str] | None = None

    def show(self, state: State) -> None:
        """Print the verdict if it is another one."""
        now = state.verdict, state.title, state.hang.kind if state.hang else ""
        if now == self._last or not (state.verdict or state.hang):
            return
        self._last = now
        note(cut(f"{clock(state.seconds)} {_said(state)}", _LONGEST_LINE))

    def close(self) -> None:
        """Nothing is to put back."""
