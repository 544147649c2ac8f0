"""`tfgpu-doctor accept`: pass or fail a machine before it goes into service, with a certificate."""

from __future__ import annotations

import click

from tfgpu_doctor.cli.lazy_group import LazyGroup

_COMMANDS = {
    "run": ("accept.run_command", "judge this machine, or a recorded one, by a profile (the default)"),
    "learn": ("accept.learn_command", "write a profile from repeated runs on a known-good machine"),
    "verify": ("accept.verify_command", "check that a certificate is unchanged and accepts its machine"),
    "profiles": ("accept.profiles_command", "list the profiles that come with the doctor"),
}


@click.group(cls=LazyGroup, commands=_COMMANDS, default="run")
def accept() -> None:
    """Pass or fail a machine before it goes into service, with a certificate.

    `tfgpu-doctor accept --profile NAME` is short for `tfgpu-doctor accept run --profile NAME`.
    """
