"""Score the log diagnosis on the threads of tests/log/unseen.json, whose texts are in a folder outside of the project.

    python tools/measure_unseen.py FOLDER [--batch 3]

FOLDER/batch1/01.json has {"text": ...}. A first cause counts if it is the true one (strict), or one that a maintainer
would accept; silent: no cause; wrong: another one first, at medium or high confidence.
"""

from __future__ import annotations

import argparse
import io
import json
import pathlib
from typing import Any

from tabulate import tabulate

from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.log import Context, LogReport, Scanner, classify

TABLE = pathlib.Path(__file__).parent.parent / "tests/log/unseen.json"


def diagnose(text: str, given: dict[str, Any]) -> LogReport:
    """Return the report on the text of a thread."""
    knowledge = read_knowledge()
    scanner = Scanner(knowledge.log_signatures)
    scanner.scan(io.BytesIO(text.encode() + b"\n"))
    return classify(
        scanner.found,
        Context({key: str(value) for key, value in given.items()}),
        knowledge,
        scanner.lines,
        scanner.kept.texts(),
    )


def judge(thread: dict[str, Any], report: LogReport) -> dict[str, bool]:
    """Return how the report on a thread counts."""
    labels = [cause.label for cause in report.causes]
    accepted = {thread["truth"], *thread["accepted"]}
    right = labels[:1] != [] and labels[0] in accepted
    return {
        "strict": labels[:1] == [thread["truth"]],
        "top 1": right,
        "top 3": bool(accepted & set(labels[:3])),
        "silent": not labels,
        "wrong": bool(labels) and not right and report.causes[0].confidence != "low",
    }


def main() -> None:
    """Print a row for each batch and kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--batch", type=int)
    options = parser.parse_args()
    found: dict[tuple[int, str], list[dict[str, bool]]] = {}
    for thread in json.loads(TABLE.read_text("utf-8"))["threads"]:
        path = options.folder / f"batch{thread['batch']}" / f"{thread['number']:02}.json"
        if options.batch in (None, thread["batch"]) and path.exists():
            report = diagnose(json.loads(path.read_text("utf-8"))["text"], thread["given"])
            found.setdefault((thread["batch"], thread["kind"]), []).append(judge(thread, report))
    rows = [
        (batch, kind, len(each), *(sum(one[name] for one in each) for name in each[0]))
        for (batch, kind), each in found.items()
    ]
    print(tabulate(rows, headers=("batch", "kind", "threads", "strict", "top 1", "top 3", "silent", "wrong")))


if __name__ == "__main__":
    main()
