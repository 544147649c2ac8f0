"""The job as a script: for Slurm, or for mpirun."""

from __future__ import annotations

from typing import Literal

import msgspec

from tfgpu_doctor.fleet.emitting import Emission, NotEmittable, a_name, render
from tfgpu_doctor.fleet.slurm_hooks import HOOK_KINDS, Drainage, HookKind, hook

SlurmKind = Literal["job", HookKind]


def slurm(
    job: Emission, kind: SlurmKind, *, partition: str = "", account: str = "", at_once: int | None = None,
    drainage: Drainage | None = None,
) -> str:  # fmt: skip
    """Return an sbatch script, or a script for slurm.conf: Prolog=, Epilog=, HealthCheckProgram=. Raises NotEmittable."""
    if kind != "job":
        if partition or account or at_once:
            raise NotEmittable(
                f"--kind {kind} is no job: it cannot be combined with --partition, --account or --at-once"
            )
        return hook(job, kind, drainage or Drainage())
    if drainage is not None:
        raise NotEmittable(
            f"--most-drained and --dry-run require --kind {' or '.join(HOOK_KINDS)}: a job drains no node"
        )
    if at_once is not None:
        if job.nodes is not None:
            raise NotEmittable("--at-once N examines every node in service, N at a time: leave out --nodes")
        job = msgspec.structs.replace(job, nodes=1)
    _need_size(job)
    for option, value in (("--partition", partition), ("--account", account)):
        if value:
            a_name(option, value)
    return render("slurm_job.sh.jinja", job=job, partition=partition, account=account, at_once=at_once)


def mpi(job: Emission) -> str:
    """Return a script that starts mpirun over a list of hosts."""
    return render("mpi.sh.jinja", job=job)


def _need_size(job: Emission) -> None:
    if job.nodes is None:
        raise NotEmittable("set --nodes N to the number of nodes")
    if job.loads and job.gpus is None:
        raise NotEmittable("this level or suite uses the GPUs: set --gpus N to the number of GPUs per node")
