"""Options that several commands of `accept` share, and the objects made from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tfgpu_doctor.cli.finite import FiniteRange
from tfgpu_doctor.cli.output import refuse

if TYPE_CHECKING:
    from tfgpu_doctor.accept.examine import Examined, Examiner
    from tfgpu_doctor.accept.terms import Resolved

_SHORTEST_KEY_BYTES, _LARGEST_KEY_BYTES = 16, 1 << 20

python = click.option(
    "--python", metavar="PATH", help="The Python to examine: an interpreter, or a virtual environment's folder."
)
even_if_busy = click.option(
    "--even-if-busy", is_flag=True, help="Also stress-test and measure a GPU that other processes use."
)
deadline = click.option("--deadline", type=FiniteRange(min=1), metavar="SECONDS", help="Time limit for TensorFlow.")


def ready(
    profile: str, records: Sequence[str], even_if_busy: bool, python: str | None, deadline_s: float | None
) -> tuple[Resolved, Examiner, list[Examined]]:
    """Return the profile, its examiner, and the machines of the records; reject invalid input."""
    from tfgpu_doctor.accept.examine import Examined, Examiner, profile_named, settings_of
    from tfgpu_doctor.cli.recorded import read_recorded

    resolved = profile_named(profile)
    examiner = Examiner(resolved.profile, even_if_busy=even_if_busy, settings=settings_of(python, deadline_s))
    recorded = [Examined(read_recorded(path)) for path in records]
    if not recorded:
        examiner.check_usage()
    return resolved, examiner, recorded


def secret(path: str | None) -> bytes | None:
    """Return the bytes of the key's file; reject one that is too short to be secret."""
    if path is None:
        return None
    from tfgpu_doctor.cli.recorded import read_input

    found = read_input(path, _LARGEST_KEY_BYTES, "a key")
    if len(found) < _SHORTEST_KEY_BYTES:
        refuse(
            f"{path} has {len(found)} bytes, but a key needs at least {_SHORTEST_KEY_BYTES}: head -c 32 /dev/urandom > {path}"
        )
    return found
