"""`tfgpu-doctor fleet act`: take bad nodes out of service, and the doctor's own back after a clean look."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from tfgpu_doctor.cli.output import deliver, note, refuse
from tfgpu_doctor.host import Host
from tfgpu_doctor.model.amounts import amount

if TYPE_CHECKING:
    from tfgpu_doctor.fleet.acting import Held, Plan
    from tfgpu_doctor.fleet.judged_again import Look
    from tfgpu_doctor.fleet.schedulers import Command, Scheduler

_NOT_JUDGED, _FINDINGS = 3, 1
_DEADLINE_S = 120.0  # of one command


@click.command("act")
@click.argument("folder", metavar="DIR")
@click.option("--on", "scheduler", type=click.Choice(["slurm", "kubernetes"]), required=True, help="The scheduler.")
@click.option(
    "--known", metavar="FILE", help="A TOML file of issues that somebody looks after: nothing is done for them."
)
@click.option(
    "--most", type=click.IntRange(min=1), metavar="N",
    help="Take at most N nodes out of service.  [default: 5 % of the nodes, at least one]",
)  # fmt: skip
@click.option("--cordon", is_flag=True, help="Kubernetes: cordon the nodes too, not only taint them.")
@click.option("--apply", is_flag=True, help="Carry the commands out. Without it they are only printed.")
@click.option("--dry-run", is_flag=True, help="Only print the commands, which is what happens without --apply.")
def act(
    *, folder: str, scheduler: str, known: str | None, most: int | None, cordon: bool, apply: bool, dry_run: bool
) -> int:
    """Print the commands that take bad nodes of a compared fleet out of service, and good ones back.

    A node leaves if it failed twice, or has an error of its own hardware or driver. Only nodes that the doctor took out
    come back, once an examination that judged what they left for found nothing. Exit code: 0 nothing is to be done, or it
    is done; 1 there are commands to carry out, or one failed; 2 wrong usage; 3 no node reported.
    """
    if apply and dry_run:
        refuse("--apply and --dry-run exclude each other")
    if cordon and scheduler != "kubernetes":
        refuse("--cordon is for --on kubernetes")
    from tfgpu_doctor.fleet.acting import needed_looks, plan
    from tfgpu_doctor.fleet.compared import compared
    from tfgpu_doctor.fleet.schedulers import Kubernetes, Slurm
    from tfgpu_doctor.knowledge import read_knowledge

    fleet = compared(folder, known=known)
    if not fleet.heard:
        deliver("no node reported: nothing is done\n", None)
        return _NOT_JUDGED
    host = Host()
    chosen: Scheduler = Kubernetes(cordon=cordon) if scheduler == "kubernetes" else Slurm()
    held = _held(host, chosen, apply)
    found = plan(fleet, held, _looked(folder, needed_looks(fleet, held or {})), read_knowledge(), most)
    commands = [each for leaving in found.leaving for each in chosen.leave(leaving)] + [
        *chosen.come_back({name: held[name] for name in found.returning} if held else {})
    ]
    for line in found.notes:
        note(line)
    if not commands:
        deliver("nothing is to be done\n", None)
        return 0
    return _carry_out(host, found, commands) if apply else _print(found, commands)


def _held(host: Host, scheduler: Scheduler, apply: bool) -> dict[str, Held] | None:
    from tfgpu_doctor.fleet.schedulers import SchedulerError

    try:
        return scheduler.held(host)
    except SchedulerError as error:
        if apply:
            refuse(str(error))
        note(str(error))
        return None


def _looked(folder: str, names: Iterable[str]) -> dict[str, Look]:
    """Return what the reports of these nodes say of their examination."""
    from tfgpu_doctor.fleet.judged_again import look_of
    from tfgpu_doctor.fleet.node import file_name
    from tfgpu_doctor.host.files import Files

    found = {}
    for name in names:
        try:
            look = look_of(Files().read_bytes(os.path.join(folder, file_name(name))))
        except OSError:
            continue  # it is not known, so the node stays out
        if look:
            found[name] = look
    return found


def _print(found: Plan, commands: Sequence[Command]) -> int:
    if found.too_many:
        note(_too_many(found))
    deliver("".join(f"{shlex.join(command)}\n" for command in commands), None)
    return _FINDINGS


def _too_many(found: Plan) -> str:
    from tfgpu_doctor.fleet.acting import leaving_names

    return (
        f"{amount(len(leaving_names(found.leaving)), 'node')} would leave service, more than --most {found.most}: so many rarely "
        "have one defect each, so look for what they have in common first"
    )


def _carry_out(host: Host, found: Plan, commands: Sequence[Command]) -> int:
    if found.too_many:
        refuse(_too_many(found))
    failed = 0
    for command in commands:
        done = host.run(list(command), deadline_s=_DEADLINE_S)
        right = done.exit_code == 0
        why = done.not_started or done.stderr.strip().replace("\n", " ")[:200] or f"exit code {done.exit_code}"
        deliver(f"{'done' if right else 'failed'}: {shlex.join(command)}{'' if right else f': {why}'}\n", None)
        failed += not right
    return _FINDINGS if failed else 0
