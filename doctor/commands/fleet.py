"""`tfgpu-doctor fleet`: the doctor on every node of a cluster, and the comparison."""

from __future__ import annotations

import click

from tfgpu_doctor.lazy_group import LazyGroup

_COMMANDS = {
    "report": "compare all nodes that left a report: what differs, who is slow, who is suspect",
    "run": "examine every node of a Ray cluster",
    "emit": "the job that does it on Slurm, Kubernetes or MPI",
    "tfconfig": "TF_CONFIG for this process of a job, and what is wrong with it",
    "node": "examine this node, and leave its report for the others'",
}


@click.group(cls=LazyGroup, place="tfgpu_doctor.commands.fleet_", about=_COMMANDS)
def fleet() -> None:
    """Examine every node of a cluster, and compare them: what differs, who is slow, who is suspect."""
