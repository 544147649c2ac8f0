"""`tfgpu-doctor matrix`: list TensorFlow's releases with build versions and requirements, newest first."""

from __future__ import annotations

import click

from tfgpu_doctor.advise.matrix import matrix as make_matrix
from tfgpu_doctor.advise.matrix_table import render_matrix
from tfgpu_doctor.advise.target_options import described
from tfgpu_doctor.advise.target_spec import ARCHITECTURES, SYSTEMS
from tfgpu_doctor.cli.output import deliver, note, refuse_unwritable
from tfgpu_doctor.knowledge import read_knowledge

_NOTHING_FITS = 1


@click.command()
@click.option(
    "--gpu", metavar="NAME", help="Only releases for this GPU ('rtx 4090', H100) or compute capability (8.6)."
)
@click.option("--driver", metavar="VERSION", help="Only releases for this NVIDIA driver, for example 550.54.15.")
@click.option("--python", metavar="VERSION", help="Only releases with wheels for this Python, for example 3.12.")
@click.option(
    "--os", type=click.Choice(SYSTEMS), default="linux", show_default=True, help="The operating system of the wheels."
)
@click.option("--architecture", type=click.Choice(ARCHITECTURES), help="The CPU architecture of the wheels.")
@click.option("--glibc", metavar="VERSION", help="Only releases for this version of glibc, for example 2.31.")
@click.option("--format", "format_", type=click.Choice(["text", "markdown", "json"]), default="text", show_default=True)
@click.option("-o", "--output", metavar="FILE", help="Write the table to this file.")
def matrix(
    *,
    gpu: str | None,
    driver: str | None,
    python: str | None,
    os: str,
    architecture: str | None,
    glibc: str | None,
    format_: str,
    output: str | None,
) -> int:
    """Print TensorFlow's releases since 2.4 with Python, CUDA, cuDNN, driver and compute capabilities, read from the wheels.

    The options filter the releases. Exit code: 0 at least one release fits, 1 none fits, 2 wrong usage.
    """
    refuse_unwritable(output)
    knowledge = read_knowledge()
    spec = described(
        gpu=gpu, driver=driver, python=python, os=os, architecture=architecture, glibc=glibc, knowledge=knowledge
    )
    rows = make_matrix(spec, knowledge)
    deliver(render_matrix(rows, format_), output)
    if not rows:
        note("no release fits; run `tfgpu-doctor advise` with the same options for the reasons and possible changes")
    return 0 if rows else _NOTHING_FITS
