"""`tfgpu-doctor fleet emit`: write a job that runs the doctor on every node, for Slurm, Kubernetes or MPI."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import click

from tfgpu_doctor.cli.output import deliver, note, refuse
from tfgpu_doctor.fleet.order_options import order_of, order_options, reach_of
from tfgpu_doctor.host.files import write_whole
from tfgpu_doctor.model.facts.stress import Level

if TYPE_CHECKING:
    from tfgpu_doctor.fleet.emitting import Emission
    from tfgpu_doctor.fleet.emitting_jobs import CloudKind, SlurmKind

_YAML = (".yaml", ".yml")
_SHARED = (
    click.option("--out", metavar="DIR", required=True, help="The folder for the reports, the same on every node."),
    click.option(
        "--command", metavar="PATH", default="tfgpu-doctor", show_default=True, help="The doctor's command on the nodes."
    ),
)  # fmt: skip
_GPUS = click.option(
    "--gpus", type=click.IntRange(1, 64), metavar="N", help="The number of GPUs per node; the job requests all of them."
)
_NODES = click.option("--nodes", type=click.IntRange(1, 100_000), metavar="N", help="The number of nodes.")


def _shared(command: Callable[..., int]) -> Callable[..., int]:
    command = order_options(command)
    for option in reversed(_SHARED):
        command = option(command)
    return command


@click.group("emit")
def emit() -> None:
    """Write a job that examines every node; each node writes its report into the folder that `fleet report` reads."""


@emit.command("slurm")
@_shared
@_GPUS
@_NODES
@click.option("--kind", type=click.Choice(["job", "prolog"]), default="job", show_default=True,
              help="An sbatch script; or a script for Prolog= or Epilog=, by default at --level quick, that drains a node "
              "with an error.")  # fmt: skip
@click.option("--partition", metavar="NAME", default="", help="The Slurm partition of the job.")
@click.option("--account", metavar="NAME", default="", help="The Slurm account to charge.")
@click.option("-o", "--output", metavar="FILE", help="Write the script to this file.")
def slurm(*, kind: SlurmKind, partition: str, account: str, output: str | None, **shared: Any) -> int:
    """Write an sbatch script with one task per node, or a prolog."""
    from tfgpu_doctor.fleet.emitting import NotEmittable
    from tfgpu_doctor.fleet.emitting_jobs import slurm as script

    usual: Level = "quick" if kind == "prolog" else "standard"
    try:
        deliver(script(_emission(usual, **shared), kind, partition=partition, account=account), output)
    except NotEmittable as error:
        refuse(str(error))
    return 0


@emit.command("kubernetes")
@_shared
@_GPUS
@_NODES
@click.option("--kind", type=click.Choice(["job", "daemonset"]), default="job", show_default=True)
@click.option("--image", metavar="IMAGE", required=True, help="A container image with TensorFlow and the doctor.")
@click.option(
    "--name", metavar="NAME", default="tfgpu-doctor", show_default=True, help="The name of the Job or DaemonSet."
)
@click.option("--claim", metavar="NAME", default="", help="The PersistentVolumeClaim that contains the folder --out.")
@click.option("--runtime-class", metavar="NAME", default="", help="The runtime class, if GPUs need one: nvidia.")
@click.option(
    "--uid", type=click.IntRange(1, 2**31 - 1), default=1000, show_default=True, help="The user id of the pods."
)
@click.option(
    "-o", "--output", metavar="FOLDER|FILE", help="The folder for a Kustomize base, or FILE.yaml for the workload."
)
def kubernetes(*, kind: CloudKind, output: str | None, image: str, name: str, claim: str, runtime_class: str,
               uid: int, **shared: Any) -> int:  # fmt: skip
    """Write an indexed Job with one pod per node, or a DaemonSet."""
    from tfgpu_doctor.fleet.emitting import NotEmittable
    from tfgpu_doctor.fleet.emitting_jobs import Cloud
    from tfgpu_doctor.fleet.emitting_jobs import kubernetes as base

    cloud = Cloud(image=image, name=name, claim=claim, runtime_class=runtime_class, uid=uid)
    try:
        files = base(_emission("standard", **shared), kind, cloud)
    except NotEmittable as error:
        refuse(str(error))
    if output is None or output.endswith(_YAML):
        deliver(next(iter(files.values())), output)
        return 0
    _write_folder(output, files)
    note(f"written: {', '.join(os.path.join(output, file) for file in files)}; kubectl apply -k {output}")
    return 0


@emit.command("mpi")
@_shared
@click.option("-o", "--output", metavar="FILE", help="Write the script to this file.")
def mpi(*, output: str | None, **shared: Any) -> int:
    """Write a script for mpirun (Open MPI, MPICH and its derivatives) with one rank per host."""
    from tfgpu_doctor.fleet.emitting import NotEmittable
    from tfgpu_doctor.fleet.emitting_jobs import mpi as script

    try:
        deliver(script(_emission("standard", gpus=None, nodes=None, **shared)), output)
    except NotEmittable as error:
        refuse(str(error))
    return 0


def _emission(usual: Level, *, out: str, gpus: int | None, command: str, nodes: int | None, **asked: Any) -> Emission:
    """Combine the options; reject invalid combinations. Raises NotEmittable."""
    from tfgpu_doctor.fleet.emitting import emission

    order = order_of(usual=usual, **asked)
    return emission(order, reach_of(order), out=out, command=command, nodes=nodes, gpus=gpus)


def _write_folder(folder: str, files: dict[str, str]) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
        for name, text in files.items():
            write_whole(os.path.join(folder, name), text.encode())
    except OSError as error:
        _refuse_folder(folder, error)


def _refuse_folder(folder: str, error: OSError) -> NoReturn:
    refuse(f"{folder} cannot be written: {error.strerror or error}")
