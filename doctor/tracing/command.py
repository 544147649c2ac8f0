"""`tfgpu-doctor trace`: where the steps of a profiled training spend their time, and the fix."""

from __future__ import annotations

import os
import shlex
import shutil
import sys

import click
import msgspec

from tfgpu_doctor.cli.finite import FiniteRange
from tfgpu_doctor.cli.output import deliver, note, refuse, refuse_unwritable
from tfgpu_doctor.host import Host
from tfgpu_doctor.host.scratch import scratch_folder
from tfgpu_doctor.host.watched import CannotStart
from tfgpu_doctor.render import wants_colour
from tfgpu_doctor.render.json_document import as_json
from tfgpu_doctor.tracing.compare import compare
from tfgpu_doctor.tracing.drawing import Drawing, draw
from tfgpu_doctor.tracing.examine import examine
from tfgpu_doctor.tracing.page import render_trace_markdown, render_trace_text
from tfgpu_doctor.tracing.processed import ENDING
from tfgpu_doctor.tracing.processed_report import processed_report
from tfgpu_doctor.tracing.reading import Unreadable, find_file, read_profile, read_summary
from tfgpu_doctor.tracing.recording import NotRecorded, Recorder
from tfgpu_doctor.tracing.result import MOST_RECORDED_S, Comparison, TraceReport, make_report

_FORMATS = ("text", "json", "markdown", "html")
_NOT_TOLD = 3
_WIDTH = 100


@click.command()
@click.argument("profile", metavar="[LOGDIR|FILE]", required=False)
@click.option(
    "--record-with", "program", metavar="COMMAND", help="Start a program, record it while it trains, and end it."
)
@click.option("--after", "after_s", type=FiniteRange(0), default=5.0, show_default=True, metavar="SECONDS",
              help="With --record-with: how long after the import of TensorFlow to begin.")  # fmt: skip
@click.option("--seconds", type=FiniteRange(0.5, MOST_RECORDED_S), default=4.0, show_default=True, metavar="SECONDS",
              help="With --record-with: how long to record; longer if there are too few steps.")  # fmt: skip
@click.option("--patience", "patience_s", type=FiniteRange(1), default=300.0, show_default=True, metavar="SECONDS",
              help="With --record-with: when to give up.")  # fmt: skip
@click.option("--save", metavar="FOLDER", help="With --record-with: keep the profile in a new folder.")
@click.option("--compare", "other", metavar="LOGDIR|FILE", help="Compare with another profile of the same program.")
@click.option("--format", "format_", type=click.Choice(_FORMATS), default="text", show_default=True)
@click.option("-o", "--output", metavar="FILE", help="Write the answer to this file.")
def trace(
    *, profile: str | None, program: str | None, after_s: float, seconds: float, patience_s: float, save: str | None,
    other: str | None, format_: str, output: str | None,
) -> int:  # fmt: skip
    """Say where the steps of a profiled training spend their time, and what to change.

    LOGDIR is a folder of TensorBoard, FILE an .xplane.pb or a trace.json.gz. Exit code: 0 healthy, 1 a bottleneck, 2
    wrong usage or an unreadable file, 3 the profile does not tell, 130 interrupted.
    """
    if (profile is None) == (program is None):
        refuse("name a folder or file with a profile, or a program with --record-with")
    if save is not None and (program is None or os.path.exists(save)):
        refuse("--save needs --record-with, and a folder that does not exist yet")
    refuse_unwritable(output, save)
    before = examined(other)[0] if other else None
    report, drawing = examined(profile) if profile else _recorded(program or "", after_s, seconds, patience_s, save)
    deliver(render(report, compare(report, before) if before else None, drawing, format_), output, costly=not profile)
    return report.exit_code


def examined(path: str) -> tuple[TraceReport, Drawing]:
    """Read and judge what lies at a path; exit with one line if that is not possible."""
    try:
        file = find_file(path)
        if file.endswith(ENDING):
            return processed_report(read_summary(file), file), Drawing()
        found = read_profile(file)
    except Unreadable as error:
        refuse(str(error))
    verdict = examine(found)
    return make_report(found, verdict, file), draw(found, verdict)


def _recorded(
    program: str, after_s: float, seconds: float, patience_s: float, save: str | None
) -> tuple[TraceReport, Drawing]:
    try:
        argv = shlex.split(program)
    except ValueError as error:
        refuse(f"--record-with cannot be split into words: {error}")
    if not argv:
        refuse("--record-with needs a command, such as 'python train.py'")
    recorder = Recorder(
        argv, dict(Host().environment), after_s=after_s, seconds=seconds, patience_s=patience_s, note=note
    )
    with scratch_folder() as folder:
        try:
            found, verdict, path = recorder.record(folder)
        except CannotStart as error:
            refuse(f"{argv[0]} cannot be started: {error.strerror or error}")
        except (NotRecorded, OSError) as error:
            note(f"error: {error}")
            raise SystemExit(_NOT_TOLD) from None
        if save is not None and not _copied(_run_folder(path, folder), save):
            save = None
        return make_report(found, verdict, save or program), draw(found, verdict)


def _copied(folder: str, to: str) -> bool:
    """Copy the recording; where that fails say so, and go on to the answer."""
    try:
        shutil.copytree(folder, to)
    except (OSError, shutil.Error) as error:
        note(f"error: {to} cannot be written: {getattr(error, 'strerror', None) or error}")
        return False
    return True


def _run_folder(path: str, folder: str) -> str:
    """The folder of the recording that was judged, with its looks at Python."""
    return os.path.join(folder, os.path.relpath(path, folder).split(os.sep)[0])


def render(report: TraceReport, other: Comparison | None, drawing: Drawing, format_: str) -> str:
    """Render the document in one of the formats."""
    if format_ == "json":
        return as_json(msgspec.structs.replace(report, compared=other))
    if format_ == "html":
        from tfgpu_doctor.tracing.html_page import render_trace_html

        return render_trace_html(report, other, drawing)
    if format_ == "markdown":
        return render_trace_markdown(report, other)
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    width = min(shutil.get_terminal_size((_WIDTH, 24)).columns, _WIDTH) if is_terminal else _WIDTH
    return render_trace_text(report, other, width=width, colour=is_terminal and wants_colour(Host().environment))
