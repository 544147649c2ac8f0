"""Read the node reports of a folder one after another, and give the reason for every file that is not a report."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from tfgpu_doctor.fleet.fleet import RefusedFile
from tfgpu_doctor.fleet.node import KIND, NODE_SCHEMA, Cause, Measurement, NodeOutcome, Unmet, file_name
from tfgpu_doctor.host.files import Files
from tfgpu_doctor.host.gathered import Unread, gather
from tfgpu_doctor.host.json_text import decode_json

EXPECTED_FILE, SECOND_FOLDER = "expected.json", "second"
_EARLIER_FOLDER = "earlier"  # for the reports of earlier jobs
_FOLDERS = (SECOND_FOLDER, _EARLIER_FOLDER, ".expected", "drained")  # the last two belong to emitted scripts
_MOST_BYTES = 4 << 20  # of one report; a long stress test on a large machine gives 0.3 MB
# Limits beyond anything that the doctor writes or the comparison needs.
_MOST_SETTINGS, _MOST_MEASUREMENTS, _MOST_CHECKS, _MOST_CAUSES = 2000, 5000, 2000, 500
_LONGEST = 300
# The doctor writes a node's report last and on one line; everything that is compared comes before it. Inside a string
# the quotes would be escaped with a backslash, and a truncated file does not end with a newline.
_REPORT, _END = b',"report":{', b"}}\n"
_UNFINISHED = re.compile(r"\.json\.\d+\.\d+\.part$")


class Heard(msgspec.Struct, frozen=True):
    """The content of a node's file. `settings` and `checks` stay undecoded: most are the same on many nodes."""

    node: str
    outcome: NodeOutcome
    schema: int = 0
    kind: str = ""
    reason: str = ""
    began: str = ""
    seconds: float = 0.0
    order: str = ""
    doctor: str = ""
    profile: str = ""
    exit_code: int | None = None
    unjudged: str = ""
    settings: msgspec.Raw = msgspec.Raw(b"{}")
    checks: msgspec.Raw = msgspec.Raw(b"{}")
    partly: dict[str, str] = {}
    measurements: list[Measurement] = []
    causes: list[Cause] = []
    unmet: list[Unmet] = []


class _Kind(msgspec.Struct):
    schema: Any = None
    kind: Any = None


_decoder, _kind_decoder = msgspec.json.Decoder(Heard), msgspec.json.Decoder(_Kind)


def read_reports(folder: str, refused: list[RefusedFile], within: str = "") -> Iterator[tuple[str, Heard]]:
    """Yield every node's report with its file name. Other files are added to `refused`, with the prefix `within`.

    Raises OSError if the folder cannot be listed.
    """
    names = sorted(os.path.basename(name) for name in Files().list_folder(folder))
    reports = [name for name in names if name.endswith(".json") and name != EXPECTED_FILE]
    refused += [
        _beside(_readable(within + name)) for name in names if not name.endswith(".json") and name not in _FOLDERS
    ]
    there, seen = set(reports), set[str]()
    for name, content in gather(folder, reports, _MOST_BYTES):
        found = content.why if isinstance(content, Unread) else decode(content)
        if isinstance(found, Heard):
            own = file_name(found.node)
            if own == name or (own not in there and found.node not in seen):
                seen.add(found.node)
                yield within + name, found
                continue
            found = f"a second report for the node {found.node}"
        refused.append(RefusedFile(file=_readable(within + name), why=found))


def decode(content: bytes) -> Heard | str:
    """Return a node's report, or the reason why the content is not one."""
    cut = content.find(_REPORT) if content.endswith(_END) else -1
    try:
        heard = _decoder.decode(content[:cut] + b"}" if cut > 0 else content)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return _why_not(content, error)
    if heard.kind != KIND:
        return "not a node report of this doctor"
    if heard.schema != NODE_SCHEMA:
        return f"its schema is {heard.schema}; this doctor supports only {NODE_SCHEMA}"
    if not 0 < len(heard.node) <= _LONGEST:
        return f"its node name has {len(heard.node)} characters"
    many = len(heard.causes) + len(heard.unmet) > _MOST_CAUSES or len(heard.partly) > _MOST_CHECKS
    if len(heard.measurements) > _MOST_MEASUREMENTS or many:
        return "it contains more measurements or causes than any node has"
    return heard


def _why_not(content: bytes, error: Exception) -> str:
    if not content.strip():
        return "empty"
    try:
        kind = _kind_decoder.decode(content)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return (
            f"truncated, or not JSON: {error}"
            if content.lstrip()[:1] == b"{"
            else "not a node report: not a JSON object"
        )
    if kind.kind != KIND:
        return "not a node report of this doctor"
    if kind.schema != NODE_SCHEMA:
        return f"its schema is {str(kind.schema)[:20]}; this doctor supports only {NODE_SCHEMA}"
    return f"not a valid node report: {error}"


def decode_words(raw: bytes, most: int) -> dict[str, str]:
    """Decode settings or checks, with bounded number and length. Raises msgspec.DecodeError."""
    found = decode_json(raw, dict[str, str])
    if len(found) > most:
        raise msgspec.DecodeError(f"{len(found)} entries")
    if any(len(name) > _LONGEST or len(value) > _LONGEST for name, value in found.items()):
        return {name[:_LONGEST]: value[:_LONGEST] for name, value in found.items()}
    return found


def decode_settings(raw: bytes) -> dict[str, str]:
    """Decode the settings of a node. Raises msgspec.DecodeError."""
    return decode_words(raw, _MOST_SETTINGS)


def decode_checks(raw: bytes) -> dict[str, str]:
    """Decode the outcomes of a node's checks. Raises msgspec.DecodeError."""
    return decode_words(raw, _MOST_CHECKS)


def _readable(name: str) -> str:
    """Return a file name that is valid UTF-8; invalid bytes become replacement characters."""
    return os.fsencode(name).decode("utf-8", "replace")


def _beside(name: str) -> RefusedFile:
    if _UNFINISHED.search(name):
        return RefusedFile(file=name, why="an unfinished write")
    return RefusedFile(file=name, why="not a .json file", fault=False)
