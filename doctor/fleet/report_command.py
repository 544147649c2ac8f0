"""`tfgpu-doctor fleet report`: compare all nodes that have a report."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tfgpu_doctor._project import install
from tfgpu_doctor.cli.output import deliver, refuse
from tfgpu_doctor.fleet.formats import FLEET_FORMATS

if TYPE_CHECKING:
    from tfgpu_doctor.fleet.merge import Golden

_MOST_NAMES_BYTES = 64 << 20


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
@click.option("--format", "format_", type=click.Choice(FLEET_FORMATS), default="text", show_default=True)
@click.option("-o", "--output", metavar="FILE", help="Write the report to this file.")
def report(
    *,
    folder: str,
    golden: str | None,
    expect: str | None,
    history: tuple[str, ...],
    format_: str,
    output: str | None,
) -> int:
    """Compare the nodes whose reports are in a folder: causes with their nodes, differences, slow nodes, silent nodes.

    Reports of a retest are in DIR/second: only a node that fails twice is called bad. Exit code: 0 every node is healthy,
    alike and as fast as its peers, 1 findings, 2 wrong usage or an unreadable folder, 3 no node reported, or one was not
    judged.
    """
    lacking = [name for name in ("duckdb", "numpy") if importlib.util.find_spec(name) is None]
    if lacking:
        refuse(f"{' and '.join(lacking)} cannot be imported here; install the extra fleet: {install('fleet')}")
    from tfgpu_doctor.fleet.merge import merge
    from tfgpu_doctor.fleet.page import render_fleet
    from tfgpu_doctor.render import look_of_text

    expected = _expected(folder, expect)
    known = _golden(golden) if golden else ""
    _refuse_unreadable((folder, *history))
    try:
        found = merge(folder, golden=known, expected=expected, history=history)
    except KeyError:
        refuse(f"--golden {golden} is neither a file nor a node that reported in {folder}")
    width, colour = look_of_text(to_terminal=output is None)
    deliver(render_fleet(found, format_, width=width, colour=colour), output)
    return found.exit_code


def _refuse_unreadable(folders: Sequence[str]) -> None:
    for folder in folders:
        try:
            os.listdir(folder)
        except OSError as error:
            refuse(f"{folder} cannot be read: {error.strerror or error}")


def _golden(golden: str) -> str | Golden:
    import msgspec

    from tfgpu_doctor.fleet.merge import golden_of
    from tfgpu_doctor.fleet.reports_read import Heard, decode
    from tfgpu_doctor.host.files import Files

    if not Files().exists(golden) or os.path.isdir(golden):
        return golden
    try:
        heard = decode(Files().read_bytes(golden))
    except OSError as error:
        refuse(f"{golden} cannot be read: {error.strerror or error}")
    if not isinstance(heard, Heard):
        refuse(f"{golden} cannot be used as the golden node: {heard}")
    try:
        return golden_of(heard)
    except msgspec.DecodeError as error:
        refuse(f"{golden} cannot be used as the golden node: {error}")


def _expected(folder: str, expect: str | None) -> list[str] | None:
    """Return the names of the expected nodes, or None if no list is given."""
    from tfgpu_doctor.fleet.reports_read import EXPECTED_FILE
    from tfgpu_doctor.host.files import Files

    path = expect or os.path.join(folder, EXPECTED_FILE)
    if not Files().exists(path):
        return [name.strip() for name in expect.split(",") if name.strip()] if expect else None
    try:
        content = Files().read_bytes(path, _MOST_NAMES_BYTES)
    except OSError as error:
        refuse(f"{path} cannot be read: {error.strerror or error}")
    return _names(path, content)


def _names(path: str, content: bytes) -> list[str]:
    import msgspec

    if not content.lstrip().startswith(b"["):
        return [line.strip() for line in content.decode("utf-8", "replace").splitlines() if line.strip()]
    try:
        return msgspec.json.decode(content, type=list[str])
    except msgspec.DecodeError as error:
        refuse(f"{path} is not a list of node names: {error}")
