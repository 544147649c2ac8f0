"""Print how many of the inventory's error texts and error codes `tfgpu-doctor log` judges.

    python tools/measure_messages.py          the share by kind and source
    python tools/measure_messages.py --list   also the texts that nothing judges

A text is judged if a signature of log_signatures.json that a rule uses, or that is noise, matches it, or a row of
log_messages.json. Rows whose name ends in _other, or begins with codes_, say only what failed.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import re
import sys
from collections import Counter, defaultdict
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "checks/data"
INVENTORY = ROOT / "tools/messages/inventory.json"

Patterns = list[tuple[str, re.Pattern[str]]]


def read_rows(name: str) -> list[dict[str, Any]]:
    """Return the rows of a table."""
    rows: list[dict[str, Any]] = json.loads((DATA / name).read_text())["rows"]
    return rows


def judging_patterns() -> Patterns:
    """Return the patterns that judge a line, with the names of their rows, in their order."""
    used = {name for rule in read_rows("log_rules.json") for part in ("any", "all") for name in rule[part]}
    signatures = [row for row in read_rows("log_signatures.json") if row["noise"] or row["name"] in used]
    return [(row["name"], re.compile(row["pattern"])) for row in (*signatures, *read_rows("log_messages.json"))]


def name_of_judge(text: str, patterns: Patterns) -> str:
    """Return the name of the first row that matches a text, or an empty one."""
    return next((name for name, pattern in patterns if pattern.search(text)), "")


def is_general(name: str) -> bool:
    """Return whether a row says only what failed."""
    return name.endswith("_other") or name.startswith("codes_")


def show(kind: str, where: str, names: Counter[str]) -> None:
    """Print a line of the table."""
    total, judged = names.total(), names.total() - names[""]
    general = sum(count for name, count in names.items() if is_general(name))
    print(f"{kind:6} {where:13} {judged:5} of {total:5} {judged / total:7.1%}   {general:5} only in general")


def main() -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the texts that nothing judges")
    options = parser.parse_args()
    patterns = judging_patterns()
    found: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    unjudged = []
    for text, kind, first, last, where in json.loads(INVENTORY.read_text())["rows"]:
        name = name_of_judge(text, patterns)
        found[kind, where][name] += 1
        if not name:
            unjudged.append(f"{where} {first}-{last}: {text}")
    for (kind, where), names in sorted(found.items()):
        show(kind, where, names)
    for kind in sorted({kind for kind, _ in found}):
        show(kind, "all", sum((names for (each, _), names in found.items() if each == kind), Counter()))
    if options.list:
        print("\n".join(unjudged))
    return 0


if __name__ == "__main__":
    sys.exit(main())
