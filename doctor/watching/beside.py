"""Runs a command, and watches it until it ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tfgpu_doctor.host import Host
from tfgpu_doctor.host.launched_program import LaunchedProgram
from tfgpu_doctor.tracing import STARTUP
from tfgpu_doctor.watching.agent import Agents
from tfgpu_doctor.watching.history import WatchOptions
from tfgpu_doctor.watching.reporter import Reporter
from tfgpu_doctor.watching.reporting import make_watch_report
from tfgpu_doctor.watching.result import WatchReport
from tfgpu_doctor.watching.watcher import Watcher

HANG_ENDED, RULE_BROKEN, RULE_NOT_JUDGED = 17, 18, 19
_TICK_S = 0.2


@dataclass(frozen=True)
class Watched:
    """The report on a program, and its exit code: negative for a signal, None if not even SIGKILL ended it."""

    report: WatchReport
    exit_code: int | None

    @property
    def own_code(self) -> int:
        """The exit code of the doctor; negative: it ends by this signal."""
        if self.report.hang is not None and self.report.hang.ended:
            return HANG_ENDED
        kept = {rule.broken for rule in self.report.rules}
        if not self.exit_code and kept - {False}:
            return RULE_BROKEN if True in kept else RULE_NOT_JUDGED
        return self.exit_code or 0


def watch_command(argv: Sequence[str], options: WatchOptions, reporter: Reporter, *, stop_hangs: bool) -> Watched:
    """Run the command as if the doctor were not there. Raises OSError if it cannot be started."""
    host = Host()
    with LaunchedProgram(argv, environment=host.environment, startup=STARTUP, before_stop=reporter.pause) as program:
        agents = Agents(program.listener)
        folder = os.path.join(program.listener.folder, "recorded")
        watcher = Watcher(host, program.pid, options, folder=folder, agents=agents.hear, told=reporter)
        ended_by, watching = "", True
        try:
            while program.exit_code is None:
                watching = watching and _goes_on(watcher, watcher.tick)
                if watching and stop_hangs and watcher.hang is not None:
                    ended_by = program.end()
                    break  # what SIGKILL does not end is blocked in the kernel
                program.wait(_TICK_S)
        finally:
            _goes_on(watcher, watcher.end)
            reporter.close()
    code = program.exit_code
    report = make_watch_report(watcher, exit_code=code, ended_by=ended_by)
    if report.hang is not None and ended_by:
        reporter.hang(report.hang)
    reporter.end(report)
    return Watched(report, code)


def _goes_on(watcher: Watcher, work: Callable[[], None]) -> bool:
    """Do it; False if it fails. An error of the doctor's own does not end the user's program, which would be ended at an exit."""
    try:
        work()
    except Exception as error:  # noqa: BLE001 - it is told
        watcher.failed(error)
        return False
    return True
