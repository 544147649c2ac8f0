"""Runs a command, and watches it until it ends."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from tfgpu_doctor.host import Host
from tfgpu_doctor.host.launched_program import LaunchedProgram
from tfgpu_doctor.tracing import STARTUP
from tfgpu_doctor.watching.reporting import make_watch_report
from tfgpu_doctor.watching.result import WatchReport
from tfgpu_doctor.watching.telling import Telling
from tfgpu_doctor.watching.voice import Voices
from tfgpu_doctor.watching.watcher import Watcher, Wish

HANG_ENDED, RULE_BROKEN = 17, 18
_TICK_S = 0.2


@dataclass(frozen=True)
class Watched:
    """The report on a program that has ended, and its exit code: negative for a signal."""

    report: WatchReport
    exit_code: int

    @property
    def own_code(self) -> int:
        """The exit code of the doctor; negative: it ends by this signal."""
        if self.report.hang is not None and self.report.hang.ended:
            return HANG_ENDED
        if self.exit_code == 0 and any(rule.broken for rule in self.report.rules):
            return RULE_BROKEN
        return self.exit_code


def watch_command(argv: Sequence[str], wish: Wish, telling: Telling, *, stop_hangs: bool) -> Watched:
    """Run the command as if the doctor were not there. Raises OSError if it cannot be started."""
    host = Host()
    with LaunchedProgram(argv, environment=host.environment, startup=STARTUP) as program:
        voices = Voices(program.listener)
        folder = os.path.join(program.listener.folder, "recorded")
        watcher = Watcher(host, program.pid, wish, folder=folder, voices=voices.hear, told=telling)
        ended_by = ""
        try:
            while program.exit_code is None:
                watcher.tick()
                if stop_hangs and watcher.hang is not None:
                    ended_by = program.end()
                program.wait(_TICK_S)
        finally:
            watcher.end()
            telling.close()
    code = program.exit_code
    report = make_watch_report(watcher, exit_code=code, ended_by=ended_by)
    if report.hang is not None and ended_by:
        telling.hang(report.hang)
    telling.end(report)
    return Watched(report, code)


def in_words(argv: Sequence[str]) -> str:
    """The command as one types it."""
    return shlex.join(argv)
