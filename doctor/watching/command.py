"""`tfgpu-doctor watch`: beside a running training, why its GPU idles, and that it hangs."""

from __future__ import annotations

import shlex
import shutil
import signal
import sys

import click

from tfgpu_doctor.cli.finite import FiniteRange
from tfgpu_doctor.cli.output import note, refuse, refuse_unwritable, saved
from tfgpu_doctor.host import Host
from tfgpu_doctor.host.launched_program import die_like
from tfgpu_doctor.render import wants_colour
from tfgpu_doctor.render.json_document import as_json
from tfgpu_doctor.watching.beside import watch_command
from tfgpu_doctor.watching.hanging import AFTER_S
from tfgpu_doctor.watching.history import WatchOptions
from tfgpu_doctor.watching.page import render_watch_markdown, render_watch_text
from tfgpu_doctor.watching.reporter import Reporter
from tfgpu_doctor.watching.result import WatchReport
from tfgpu_doctor.watching.rules import parse_rule

_FORMATS = ("text", "json", "markdown", "html")
_WIDTH = 100


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.option(
    "--pid",
    type=click.IntRange(1),
    metavar="PID",
    help="Look at a running process from outside, until it ends or Ctrl-C.",
)
@click.option("--seconds", type=FiniteRange(1), metavar="N", help="With --pid: for how long to look.")
@click.option("--fail-if", "rules", multiple=True, metavar="RULE",
              help="Fail a run in which this holds: 'gpu_idle > 40 % for 5 min'. May be given again.")  # fmt: skip
@click.option("--on-hang", type=click.Choice(("report", "stop")), default="report", show_default=True,
              help="Tell that the program stands still, or end it too.")  # fmt: skip
@click.option("--hang-after", type=FiniteRange(5), default=AFTER_S, show_default=True, metavar="SECONDS",
              help="Without any progress; a program that uses a CPU meanwhile gets five times as long.")  # fmt: skip
@click.option("--every", "every_s", type=FiniteRange(5), metavar="SECONDS",
              help="Between two recordings; without this, from 20 s on more and more rarely.")  # fmt: skip
@click.option("--events", metavar="FILE", help="Append a line of JSON for each change.")
@click.option("--prometheus", "metrics", metavar="FILE", help="Write the state in Prometheus' text format, every 10 s.")
@click.option("--no-live", is_flag=True, help="Show nothing before the end.")
@click.option("--format", "format_", type=click.Choice(_FORMATS), default="text", show_default=True)
@click.option("-o", "--output", metavar="FILE", help="Write the report to this file; else it goes to standard error.")
def watch(
    *, command: tuple[str, ...], pid: int | None, seconds: float | None, rules: tuple[str, ...], on_hang: str,
    hang_after: float, every_s: float | None, events: str | None, metrics: str | None, no_live: bool, format_: str,
    output: str | None,
) -> int:  # fmt: skip
    """Run a training and say, while it runs and at its end, what its steps wait for, and that it stands still.

    Its input, output, signals and exit code stay its own. Exit code: the program's; 17 if it was ended because it hung,
    18 if it ended well and a rule is broken, 19 if a rule could not be judged, 2 wrong usage, 126 it cannot be started,
    127 there is no such command.
    """
    if command and pid is not None:
        refuse("--pid cannot be combined with a command after --: watch one of them, and leave out the other")
    if not command and pid is None:
        refuse("name a command after --, or a process with --pid")
    if pid is not None and on_hang == "stop":
        refuse(
            "--on-hang stop needs a command after --: the doctor ends no process that it did not start; "
            "leave the option out, and --pid tells of a hang"
        )
    if pid is None and seconds is not None:
        refuse(
            "--seconds needs --pid: a command is watched until it ends; `timeout N COMMAND` after -- ends it earlier"
        )
    try:
        parsed = [parse_rule(rule) for rule in rules]
    except ValueError as error:
        refuse(str(error))
    if not hasattr(signal, "sigtimedwait"):
        refuse("watch needs Linux; `tfgpu-doctor trace --record-with` runs here too")
    if format_ == "html" and output is None:
        refuse("a page needs a file: -o FILE")
    refuse_unwritable(output)
    reporter = Reporter(live=not no_live, events=events, metrics=metrics)
    if pid is not None:
        from tfgpu_doctor.watching.outside import watch_pid

        options = WatchOptions(
            f"process {pid}", hang_after_s=hang_after, every_s=every_s, rules=parsed, from_outside=True
        )
        watched = watch_pid(pid, options, reporter, seconds=seconds)
    else:
        options = WatchOptions(shlex.join(command), hang_after_s=hang_after, every_s=every_s, rules=parsed)
        try:
            watched = watch_command(command, options, reporter, stop_hangs=on_hang == "stop")
        except OSError as error:
            note(f"error: {command[0]} cannot be started: {error.strerror or error}")
            return 126 if isinstance(error, PermissionError) else 127  # as a shell says it
    _deliver(render(watched.report, format_, to_file=output is not None), output)
    return die_like(watched.own_code)


def render(report: WatchReport, format_: str, *, to_file: bool = False) -> str:
    """Render the document in one of the formats."""
    if format_ == "json":
        return as_json(report)
    if format_ == "html":
        from tfgpu_doctor.watching.html_page import render_watch_html

        return render_watch_html(report)
    if format_ == "markdown":
        return render_watch_markdown(report)
    is_terminal = not to_file and sys.stderr is not None and sys.stderr.isatty()
    width = min(shutil.get_terminal_size((_WIDTH, 24)).columns, _WIDTH) if is_terminal else _WIDTH
    return render_watch_text(report, width=width, colour=is_terminal and wants_colour(Host().environment))


def _deliver(document: str, output: str | None) -> None:
    """Standard output is the program's: the document goes to standard error, or to a file.

    A file that cannot be written at last does not change the exit code, which is the program's: the document goes to
    standard error.
    """
    if output is not None:
        saved(output, document.encode(), costly=True)
        return
    if sys.stderr is not None:
        try:
            sys.stderr.write("\n" + document)
            sys.stderr.flush()
        except OSError:
            pass  # there is no reader
