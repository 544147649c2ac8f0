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
    "ingest": ("fleet.ingest_command", "put the reports of a run into a store, for `fleet history`"),
    "history": ("fleet.history_command", "what changed on the nodes since yesterday, and what is getting slower"),
    "learn": ("fleet.learn_command", "write a profile of a model of node from a store: what its healthy nodes reach"),
    "act": ("fleet.act_command", "print, or carry out, what takes bad nodes out of service and good ones back"),
    "rma": ("fleet.rma_command", "write what a vendor asks for when a GPU is returned"),
    "drains": ("fleet.drains_command", "say whether what was found on a node drains it"),
}


@click.group(cls=LazyGroup, commands=_COMMANDS)
def fleet() -> None:
    """Examine every node of a cluster and compare them: differences, slow nodes, suspects."""
