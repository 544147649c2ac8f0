"""`tfgpu-doctor fleet emit`: the job that runs the doctor on every node, for Slurm, Kubernetes or MPI."""

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
    click.option("--out", metavar="DIR", required=True, help="The folder of the reports, the same on every node."),
    click.option(
        "--command", metavar="PATH", default="tfgpu-doctor", show_default=True, help="The doctor on the nodes."
    ),
)  # fmt: skip
_GPUS = click.option(
    "--gpus", type=click.IntRange(1, 64), metavar="N", help="How many GPUs a node has: all of them are asked for."
)
_NODES = click.option("--nodes", type=click.IntRange(1, 100_000), metavar="N", help="On how many nodes.")


def _shared(command: Callable[..., int]) -> Callable[..., int]:
    command = order_options(command)
    for option in reversed(_SHARED):
        command = option(command)
    return command


@click.group("emit")
def emit() -> None:
    """Write the job that examines every node; each leaves its report in the folder that `fleet report` reads."""


@emit.command("slurm")
@_shared
@_GPUS
@_NODES
@click.option("--kind", type=click.Choice(["job", "prolog"]), default="job", show_default=True,
              help="An sbatch script; or one for Prolog= or Epilog=, by default at --level quick, which drains a node "
              "that has an error.")  # fmt: skip
@click.option("--partition", metavar="NAME", default="", help="Where the job runs.")
@click.option("--account", metavar="NAME", default="", help="Who pays for it.")
@click.option("-o", "--output", metavar="FILE", help="Write the script there.")
def slurm(*, kind: SlurmKind, partition: str, account: str, output: str | None, **shared: Any) -> int:
    """An sbatch script with one task a node, or a prolog."""
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
@click.option("--name", metavar="NAME", default="tfgpu-doctor", show_default=True, help="Of the Job or DaemonSet.")
@click.option("--claim", metavar="NAME", default="", help="The PersistentVolumeClaim in which --out is a folder.")
@click.option("--runtime-class", metavar="NAME", default="", help="Where GPUs need one: nvidia.")
@click.option("--uid", type=click.IntRange(1, 2**31 - 1), default=1000, show_default=True, help="Whom the pods run as.")
@click.option("-o", "--output", metavar="FOLDER|FILE", help="A Kustomize base there; the workload alone in FILE.yaml.")
def kubernetes(*, kind: CloudKind, output: str | None, image: str, name: str, claim: str, runtime_class: str,
               uid: int, **shared: Any) -> int:  # fmt: skip
    """An indexed Job with one pod a node, or a DaemonSet."""
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
@click.option("-o", "--output", metavar="FILE", help="Write the script there.")
def mpi(*, output: str | None, **shared: Any) -> int:
    """A script for mpirun (Open MPI, MPICH and its kin) with one rank a host."""
    from tfgpu_doctor.fleet.emitting import NotEmittable
    from tfgpu_doctor.fleet.emitting_jobs import mpi as script

    try:
        deliver(script(_emission("standard", gpus=None, nodes=None, **shared)), output)
    except NotEmittable as error:
        refuse(str(error))
    return 0


def _emission(usual: Level, *, out: str, gpus: int | None, command: str, nodes: int | None, **asked: Any) -> Emission:
    """What the options say together; what cannot be meant is refused. Raises NotEmittable."""
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
