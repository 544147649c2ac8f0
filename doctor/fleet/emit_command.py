"""`tfgpu-doctor fleet emit`: write a job that runs the doctor on every node, for Slurm, Kubernetes or MPI."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import click

from tfgpu_doctor.cli.output import deliver, note, refuse, refuse_unwritable
from tfgpu_doctor.fleet.cloud_options import cloud_options, take_cloud
from tfgpu_doctor.fleet.order_options import order_of, order_options, reach_of
from tfgpu_doctor.host.files import make_executable, write_whole
from tfgpu_doctor.model.facts.stress import Level

if TYPE_CHECKING:
    from tfgpu_doctor.fleet.emitting import Emission
    from tfgpu_doctor.fleet.emitting_jobs import SlurmKind
    from tfgpu_doctor.fleet.emitting_kubernetes import CloudKind

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
@click.option("--kind", type=click.Choice(["job", "prolog", "epilog", "healthcheck"]), default="job", show_default=True,
              help="An sbatch script; or a script for Prolog=, Epilog= or HealthCheckProgram= in slurm.conf, by default at "
              "--level quick, that drains a node with an error of its hardware or driver.")  # fmt: skip
@click.option("--partition", metavar="NAME", default="", help="The Slurm partition of the job.")
@click.option("--account", metavar="NAME", default="", help="The Slurm account to charge.")
@click.option("--at-once", type=click.IntRange(1, 10_000), metavar="N",
              help="Examine every node in service by a job of its own, N at a time: start the script with bash.")  # fmt: skip
@click.option("--most-drained", type=click.IntRange(1, 1000), metavar="N",
              help="Drain at most N nodes within an hour, over all nodes with this --out.  [default: 2]")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Write to the system log which node would be drained, and drain none.")
@click.option("-o", "--output", metavar="FILE", help="Write the script to this file, executable.")
def slurm(*, kind: SlurmKind, partition: str, account: str, at_once: int | None, most_drained: int | None, dry_run: bool,
          output: str | None, **shared: Any) -> int:  # fmt: skip
    """Write an sbatch script with one task per node, or a script that slurmd starts on a node by itself."""
    from tfgpu_doctor.fleet.emitting import NotEmittable
    from tfgpu_doctor.fleet.emitting_jobs import slurm as script
    from tfgpu_doctor.fleet.slurm_hooks import drainage_of

    usual: Level = "standard" if kind == "job" else "quick"
    try:
        job = _emission(usual, **shared)
        drainage = drainage_of(most_drained, dry_run=dry_run)
        text = script(job, kind, partition=partition, account=account, at_once=at_once, drainage=drainage)
        _deliver_script(text, output)
    except NotEmittable as error:
        refuse(str(error))
    return 0


@emit.command("kubernetes", short_help="Write the objects for Kubernetes: Jobs, CronJobs, or a DaemonSet.")
@_shared
@_GPUS
@_NODES
@cloud_options
@click.option("--kind", type=click.Choice(["job", "daemonset"]), default="job", show_default=True)
@click.option(
    "-o", "--output", metavar="FOLDER|FILE", help="The folder for a Kustomize base, or FILE.yaml for the workload."
)
def kubernetes(*, kind: CloudKind, output: str | None, **asked: Any) -> int:
    """Write an indexed Job with one pod per node, a Job for each named node, CronJobs for either, or a DaemonSet."""
    from tfgpu_doctor.fleet.emitting import NotEmittable
    from tfgpu_doctor.fleet.emitting_kubernetes import kubernetes as base

    cloud = take_cloud(asked)
    try:
        files = base(_emission("standard", across_nodes=False if cloud.node_names else None, **asked), kind, cloud)
    except NotEmittable as error:
        refuse(str(error))
    if not output or output.endswith(_YAML):
        refuse_unwritable(output)
        deliver(next(iter(files.values())), output)
        return 0
    _write_folder(output, files)
    note(f"written: {', '.join(os.path.join(output, file) for file in files)}; kubectl apply -k {output}")
    return 0


@emit.command("mpi")
@_shared
@click.option("-o", "--output", metavar="FILE", help="Write the script to this file, executable.")
def mpi(*, output: str | None, **shared: Any) -> int:
    """Write a script for mpirun (Open MPI, MPICH and its derivatives) with one rank per host."""
    from tfgpu_doctor.fleet.emitting import NotEmittable
    from tfgpu_doctor.fleet.emitting_jobs import mpi as script

    try:
        _deliver_script(script(_emission("standard", gpus=None, nodes=None, across_nodes=True, **shared)), output)
    except NotEmittable as error:
        refuse(str(error))
    return 0


def _emission(
    usual: Level,
    *,
    out: str,
    gpus: int | None,
    command: str,
    nodes: int | None,
    across_nodes: bool | None = None,
    **asked: Any,
) -> Emission:
    """Combine the options; reject invalid combinations. Raises NotEmittable.

    `across_nodes`: whether the nodes are started together; None: they are if there are several.
    """
    from tfgpu_doctor.fleet.emitting import emission

    order = order_of(usual=usual, **asked)
    reach = reach_of(order, across_nodes=(nodes or 1) > 1 if across_nodes is None else across_nodes)
    return emission(order, reach, out=out, command=command, nodes=nodes, gpus=gpus)


def _deliver_script(text: str, output: str | None) -> None:
    refuse_unwritable(output)
    deliver(text, output)
    if output is not None:
        try:
            make_executable(output)
        except OSError as error:
            refuse(f"{output} cannot be made executable: {error.strerror or error}")


def _write_folder(folder: str, files: dict[str, str]) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
        for name, text in files.items():
            write_whole(os.path.join(folder, name), text.encode())
    except OSError as error:
        _refuse_folder(folder, error)


def _refuse_folder(folder: str, error: OSError) -> NoReturn:
    refuse(f"{folder} cannot be written: {error.strerror or error}")
