"""Passes on what is seen: to the terminal, to a file of events, to a file for Prometheus."""

from __future__ import annotations

import sys
import time

from tfgpu_doctor.cli.output import note
from tfgpu_doctor.host import Host
from tfgpu_doctor.host.files import write_whole
from tfgpu_doctor.render import wants_colour
from tfgpu_doctor.watching.event_lines import EventLines
from tfgpu_doctor.watching.live import Bottom, PlainLines, State
from tfgpu_doctor.watching.prometheus_text import render_prometheus
from tfgpu_doctor.watching.reading import GpuReading
from tfgpu_doctor.watching.result import Hang, MachineCause, RuleResult, TimelineEntry, WatchReport
from tfgpu_doctor.watching.units import one_line

_METRICS_EVERY_S = 10.0


class Reporter:
    """Hears of the watched program; `close` puts the terminal back."""

    def __init__(
        self, *, live: bool, events: str | None = None, metrics: str | None = None, plain: bool = False
    ) -> None:
        self._lines = (PlainLines() if plain else _lines()) if live else None
        self._events = EventLines(events, note) if events else None
        self._metrics, self._written_s, self._noted = metrics, 0.0, False

    def turn(self, turn: TimelineEntry) -> None:
        """The verdict is another one."""
        if self._events:
            self._events.verdict(turn)

    def machine(self, cause: MachineCause, seconds: float) -> None:
        """Something outside of the program slows it."""
        if self._events:
            self._events.machine(cause, seconds)

    def machine_end(self, label: str, seconds: float) -> None:
        """It slows the program no more."""
        if self._events:
            self._events.machine_end(label, seconds)

    def note(self, text: str, seconds: float) -> None:
        """Something that is no verdict, but is worth a line at once."""
        if self._lines:
            note(one_line(text))
        if self._events:
            self._events.add("note", seconds, {"text": text})

    def hang(self, hang: Hang) -> None:
        """The program stands still, or was ended for that."""
        if self._events:
            self._events.hang(hang)
        if isinstance(self._lines, PlainLines) and not hang.ended:
            for line in (*hang.evidence, f"Fix: {hang.fix}"):
                note(f"  {one_line(line)}")

    def gpu_lost(self, gpu: GpuReading, seconds: float) -> None:
        """A GPU no longer answers."""
        note(f"GPU {gpu.index} {one_line(gpu.name)} no longer answers, {seconds:.0f} s after the start")
        if self._events:
            self._events.gpu_lost(gpu, seconds)

    def rule(self, rule: RuleResult, seconds: float) -> None:
        """A rule is broken."""
        note(f"the rule '{one_line(rule.rule)}' is broken, {seconds:.0f} s after the start")
        if self._events:
            self._events.rule(rule, seconds)

    def show(self, state: State) -> None:
        """A look has come."""
        if self._lines:
            self._lines.show(state)
        if self._metrics and time.monotonic() - self._written_s >= _METRICS_EVERY_S:
            self._written_s = time.monotonic()
            self._write(render_prometheus(state))

    def end(self, report: WatchReport) -> None:
        """The program has ended."""
        if self._events:
            self._events.end(report)
        if self._metrics:
            self._write(render_prometheus(report))

    def pause(self) -> None:
        """Put the terminal back until the next `show`."""
        if self._lines:
            self._lines.close()

    def close(self) -> None:
        """Put the terminal back."""
        self.pause()
        self._lines = None

    def _write(self, document: str) -> None:
        assert self._metrics is not None
        try:
            write_whole(self._metrics, document.encode())
        except OSError as error:
            if not self._noted:
                self._noted = True
                note(
                    f"--prometheus: {self._metrics} cannot be written ({error.strerror or error}); the training goes on"
                )


def _lines() -> Bottom | PlainLines | None:
    """What shows the verdict meanwhile: rows of the terminal, lines where there is none."""
    try:
        is_terminal = sys.stderr is not None and sys.stderr.isatty()
    except ValueError:
        return None
    if is_terminal:
        return Bottom(sys.stderr.fileno(), colour=wants_colour(Host().environment))
    return PlainLines()
