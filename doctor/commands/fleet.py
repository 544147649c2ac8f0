"""`tfgpu-doctor fleet`: the doctor on every node of a cluster, and the comparison."""

from __future__ import annotations

import importlib

import click

_COMMANDS = {
    "report": "compare all nodes that left a report: what differs, who is slow, who is suspect",
    "run": "examine every node of a Ray cluster",
    "emit": "the job that does it on Slurm, Kubernetes or MPI",
    "tfconfig": "TF_CONFIG for this process of a job, and what is wrong with it",
    "node": "examine this node, and leave its report for the others'",
}


class _Commands(click.Group):
    """Commands by name, each in its own module beside this one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        found = getattr(importlib.import_module(f"tfgpu_doctor.commands.fleet_{cmd_name}"), cmd_name)
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in --help, without importing any command."""
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_Commands)
def fleet() -> None:
    """Examine every node of a cluster, and compare them: what differs, who is slow, who is suspect."""
