"""Every machine of the lab gets its label as the first and only cause, from the logs and files of a real run."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest
from lab.examination import examine, why_not
from lab.machine import Machine
from lab.machines import MACHINES

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]
Note = Callable[[str, object], None]


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_machine(machine: Machine, bench: pathlib.Path, lab_targets: pathlib.Path, record_property: Note) -> None:
    if reason := why_not(machine):
        pytest.skip(reason)
    answer = examine(machine, bench, lab_targets)
    expected = [machine.label] if machine.label else []
    told = machine.says in answer.first_words
    for name, value in (
        ("machine", machine.name),
        ("expected", machine.label or "none"),
        ("first cause", answer.labels[0] if answer.labels else "none"),
        ("seconds", answer.seconds),
        ("right", "ok" if answer.labels == expected and told else f"WRONG: {answer.labels}, {answer.first_words[:600]}"),
    ):
        record_property(name, value)
    assert answer.labels == expected, answer.document["causes"]
    assert told, answer.first_words
    assert answer.document["counts"]["crash"] == 0
    assert answer.document["healthy"] or machine.label


def test_every_machine_has_a_name_of_its_own() -> None:
    names = [machine.name for machine in MACHINES]
    assert len(set(names)) == len(names)
