"""`tfgpu-doctor fleet report`: compare all nodes that have a report."""

from __future__ import annotations

import os

import click

from tfgpu_doctor.cli.output import deliver, refuse_unwritable
from tfgpu_doctor.fleet.formats import FLEET_FORMATS


@click.command("report")
@click.argument("folder", metavar="DIR")
@click.option(
    "--golden", metavar="NODE|FILE", help="The reference node, or its report file, to compare the others with."
)
@click.option(
    "--expect", metavar="FILE|NAMES",
    help="The expected nodes: a file (JSON list, or one name per line), or names separated by commas."
    "  [default: DIR/expected.json]",
)  # fmt: skip
@click.option("--history", metavar="DIR", multiple=True, help="The folder of an earlier run; repeatable, oldest first.")
@click.option(
    "--store", metavar="FOLDER", help="The store with the earlier runs (`fleet ingest`), instead of --history."
)
@click.option("--known", metavar="FILE", help="A TOML file of issues that somebody looks after: they do not count.")
@click.option("--format", "format_", type=click.Choice(FLEET_FORMATS), default="text", show_default=True)
@click.option("-o", "--output", metavar="FILE", help="Write the report to this file.")
def report(
    *,
    folder: str,
    golden: str | None,
    expect: str | None,
    history: tuple[str, ...],
    store: str | None,
    known: str | None,
    format_: str,
    output: str | None,
) -> int:
    """Compare the nodes whose reports are in a folder: causes with their nodes, differences, slow nodes, silent nodes.

    Reports of a retest are in DIR/second: only a node that fails twice is called bad. Exit code: 0 every node is healthy
    and none differs or is slower, as far as they can be compared, 1 findings, 2 wrong usage or an unreadable folder, 3 no
    node reported, or one was not judged.
    """
    from tfgpu_doctor.fleet.compared import compared
    from tfgpu_doctor.fleet.page import render_fleet
    from tfgpu_doctor.render import look_of_text

    refuse_unwritable(output)
    found = compared(folder, expect=expect, golden=golden, history=history, store=store, known=known)
    width, colour = look_of_text(to_terminal=output is None)
    reports = os.path.relpath(folder, os.path.dirname(os.path.abspath(output))) if output else ""
    deliver(render_fleet(found, format_, width=width, colour=colour, reports=reports), output)
    return found.exit_code
