"""`tfgpu-doctor accept profiles`: the shipped profiles."""

from __future__ import annotations

import click

from tfgpu_doctor.cli.output import deliver


@click.command()
def profiles() -> int:
    """List the shipped profiles with their descriptions."""
    from tabulate import tabulate

    from tfgpu_doctor.accept.examine import profile_named
    from tfgpu_doctor.accept.reading import shipped_profiles

    rows = [(name, profile_named(name).profile.about) for name in shipped_profiles()]
    deliver(tabulate(rows, tablefmt="plain") + "\n", None)
    return 0
