"""`tfgpu-doctor fleet`: the doctor on every node of a cluster, and the comparison."""

from __future__ import annotations

import click

from tfgpu_doctor.cli.lazy_group import LazyGroup

_COMMANDS = {
    "report": (
        "fleet.report_command",
        "compare all nodes that left a report: what differs, who is slow, who is suspect",
    ),
    "run": ("fleet.run_command", "examine every node of a Ray cluster"),
    "emit": ("fleet.emit_command", "the job that does it on Slurm, Kubernetes or MPI"),
    "tfconfig": ("fleet.tfconfig_command", "TF_CONFIG for this process of a job, and what is wrong with it"),
    "node": ("fleet.node_command", "examine this node, and leave its report for the others'"),
}


@click.group(cls=LazyGroup, commands=_COMMANDS)
def fleet() -> None:
    """Examine every node of a cluster, and compare them: what differs, who is slow, who is suspect."""
