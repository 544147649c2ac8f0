"""Part 1: the diagnosis of the machine as it is, what else the doctor says of it, and how long each probe takes."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from gpu_run.workbench import Workbench, document_of, labels

_PLANS = ("libraries", "advise", "fix", "env", "ticket")


def diagnose(bench: Workbench) -> None:
    """Check, record and replay; the plans of the other commands; the times."""
    bench.doctor("check-verbose", "check", "-v", limit_s=120)
    checked = bench.document(bench.doctor("check", "check", "--format", "json", limit_s=120))
    if checked:
        _judge(bench, checked)
        _replay(bench, checked)
    bench.side_by_side(5, {name: partial(_say, bench, name) for name in _PLANS})
    if bench.enough(15, "the time of each probe"):
        _times(bench)


def _judge(bench: Workbench, checked: dict[str, Any]) -> None:
    """Each cause is either right, and the machine has to be mended, or a false alarm: a human says which."""
    for cause in checked["causes"]:
        bench.found(f"check names {cause['label']} ({cause['id']}): {cause['title']}: true, or a false alarm?")
    rows = [(each["id"], each["title"], each["outcome"]) for each in checked["results"] if each["outcome"] == "crash"]
    for row in rows:
        bench.found(f"check {row[0]} crashed")
    words = [(key, checked.get(key)) for key in ("healthy", "computes", "fit")]
    bench.table("Verdict", ("what", "value"), [*words, *checked["counts"].items()])


def _replay(bench: Workbench, checked: dict[str, Any]) -> None:
    """The record that was made before the first part gives the same causes as the examination."""
    replayed = bench.document(bench.doctor("replay", "check", "--facts", str(bench.setting.record), "--format", "json"))
    if replayed and labels(replayed) != labels(checked):
        bench.found(f"the record gives the causes {labels(replayed)}, the machine {labels(checked)}")


def _say(bench: Workbench, name: str) -> None:
    options = {"ticket": ("-o", "ticket.zip"), "env": ("--shell", "bash")}.get(name, ())
    done = bench.doctor(name, name, *options, limit_s=60)
    if done.exit_code not in (0, 1):
        bench.found(f"{name} ended with {done.complaint}")


def _times(bench: Workbench) -> None:
    document = document_of(bench.program("probe-times", "probe_times", limit_s=120).output)
    if not document:
        bench.found("the times of the probes were not measured")
        return
    slow = sorted(document["probes"].items(), key=lambda each: -each[1])
    bench.table("Time of each probe", ("probe", "seconds"), [*slow, ("all, side by side", document["seconds"])])
    bench.table(
        "Facts that no probe found", ("fact", "why"), sorted(json.loads(json.dumps(document["unknown"])).items())
    )
