"""The recorded machine that `--facts` names: a record, or the zip of a ticket."""

from __future__ import annotations

import sys

from tfgpu_doctor.cli.output import refuse
from tfgpu_doctor.host.files import Files
from tfgpu_doctor.model.byte_order_mark import in_utf8
from tfgpu_doctor.model.facts import Facts, FactsError, decode_facts

_LARGEST_RECORD_BYTES = 64 << 20


def read_recorded(path: str) -> Facts:
    """Read the machine from a file, `-` for standard input; reject any other content."""
    content = read_document(path)
    try:
        return decode_facts(content)
    except FactsError as error:
        refuse(f"{path}: {error}")


def read_document(path: str) -> bytes:
    """Read a JSON document of a machine, `-` for standard input, in UTF-8; of the zip of a ticket, the record in it."""
    content = read_input(path, _LARGEST_RECORD_BYTES, "a recorded machine")
    return in_utf8(_record_of(content, path))


def read_input(path: str, most_bytes: int, kind: str) -> bytes:
    """Read a whole file, `-` for standard input; reject one that cannot be read or is too large for its kind."""
    if not path:
        refuse("the name of the file to read is empty: is a variable not set?")
    try:
        if path == "-":
            content = sys.stdin.buffer.read(most_bytes + 1)
        else:
            content = Files().read_bytes(path, most_bytes + 1)
    except (OSError, AttributeError) as error:  # closed standard input is None
        refuse(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}")
    if len(content) > most_bytes:
        refuse(f"{path} is larger than {most_bytes >> 20} MiB: it is not {kind}")
    return content


def _record_of(content: bytes, path: str) -> bytes:
    if not content.startswith(b"PK"):
        return content  # without the time to import zipfile
    from tfgpu_doctor.model.bundle import BundleError, record_of

    try:
        return record_of(content, _LARGEST_RECORD_BYTES)
    except BundleError as error:
        refuse(f"{path}: {error}")
