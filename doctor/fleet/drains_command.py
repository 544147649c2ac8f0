"""`tfgpu-doctor fleet drains`: say whether a node is to leave service, for the script that asks the scheduler for it."""

from __future__ import annotations

import os
import time

import click

from tfgpu_doctor.cli.output import deliver, refuse
from tfgpu_doctor.fleet.draining import DRAINED_FOLDER, MOST_PER_HOUR, Drains, reason_to_drain
from tfgpu_doctor.fleet.node import file_name
from tfgpu_doctor.fleet.reports_read import decode
from tfgpu_doctor.host.files import Files


@click.command("drains")
@click.option("--out", metavar="DIR", required=True, help="The folder with the node's report, shared by all nodes.")
@click.option("--name", metavar="NODE", required=True, help="The name of the node.")
@click.option("--most-drained", type=click.IntRange(min=1), metavar="N", default=MOST_PER_HOUR, show_default=True,
              help="Let at most N nodes of this folder leave service within an hour.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Count no node.")
def drains(*, out: str, name: str, most_drained: int, dry_run: bool) -> int:
    """Print the reason why a node is to leave service, from its report; nothing is changed but the list DIR/drained.

    Only an error of the node's own hardware or driver is a reason. Exit code: 0 it is to leave, and the line is the reason;
    1 it is to stay, and the line says why; 2 there is no report to judge.
    """
    from tfgpu_doctor.knowledge import read_knowledge

    path = os.path.join(out, file_name(name))
    try:
        heard = decode(Files().read_bytes(path))
    except OSError as error:
        refuse(f"{path} cannot be read: {error.strerror or error}")
    if isinstance(heard, str):
        refuse(f"{path}: {heard}")
    reason = reason_to_drain(heard.causes, read_knowledge())
    if not reason:
        deliver("nothing that was found lies in the hardware or the driver of the node\n", None)
        return 1
    if not dry_run and (others := _others(out, name, reason, most_drained)):
        deliver(
            f"{', '.join(others)} left service within this hour, and --most-drained is {most_drained}, so it stays: {reason}\n",
            None,
        )
        return 1
    deliver(f"{reason}\n", None)
    return 0


def _others(out: str, name: str, reason: str, most: int) -> list[str]:
    try:
        return Drains(out).take_place(name, reason, most, time.time())
    except OSError as error:
        refuse(f"{os.path.join(out, DRAINED_FOLDER)} cannot be written: {error.strerror or error}")
