"""`tfgpu-doctor accept verify`: check that a certificate is unchanged, and that it accepts its machine."""

from __future__ import annotations

import click

from tfgpu_doctor.accept import options
from tfgpu_doctor.cli.output import deliver, refuse

_LARGEST_CERTIFICATE_BYTES = 64 << 20


@click.command()
@click.argument("file")
@click.option("--key", metavar="FILE", help="Check the seal as well, with the key that made it.")
def verify(*, file: str, key: str | None) -> int:
    """Check that the certificate FILE (JSON or HTML) is unchanged, and that it accepts its machine.

    Exit code: 0 unchanged and accepted, 1 changed or not accepted, 2 wrong usage, or not a certificate.
    """
    from tfgpu_doctor.accept.verifying import verify as check_certificate
    from tfgpu_doctor.accept.words import said_of
    from tfgpu_doctor.cli.recorded import read_input

    secret = options.secret(key)
    found = check_certificate(read_input(file, _LARGEST_CERTIFICATE_BYTES, "a certificate"), secret)
    if found.status == "no certificate":
        refuse(f"{file} is not a certificate of tfgpu-doctor: {found.why}")
    deliver(said_of(found, file), None)
    return found.exit_code
