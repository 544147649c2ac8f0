"""The zip of a ticket: text files, the same bytes for the same ticket; and reading the record that it contains."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping

FACTS = "facts.json"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest date of the format: a ticket does not reveal the time zone


class BundleError(ValueError):
    """A zip that contains no record; the message says why."""


def pack(files: Mapping[str, bytes]) -> bytes:
    """The zip of these files, by name."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as bundle:
        for name, content in files.items():
            member = zipfile.ZipInfo(name, date_time=_EPOCH)
            member.external_attr = 0o644 << 16
            bundle.writestr(member, content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def record_of(content: bytes, most_bytes: int) -> bytes:
    """The record that a file holds: the file itself, or the record in the zip of a ticket. Raises BundleError."""
    record = _record_in(content, most_bytes + 1) if content.startswith(b"PK") else content
    if len(record) > most_bytes:
        raise BundleError(f"it contains a record larger than {most_bytes >> 20} MiB")
    return record


def _record_in(content: bytes, most_bytes: int) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as bundle, bundle.open(FACTS) as member:
            return member.read(most_bytes)
    except KeyError:
        raise BundleError(f"it contains no {FACTS}: it is not a ticket of tfgpu-doctor") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise BundleError(f"it is a damaged zip: {error}") from error
