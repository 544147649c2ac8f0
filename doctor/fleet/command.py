"""`tfgpu-doctor fleet`: run the doctor on every node of a cluster, and compare the nodes."""

from __future__ import annotations

import click

from tfgpu_doctor.cli.lazy_group import LazyGroup

_COMMANDS = {
    "report": (
        "fleet.report_command",
        "compare all nodes that have a report: differences, slow nodes, suspects",
    ),
    "run": ("fleet.run_command", "examine every node of a Ray cluster"),
    "emit": ("fleet.emit_command", "write the job for Slurm, Kubernetes or MPI"),
    "tfconfig": ("fleet.tfconfig_command", "print TF_CONFIG for this process of a job, and its faults"),
    "node": ("fleet.node_command", "examine this node and write its report"),
}


@click.group(cls=LazyGroup, commands=_COMMANDS)
def fleet() -> None:
    """Examine every node of a cluster and compare them: differences, slow nodes, suspects."""
