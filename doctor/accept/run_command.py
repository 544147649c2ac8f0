"""`tfgpu-doctor accept run`: judge a machine by a profile, and issue the certificate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from tfgpu_doctor.accept import options
from tfgpu_doctor.accept.formats import FORMATS
from tfgpu_doctor.cli.output import WRONG_USAGE, deliver, note, refuse, refuse_unwritable, saved

if TYPE_CHECKING:
    from tfgpu_doctor.accept.certificate import Certificate
    from tfgpu_doctor.accept.examine import Examined

_INTERRUPTED = 130


@click.command()
@click.option("--profile", metavar="NAME|FILE", help="The requirements; `accept profiles` lists the shipped profiles.")
@click.option(
    "--facts", metavar="FILE", multiple=True, help="Judge a recorded machine, or the one in the zip of a ticket."
)
@click.option("--record", metavar="FILE", help="Save facts and measurements, to judge them anywhere with --facts.")
@click.option("--name", metavar="TEXT", default="", help="Your name for the machine; the certificate shows it.")
@click.option("--key", metavar="FILE", help="Seal the certificate with a secret key.")
@options.python
@options.even_if_busy
@options.deadline
@click.option("--format", "format_", type=click.Choice(FORMATS), help="The output format.  [default: text]")
@click.option("-o", "--output", metavar="FILE", help="Write the certificate to FILE, as JSON unless --format is given.")
@click.option("--html", metavar="FILE", help="Also write the certificate to FILE as an HTML page.")
def run(
    *,
    profile: str | None,
    facts: tuple[str, ...],
    record: str | None,
    name: str,
    key: str | None,
    python: str | None,
    even_if_busy: bool,
    deadline: float | None,
    format_: str | None,
    output: str | None,
    html: str | None,
) -> int:
    """Accept a machine, or list what it lacks: each requirement of a profile with the measured value.

    A requirement that could not be measured is not met. Exit code: 0 accepted, 1 not accepted, 2 wrong usage or
    unreadable input, 3 the doctor itself failed, 130 interrupted.
    """
    if profile is None:
        refuse("--profile NAME|FILE is missing; `tfgpu-doctor accept profiles` lists the shipped profiles")
    if facts and (record or python or even_if_busy):
        refuse("--facts judges a recorded machine: do not combine it with --record, --python or --even-if-busy")
    if len(facts) > 1:
        refuse("--facts judges one machine at a time; `tfgpu-doctor accept learn` takes several records")
    secret = options.secret(key)
    refuse_unwritable(output, html, record)
    resolved, examiner, recorded = options.ready(profile, facts, even_if_busy, python, deadline)
    examined = recorded[0] if recorded else examiner.examine()
    is_kept = not record or examined.interrupted or _record(examined, record)
    from tfgpu_doctor.accept.certifying import certify

    certificate = certify(examined, resolved, name, secret)
    is_kept &= _deliver(certificate, _Wanted(format_, output, html, costly=not facts), secret)
    return certificate.exit_code if is_kept else WRONG_USAGE


@dataclass(frozen=True)
class _Wanted:
    """The outputs to print and write."""

    format_: str | None
    output: str | None
    html: str | None
    costly: bool  # this machine was measured for minutes


def _record(examined: Examined, path: str) -> bool:
    from tfgpu_doctor.model.facts import encode_facts

    return saved(path, encode_facts(examined.facts), costly=True)


def _deliver(certificate: Certificate, wanted: _Wanted, key: bytes | None) -> bool:
    """Write the files first; then print the text, unless a format was chosen and written to a file.

    Return False if a file could not be written.
    """
    from tfgpu_doctor.accept.page import render_certificate

    is_kept = not wanted.html or saved(wanted.html, render_certificate(certificate, "html", key=key).encode())
    if wanted.output:
        document = render_certificate(certificate, wanted.format_ or "json", key=key)
        is_kept &= saved(wanted.output, document.encode(), costly=wanted.costly)
    if wanted.format_ is None or not wanted.output:
        deliver(render_certificate(certificate, wanted.format_ or "text", key=key, to_terminal=True), None)
    if certificate.exit_code == _INTERRUPTED:
        note("interrupted: the machine is not accepted")
    return is_kept
