"""`tfgpu-doctor ticket`: make a bundle for a support ticket, without data that identifies its owner or origin."""

from __future__ import annotations

import io
import time

import click
import msgspec

from tfgpu_doctor.cli.configuration import Configuration, ConfigurationError, read_configuration
from tfgpu_doctor.cli.output import WRONG_USAGE, deliver, note, refuse, refuse_unwritable, saved
from tfgpu_doctor.cli.recorded import read_input, read_recorded
from tfgpu_doctor.cli.waiting import Waiting
from tfgpu_doctor.collect.examination import Interrupted, examine
from tfgpu_doctor.host import Host
from tfgpu_doctor.log import NotALogError, OpenedLog
from tfgpu_doctor.model.bundle import pack
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.facts.bench import Bench, decode_bench
from tfgpu_doctor.ticket.contents import Source, Ticket, make_ticket
from tfgpu_doctor.ticket.identity import told_by_machine
from tfgpu_doctor.ticket.preview import render_preview

_LARGEST_LOG_BYTES = 256 << 20
_WHAT = "a log that a ticket can include: pass only its end"
_PIECE_BYTES = 1 << 20


@click.command()
@click.option("-o", "--output", metavar="FILE", help="Write the bundle, a zip to attach, to this file.")
@click.option("--facts", metavar="FILE", help="Make the ticket from a recorded machine instead of this one.")
@click.option("--log", "log_", metavar="FILE|-", help="Include the relevant part of a log.")
@click.option("--quick", is_flag=True, help="Do not import TensorFlow.")
@click.option(
    "--python", metavar="PATH", help="The Python to examine: an interpreter, or a virtual environment's folder."
)
@click.option("--dry-run", is_flag=True, help="Show what would be shared, and write nothing.")
@click.option("-v", "--verbose", is_flag=True, help="With --dry-run: show the full content of every file.")
def ticket(
    *,
    output: str | None,
    facts: str | None,
    log_: str | None,
    quick: bool,
    python: str | None,
    dry_run: bool,
    verbose: bool,
) -> int:
    """Print a page to paste into a support ticket; with -o FILE, also write the bundle to attach.

    Names, addresses, keys and everything else that is not known to be harmless are replaced by placeholders; nothing is
    sent anywhere. Exit codes, as for `check`: 0 nothing wrong, 1 findings, 2 wrong usage or unreadable input, 3 nothing
    could be judged, 130 interrupted.
    """
    if facts is not None and (quick or python):
        refuse("--facts reads a recorded machine: it cannot be combined with --quick or --python")
    if facts == log_ == "-":
        refuse("standard input cannot be both the recorded machine and the log")
    if verbose and not dry_run:
        refuse("--verbose requires --dry-run")
    try:
        settings = read_configuration().with_options(python=python)
    except ConfigurationError as error:
        refuse(str(error))
    refuse_unwritable(output)
    log = None if log_ is None else _log_in(log_)
    made = make_ticket(_source(settings, facts, log, quick=quick), settings.fail_level)
    if dry_run:
        deliver(render_preview(made, whole=verbose), None)
    else:
        _hand_out(made, output)
    if made.report.interrupted:
        note("interrupted: the ticket has what was examined by then")
    return made.report.exit_code(settings.fail_level)


def _log_in(path: str) -> bytes:
    """Return the text of a log, unpacked."""
    content = read_input(path, _LARGEST_LOG_BYTES, _WHAT)
    opened, parts, size = OpenedLog(io.BytesIO(content), path), list[bytes](), 0
    try:
        while piece := opened.read1(_PIECE_BYTES):
            parts.append(piece)
            size += len(piece)
            if size > _LARGEST_LOG_BYTES:
                refuse(f"{path} unpacks to more than {_LARGEST_LOG_BYTES >> 20} MiB: it is not {_WHAT}")
    except NotALogError as error:
        refuse(f"{path} {error}")
    if opened.damaged:
        note(f"error: {path}: {opened.damaged}; the ticket has what could be read")
    return b"".join(parts)


def _source(settings: Configuration, recorded: str | None, log: bytes | None, *, quick: bool) -> Source:
    host = Host()
    if recorded is not None:
        return Source(read_recorded(recorded), told_by_machine(host), log=log)
    started = time.monotonic()
    facts, interrupted = _examine(settings, quick)
    return Source(facts, told_by_machine(host), _last_bench(facts, host), log, interrupted, time.monotonic() - started)


def _examine(settings: Configuration, quick: bool) -> tuple[Facts, bool]:
    """Return the facts of this machine, and whether the user interrupted the examination."""
    with Waiting() as waiting:
        try:
            return examine(
                python=settings.python, quick=quick, deadline_s=settings.deadline, on_wait=waiting.show
            ), False
        except Interrupted as stop:
            return stop.facts, True


def _last_bench(facts: Facts, host: Host) -> Bench | None:
    """Return the last saved run of the perf suites on this machine."""
    from tfgpu_doctor.bench import SUITE_VERSION, place_of
    from tfgpu_doctor.host.results import Results, ResultsError

    try:
        runs = Results.of_user(host.environment).of_place(place_of(facts, Bench(suite_version=SUITE_VERSION)))
        return decode_bench(runs[-1].document) if runs else None
    except (ResultsError, msgspec.DecodeError) as error:
        note(f"the last benchmark is left out: {error}")
        return None


def _hand_out(made: Ticket, output: str | None) -> None:
    """Write the page to standard output, and the bundle to its file."""
    if output is None:
        deliver(made.page, None)
        note("-o ticket.zip writes the bundle to attach; --dry-run shows its contents")
        return
    content = pack(made.files)
    is_kept = saved(output, content)
    deliver(made.page, None)
    if not is_kept:
        raise SystemExit(WRONG_USAGE)
    note(f"wrote {output} ({len(content) / 1024:.0f} KiB): attach it, and paste the page above")
