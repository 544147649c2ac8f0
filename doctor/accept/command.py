"""`tfgpu-doctor accept`: pass or fail a machine before it goes to work, with a certificate."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from tfgpu_doctor.cli.output import deliver, note, refuse
from tfgpu_doctor.host.files import Files

if TYPE_CHECKING:
    from tfgpu_doctor.accept.certificate import Certificate
    from tfgpu_doctor.accept.examine import Examined, Examiner
    from tfgpu_doctor.accept.terms import Resolved

_FORMATS = ("text", "json", "markdown", "html", "junit")
_LEARN_FROM = "server"
_SHORTEST_KEY_BYTES, _LARGEST_KEY_BYTES = 16, 1 << 20
_LARGEST_CERTIFICATE_BYTES = 64 << 20
_INTERRUPTED = 130


@click.command()
@click.option("--profile", metavar="NAME|FILE", help="What is asked of the machine; --list names those shipped.")
@click.option("--learn", is_flag=True, help="Measure a known-good machine several times, and write a profile of it.")
@click.option("--runs", type=click.IntRange(3, 20), default=5, show_default=True, help="How often --learn measures.")
@click.option("--leave-out", metavar="NAME", multiple=True, help="What --learn makes no minimum for: pipeline/fit.")
@click.option("--verify", metavar="FILE", help="Tell whether a certificate is as it was issued, and accepts.")
@click.option("--list", "list_", is_flag=True, help="List the shipped profiles, and examine nothing.")
@click.option(
    "--facts",
    metavar="FILE",
    multiple=True,
    help="Judge a record, or a ticket's zip; with --learn, several of one machine.",
)
@click.option("--record", metavar="FILE", help="Save what was found and measured, to be judged anywhere with --facts.")
@click.option("--name", metavar="TEXT", default="", help="What you call the machine; it stands in the certificate.")
@click.option(
    "--key", metavar="FILE", help="Seal the certificate with a secret key, or look at its seal with --verify."
)
@click.option(
    "--python", metavar="PATH", help="The Python to examine: an interpreter, or a virtual environment's folder."
)
@click.option("--even-if-busy", is_flag=True, help="Load a GPU that others use, too.")
@click.option("--deadline", type=click.FloatRange(min=1), metavar="SECONDS", help="How long TensorFlow may take.")
@click.option(
    "--format", "format_", type=click.Choice(_FORMATS), help="Of what is printed or written.  [default: text]"
)
@click.option(
    "-o", "--output", metavar="FILE", help="Write the certificate there, as JSON unless --format names another; with "
    "--learn the profile.",
)  # fmt: skip
@click.option("--html", metavar="FILE", help="Write the certificate as a page, too.")
def accept(
    *,
    profile: str | None,
    learn: bool,
    runs: int,
    leave_out: tuple[str, ...],
    verify: str | None,
    list_: bool,
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
    """Accept a machine, or say what it lacks: every requirement of a profile, required against measured.

    What could not be measured is not accepted. Exit code: 0 accepted, 1 not accepted (with --verify: or changed), 2 wrong
    usage or unreadable input, 3 the doctor itself failed, 130 interrupted.
    """
    if list_:
        return _list()
    secret = _secret(key)
    if verify:
        if profile or learn or facts or record or format_ or output or html:
            refuse("--verify looks at a certificate, and at nothing else: it goes with --key alone")
        return _verify(verify, secret)
    if learn and (record or html or format_ or name or key):
        refuse("--learn writes a profile: it goes with none of --record, --html, --format, --name and --key")
    if leave_out and not learn:
        refuse("--leave-out says what --learn makes no minimum for")
    if profile is None and not learn:
        refuse("--profile NAME|FILE says what is asked of the machine; --list names those that are shipped")
    if facts and (record or python or even_if_busy):
        refuse("--facts judges a recorded machine: it goes with none of --record, --python and --even-if-busy")
    if len(facts) > 1 and not learn:
        refuse("one machine is judged at a time: several --facts go with --learn")
    _refuse_without_folder(output, html, record)
    asked = _Asked(profile or _LEARN_FROM, facts, even_if_busy, python, deadline)
    if learn:
        return _learn(asked, runs, leave_out, output)
    return _accept(asked, record, name, secret, _Wanted(format_, output, html))


@dataclass(frozen=True)
class _Asked:
    """What is asked of which machine: of records of it, where there are any."""

    profile: str
    facts: Sequence[str]
    even_if_busy: bool
    python: str | None
    deadline_s: float | None

    def ready(self) -> tuple[Resolved, Examiner, list[Examined]]:
        """The profile, who examines by it, and what is recorded; refuses what cannot be used."""
        from tfgpu_doctor.accept.examine import Examined, Examiner, profile_named, settings_of
        from tfgpu_doctor.cli.recorded import read_recorded

        resolved = profile_named(self.profile)
        settings = settings_of(self.python, self.deadline_s)
        examiner = Examiner(resolved.profile, even_if_busy=self.even_if_busy, settings=settings)
        recorded = [Examined(read_recorded(path)) for path in self.facts]
        if not recorded:
            examiner.check_usage()
        return resolved, examiner, recorded


def _learn(asked: _Asked, runs: int, leave_out: Sequence[str], output: str | None) -> int:
    from tfgpu_doctor.accept.known_good import learn_profile
    from tfgpu_doctor.accept.learning import can_be_left_out

    if unknown := [name for name in leave_out if not can_be_left_out(name)]:
        refuse(
            f"there is no {unknown[0]} to leave out; it is a comparison or a metric, as in pipeline/fit, or a precision"
        )
    resolved, examiner, recorded = asked.ready()
    return learn_profile(resolved, asked.profile, examiner, recorded, runs, leave_out, output)


def _accept(asked: _Asked, record: str | None, name: str, secret: bytes | None, wanted: _Wanted) -> int:
    resolved, examiner, recorded = asked.ready()
    examined = recorded[0] if recorded else examiner.examine()
    if record and not examined.interrupted:
        _record(examined, record)
    certificate = certify(examined, resolved, name, secret)
    _deliver(certificate, wanted, secret)
    return certificate.exit_code


def certify(examined: Examined, resolved: Resolved, name: str = "", key: bytes | None = None) -> Certificate:
    """The certificate of a machine, with its digest, as of now."""
    from tfgpu_doctor.accept.judging import judge
    from tfgpu_doctor.diagnose.plugins import load_checks

    checks, broken = load_checks()
    now = dt.datetime.now(dt.timezone.utc)
    found = judge(
        examined.facts, resolved, today=now.date(), checks=checks, broken=broken, interrupted=examined.interrupted,
        seconds=examined.seconds, issued=now.strftime("%Y-%m-%dT%H:%M:%SZ"), subject=name,
    )  # fmt: skip
    return found.proved(key)


def _list() -> int:
    from tabulate import tabulate

    from tfgpu_doctor.accept.examine import profile_named
    from tfgpu_doctor.accept.reading import shipped_profiles

    rows = [(name, profile_named(name).profile.about) for name in shipped_profiles()]
    deliver(tabulate(rows, tablefmt="plain") + "\n", None)
    return 0


def _refuse_without_folder(*paths: str | None) -> None:
    for path in filter(None, paths):
        folder = os.path.dirname(os.path.abspath(path))
        if not Files().exists(folder):
            refuse(f"{path} cannot be written: there is no folder {folder}")


def _secret(path: str | None) -> bytes | None:
    """The bytes of the key's file; refuses one that is too short to be secret."""
    if path is None:
        return None
    from tfgpu_doctor.cli.recorded import read_input

    secret = read_input(path, _LARGEST_KEY_BYTES, "a key")
    if len(secret) < _SHORTEST_KEY_BYTES:
        refuse(
            f"{path} holds {len(secret)} bytes, and a key needs {_SHORTEST_KEY_BYTES}: head -c 32 /dev/urandom > {path}"
        )
    return secret


def _verify(path: str, key: bytes | None) -> int:
    from tfgpu_doctor.accept.verifying import verify
    from tfgpu_doctor.accept.words import said_of
    from tfgpu_doctor.cli.recorded import read_input

    found = verify(read_input(path, _LARGEST_CERTIFICATE_BYTES, "a certificate"), key)
    if found.status == "no certificate":
        refuse(f"{path} is not a certificate of tfgpu-doctor: {found.why}")
    deliver(said_of(found, path), None)
    return found.exit_code


def _record(examined: Examined, path: str) -> None:
    from tfgpu_doctor.model.facts import encode_facts

    deliver(encode_facts(examined.facts).decode(), path)


@dataclass(frozen=True)
class _Wanted:
    """What is to be printed and written."""

    format_: str | None
    output: str | None
    html: str | None


def _deliver(certificate: Certificate, wanted: _Wanted, key: bytes | None) -> None:
    """The files first; then the text, unless a form was named and has gone to a file."""
    from tfgpu_doctor.accept.page import render_certificate

    if wanted.html:
        deliver(render_certificate(certificate, "html", key=key), wanted.html)
    if wanted.output:
        deliver(render_certificate(certificate, wanted.format_ or "json", key=key), wanted.output)
    if wanted.format_ is None or not wanted.output:
        deliver(render_certificate(certificate, wanted.format_ or "text", key=key, to_terminal=True), None)
    if certificate.exit_code == _INTERRUPTED:
        note("interrupted: the machine is not accepted")
