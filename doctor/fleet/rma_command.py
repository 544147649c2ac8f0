"""`tfgpu-doctor fleet rma`: a bundle for the vendor of a node's GPUs."""

from __future__ import annotations

import io
import os
import zipfile
from typing import TYPE_CHECKING

import click

from tfgpu_doctor.cli.output import note, refuse, refuse_unwritable
from tfgpu_doctor.host.files import write_whole
from tfgpu_doctor.host.json_text import decode_json

if TYPE_CHECKING:
    from tfgpu_doctor.fleet.node import NodeReport

_MOST_BYTES = 4 << 20


@click.command("rma")
@click.argument("folder", metavar="DIR")
@click.argument("node", metavar="NODE")
@click.option("-o", "--output", metavar="FILE", help="The bundle.  [default: NODE-rma.zip]")
def rma(*, folder: str, node: str, output: str | None) -> int:
    """Write a zip file with a node's serial numbers, findings of both looks, driver codes and what to do about them.

    It also contains both reports as they are, with the node's name and its paths: read it before it leaves the house.
    Exit code: 0 written, 2 wrong usage, or a report that is not there or cannot be read.
    """
    from tfgpu_doctor.fleet.compared import compared
    from tfgpu_doctor.fleet.node import file_name
    from tfgpu_doctor.fleet.reports_read import SECOND_FOLDER
    from tfgpu_doctor.fleet.rma import as_markdown, case_of
    from tfgpu_doctor.knowledge import read_knowledge

    refuse_unwritable(output)
    name = file_name(node)
    first_path, second_path = os.path.join(folder, name), os.path.join(folder, SECOND_FOLDER, name)
    first = _read(first_path)
    if first is None:
        refuse(f"there is no report of {node} in {folder}")
    second = _read(second_path)
    knowledge = read_knowledge()
    case = case_of(compared(folder), first[1], second[1] if second else None, knowledge)
    if not case.is_one:
        note(f"nothing was found on {node} that a vendor would take back: no board is listed")
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr("rma.md", as_markdown(case, knowledge))
        bundle.writestr("first.json", first[0])
        if second:
            bundle.writestr("second.json", second[0])
    path = output or f"{name.removesuffix('.json')}-rma.zip"
    try:
        write_whole(path, content.getvalue())
    except OSError as error:
        refuse(f"{path} cannot be written: {error.strerror or error}")
    note(f"written: {path}")
    return 0


def _read(path: str) -> tuple[bytes, NodeReport] | None:
    """Return a report as it is and decoded; None if there is none."""
    import msgspec

    from tfgpu_doctor.fleet.node import NodeReport
    from tfgpu_doctor.host.files import Files

    try:
        content = Files().read_bytes(path, _MOST_BYTES)
        return content, decode_json(content, NodeReport)
    except FileNotFoundError:
        return None
    except OSError as error:
        refuse(f"{path} cannot be read: {error.strerror or error}")
    except msgspec.DecodeError as error:
        refuse(f"{path} is not a node report: {error}")
