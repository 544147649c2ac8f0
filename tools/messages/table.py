"""The inventory of messages: a row for each text, with the first and the last release that contains it."""

from __future__ import annotations

import json
import os
import pathlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from packaging.version import Version

_ABOUT = (
    "Texts about the GPU and its libraries, read out of wheels by tools/read_messages.py. A row contains: text, kind (error:"
    " the text says that something failed; code: the name of an error code), the first and the last version that has it (of"
    " TensorFlow, or of NVIDIA's package), and where it was found. Texts of several parts are separate rows. Texts of other"
    " kinds are not kept, only counted."
)

Row = tuple[str, str, str, str, str]  # text, kind, first, last, where


@dataclass
class Inventory:
    """The rows by text and place, and the number of texts by package, version and kind."""

    rows: dict[tuple[str, str], Row] = field(default_factory=dict)
    counts: dict[str, dict[str, int]] = field(default_factory=dict)

    def add(self, package: str, version: str, found: Iterable[tuple[str, str, str]]) -> None:
        """Merge the texts of a wheel: text, kind, where."""
        counts: Counter[str] = Counter()
        for text, kind, where in found:
            counts[kind] += 1
            if kind != "other":
                old = self.rows.get((text, where), (text, kind, version, version, where))
                versions = sorted((old[2], old[3], version), key=Version)
                self.rows[text, where] = (text, kind, versions[0], versions[-1], where)
        self.counts[f"{package} {version}"] = dict(sorted(counts.items()))


def read_inventory(file: pathlib.Path) -> Inventory:
    """Return the table of a file, an empty one if there is no file yet."""
    if not file.exists():
        return Inventory()
    content = json.loads(file.read_text())
    rows: list[Row] = [(text, kind, first, last, where) for text, kind, first, last, where in content["rows"]]
    return Inventory({(row[0], row[4]): row for row in rows}, content["counts"])


def write_inventory(file: pathlib.Path, table: Inventory) -> None:
    """Write the table, one row on each line, in a fixed order: whole, or not at all."""
    rows = sorted(table.rows.values(), key=lambda row: (row[4], row[1], row[0]))
    counts = sorted(table.counts.items(), key=lambda item: (item[0].split()[0], Version(item[0].split()[1])))
    lines = [
        f' "about": {json.dumps(_ABOUT)}',
        ' "counts": {\n' + ",\n".join(f"  {json.dumps(name)}: {json.dumps(each)}" for name, each in counts) + "\n }",
        ' "rows": [\n' + ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in rows) + "\n ]",
    ]
    new = file.with_name(f"{file.name}.new")
    new.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    os.replace(new, file)
