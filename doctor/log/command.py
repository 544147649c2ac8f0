"""`tfgpu-doctor log`: find the cause in a log."""

from __future__ import annotations

import contextlib
import sys
from typing import BinaryIO

import click
import msgspec

from tfgpu_doctor.cli.output import deliver, refuse, refuse_unwritable
from tfgpu_doctor.host.files import Files
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.log.classification import LogReport, classify
from tfgpu_doctor.log.context import KEYS, Context
from tfgpu_doctor.log.page import render_log
from tfgpu_doctor.log.signatures import Scanner
from tfgpu_doctor.render.json_document import as_json

_FINDINGS, _INTERRUPTED = 1, 130


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

    The log can have any size and encoding; `-` reads standard input. Exit codes: 0 no problem found, 1 a cause found,
    2 wrong usage or unreadable input, 130 interrupted (what was read by then is judged).
    """
    refuse_unwritable(output)
    known, interrupted = _given(context), False
    scanner = Scanner(read_knowledge().log_signatures)
    try:
        with _open(file) as content:
            scanner.scan(content)
    except OSError as error:
        refuse(f"{file} cannot be read: {error.strerror or error}")
    except KeyboardInterrupt:
        interrupted = True
    report = classify(scanner.found, known, read_knowledge(), scanner.lines, scanner.kept.texts())
    report = msgspec.structs.replace(report, passed_over=scanner.passed_over, interrupted=interrupted)
    deliver(_render(report, format_), output)
    if interrupted:
        return _INTERRUPTED
    return _FINDINGS if any(cause.severity != "info" for cause in report.causes) else 0


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
