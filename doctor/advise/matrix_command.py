"""`tfgpu-doctor matrix`: TensorFlow's releases, what each is built with and needs, newest first."""

from __future__ import annotations

import click

from tfgpu_doctor.advise.matrix import matrix as make_matrix
from tfgpu_doctor.advise.matrix_table import render_matrix
from tfgpu_doctor.advise.target_options import described
from tfgpu_doctor.advise.target_spec import ARCHITECTURES, SYSTEMS
from tfgpu_doctor.cli.output import deliver, note
from tfgpu_doctor.knowledge import read_knowledge

_NOTHING_FITS = 1


@click.command()
@click.option(
    "--gpu", metavar="NAME", help="Releases that run on a GPU ('rtx 4090', H100), or compute capability (8.6)."
)
@click.option("--driver", metavar="VERSION", help="Releases that run on this NVIDIA driver, 550.54.15 say.")
@click.option("--python", metavar="VERSION", help="Releases with wheels for this Python, 3.12 say.")
@click.option("--os", type=click.Choice(SYSTEMS), default="linux", show_default=True, help="The wheels' system.")
@click.option("--architecture", type=click.Choice(ARCHITECTURES), help="The wheels' processor.")
@click.option("--glibc", metavar="VERSION", help="Releases that run on this C library, 2.31 say.")
@click.option("--format", "format_", type=click.Choice(["text", "markdown", "json"]), default="text", show_default=True)
@click.option("-o", "--output", metavar="FILE", help="Write the table there.")
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
    """Print TensorFlow's releases from 2.4 on: Pythons, CUDA, cuDNN, driver, compute capabilities, as the wheels say.

    The options leave out the releases that do not fit. Exit code: 0 there are some, 1 none fits, 2 wrong usage.
    """
    knowledge = read_knowledge()
    spec = described(
        gpu=gpu, driver=driver, python=python, os=os, architecture=architecture, glibc=glibc, knowledge=knowledge
    )
    rows = make_matrix(spec, knowledge)
    deliver(render_matrix(rows, format_), output)
    if not rows:
        note("no release fits; `tfgpu-doctor advise` with the same options says why, and what would change it")
    return 0 if rows else _NOTHING_FITS
