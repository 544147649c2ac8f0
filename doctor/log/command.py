"""`tfgpu-doctor log`: find the cause in a log."""

from __future__ import annotations

import contextlib
import sys
from typing import BinaryIO

import click
import msgspec

from tfgpu_doctor.cli.output import WRONG_USAGE, deliver, note, refuse, refuse_unwritable
from tfgpu_doctor.host.files import Files
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.log.classification import classify
from tfgpu_doctor.log.context import KEYS, Context
from tfgpu_doctor.log.opened import NotALogError, OpenedLog
from tfgpu_doctor.log.page import render_log
from tfgpu_doctor.log.report import LogReport
from tfgpu_doctor.log.signatures import Scanner
from tfgpu_doctor.render.json_document import as_json

_FINDINGS, _NOTHING_JUDGED, _INTERRUPTED = 1, 3, 130


@click.command()
@click.argument("file", metavar="FILE|-")
@click.option(
    "--given",
    "context",
    metavar="KEY=VALUE",
    multiple=True,
    help=f"Context that the log does not contain, as free text: {', '.join(KEYS)}.",
)
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("-o", "--output", metavar="FILE", help="Write the report to this file.")
def log(*, file: str, context: tuple[str, ...], format_: str, output: str | None) -> int:
    """Find the cause in a TensorFlow log, a CI log, or the text of a ticket.

    The report quotes lines as they are, with the names and secrets in them; to share a log, use
    `tfgpu-doctor ticket --log`.

    The log can have any size and encoding, and can be compressed with gzip, bzip2 or xz; `-` reads standard input. Exit
    codes: 0 no problem found, 1 a cause found, 2 wrong usage or unreadable input, 3 the log is empty, 130 interrupted
    (what was read by then is judged).
    """
    refuse_unwritable(output)
    known, interrupted = _given(context), False
    scanner, opened = Scanner(read_knowledge().log_signatures), None
    try:
        with _open(file) as content:
            opened = OpenedLog(content, file)
            scanner.scan(opened)
    except NotALogError as error:
        refuse(f"{file} {error}")
    except OSError as error:
        refuse(f"{file} cannot be read: {error.strerror or error}")
    except KeyboardInterrupt:
        interrupted = True
    damaged, is_empty = (opened.damaged, not opened.has_text) if opened else ("", False)
    if damaged and is_empty:
        refuse(f"{file} cannot be read: {damaged}")
    report = classify(
        scanner.found, known, read_knowledge(), scanner.lines, scanner.kept.texts(), reports=scanner.reports
    )
    report = msgspec.structs.replace(
        report, passed_over=scanner.passed_over, interrupted=interrupted, damaged=damaged,
        empty=is_empty and not interrupted,
    )  # fmt: skip
    deliver(_render(report, format_), output)
    if damaged:
        note(f"error: {file}: {damaged}; what follows line {report.lines:,} was not read")
    return _exit_code(report)


def _exit_code(report: LogReport) -> int:
    """Where nothing was found, a log that could not be read, or is empty, is not said to be without a problem."""
    if report.interrupted:
        return _INTERRUPTED
    if any(cause.severity != "info" for cause in report.causes):
        return _FINDINGS
    if report.damaged:
        return WRONG_USAGE
    return _NOTHING_JUDGED if report.empty else 0


def _open(file: str) -> contextlib.AbstractContextManager[BinaryIO]:
    if file == "-":
        if sys.stdin is None:
            refuse("standard input is closed")
        return contextlib.nullcontext(sys.stdin.buffer)
    try:
        return Files().open_binary(file, streams=True)
    except OSError as error:
        refuse(f"{file} cannot be read: {error.strerror or error}")


def _given(pairs: tuple[str, ...]) -> Context:
    values: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or key.strip() not in KEYS:
            refuse(f"--given requires KEY=VALUE, where KEY is one of {', '.join(KEYS)}; got {pair!r}")
        values[key.strip()] = value.strip()
    return Context(values)


def _render(report: LogReport, format_: str) -> str:
    if format_ == "json":
        return as_json(report)
    return render_log(report)
