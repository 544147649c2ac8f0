"""results.json, schema 1: the machine, the parts with their commands, tables, and findings (what was wrong)."""

from __future__ import annotations

import os
import pathlib
from typing import Any, Literal

import msgspec

FILE = "results.json"
Status = Literal["done", "failed", "not reached", "not run"]


class Command(msgspec.Struct, frozen=True):
    """A command that ran; its output lies in PART/NAME.out and PART/NAME.err."""

    name: str
    argv: tuple[str, ...]
    exit_code: int | None
    seconds: float
    ended: str = ""


class Table(msgspec.Struct, frozen=True):
    """A table of a part."""

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    part: str = ""


class Finding(msgspec.Struct, frozen=True):
    """Something that was wrong, or has to be looked at by a human."""

    part: str
    what: str


class PartResult(msgspec.Struct, frozen=True):
    """What became of a part."""

    name: str
    question: str
    status: Status
    why: str = ""  # not done, or not wholly
    given_s: float = 0.0
    seconds: float = 0.0
    commands: tuple[Command, ...] = ()


class Results(msgspec.Struct, frozen=True):
    """The whole document."""

    schema: Literal[1]
    doctor: str
    began: str  # UTC
    minutes: float
    stand_in: bool
    machine: dict[str, Any]
    parts: tuple[PartResult, ...] = ()
    tables: tuple[Table, ...] = ()
    findings: tuple[Finding, ...] = ()
    left_out: tuple[str, ...] = ()  # files that were too large to pack


def read_earlier(folder: pathlib.Path) -> Results | None:
    """The results that an earlier call left in the folder; None if there are none. Raises msgspec.DecodeError."""
    try:
        content = (folder / FILE).read_bytes()
    except FileNotFoundError:
        return None
    return msgspec.json.decode(content, type=Results)


def merged(earlier: Results | None, now: Results) -> Results:
    """The parts of both calls; a part that ran in this one replaces the earlier, one that did not run does not."""
    if earlier is None:
        return now
    kept = {part.name for part in earlier.parts if part.status in ("done", "failed")}
    new = {part.name for part in now.parts if part.status in ("done", "failed")}
    ours = {part.name for part in now.parts} - (kept - new)
    parts = {part.name: part for part in (*earlier.parts, *now.parts) if part.name in ours} | {
        part.name: part for part in earlier.parts if part.name not in ours
    }
    return msgspec.structs.replace(
        now,
        began=earlier.began,
        left_out=(*earlier.left_out, *now.left_out),
        parts=tuple(parts.values()),
        tables=(*(each for each in earlier.tables if each.part not in ours), *(each for each in now.tables if each.part in ours)),
        findings=(
            *(each for each in earlier.findings if each.part not in ours),
            *(each for each in now.findings if each.part in ours or each.part == ""),
        ),
    )  # fmt: skip


def write(folder: pathlib.Path, results: Results) -> None:
    """Write the file whole, or not at all."""
    new = folder / f"{FILE}.new"
    new.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
    os.replace(new, folder / FILE)
