"""`tfgpu-doctor libraries`: the location and the provider of each library that TensorFlow opens, or why it is not found."""

from __future__ import annotations

import click

from tfgpu_doctor.cli.configuration import ConfigurationError, read_configuration
from tfgpu_doctor.cli.output import deliver, note, refuse, refuse_bad_root, refuse_unwritable
from tfgpu_doctor.collect.examination import Interrupted, examine
from tfgpu_doctor.model.facts.resolution import Resolution
from tfgpu_doctor.render.json_document import as_json
from tfgpu_doctor.render.library_table import libraries_document, render_libraries

_FINDINGS, _NOT_JUDGED, _INTERRUPTED = 1, 3, 130


@click.command()
@click.option(
    "--python", metavar="PATH", help="The Python to examine: an interpreter, or a virtual environment's folder."
)
@click.option("--root", metavar="DIR", default="/", help="Read the machine's files (/etc, /usr) under DIR.")
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("-o", "--output", metavar="FILE", help="Write the table to FILE.")
@click.option("-v", "--verbose", is_flag=True, help="Show the path of each library, and the folders searched.")
def libraries(*, python: str | None, root: str, format_: str, output: str | None, verbose: bool) -> int:
    """List the libraries that TensorFlow opens at run time: the copy that the loader uses and its provider, or why none.

    The command only reads files; it imports and opens nothing. Exit code: 0 all libraries that TensorFlow needs were
    found, 1 not all, 2 wrong usage, 3 there is no TensorFlow to examine.
    """
    refuse_bad_root(root)
    refuse_unwritable(output)
    try:
        configuration = read_configuration().with_options(python=python)
    except ConfigurationError as error:
        refuse(str(error))
    try:
        facts = examine(python=configuration.python, quick=True, root=root, only=("resolution",))
    except Interrupted:
        return _INTERRUPTED
    found = facts.resolution
    if found is None:
        reason = f"nothing to examine: {facts.unknown['resolution']}"
        note(reason)
        if format_ == "json":
            deliver(as_json(libraries_document(Resolution(), reason)), output)
        return _NOT_JUDGED
    if format_ == "json":
        document = as_json(libraries_document(found))
    else:
        document = render_libraries(found, verbose=verbose)
    deliver(document, output)
    return _FINDINGS if found.missing else 0
