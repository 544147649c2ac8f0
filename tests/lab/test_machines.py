"""Every machine of the lab gets its label as the first and only cause, from the logs and files of a real run."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable

import pytest
from lab.answers import Answers
from lab.examination import Answer, examine, why_not
from lab.machine import Machine
from lab.machines import MACHINES
from said_numbers import names_a_gpu

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]
Note = Callable[[str, object], None]


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_machine(
    machine: Machine, bench: pathlib.Path, lab_targets: pathlib.Path, answers: Answers, record_property: Note
) -> None:
    if reason := why_not(machine):
        pytest.skip(reason)
    answer, at_first = examine(machine, bench, lab_targets), ""
    if wrong := why_wrong(machine, answer):
        # A stall of the machine that runs the tests can cost TensorFlow its deadline. The table shows what was said then.
        again = bench / "again"
        again.mkdir()
        at_first, answer = f", after WRONG: {wrong}", examine(machine, again, lab_targets)
    answers.keep(machine, answer.labels)
    wrong = why_wrong(machine, answer)
    for name, value in (
        ("machine", machine.name),
        ("expected", machine.label or "none"),
        ("first cause", answer.labels[0] if answer.labels else "none"),
        ("seconds", answer.seconds),
        ("right", (f"WRONG: {wrong}" if wrong else "ok") + at_first),
    ):
        record_property(name, value)
    assert not wrong, wrong
    assert answer.document["counts"]["crash"] == 0
    assert without_device(answer) == []
    assert answer.document["healthy"] or machine.label


def why_wrong(machine: Machine, answer: Answer) -> str:
    """What is wrong with an answer; empty where it is the one expected."""
    if answer.labels == ([machine.label] if machine.label else []) and machine.says in answer.first_words:
        return ""
    return json.dumps(answer.document["causes"])[:1500]


def without_device(answer: Answer) -> list[str]:
    """The messages that name a GPU of findings that do not."""
    findings = [finding for result in answer.document["results"] for finding in result["findings"]]
    return [each["message"] for each in findings if names_a_gpu(each["message"]) and not each["devices"]]


def test_every_machine_has_a_name_of_its_own() -> None:
    names = [machine.name for machine in MACHINES]
    assert len(set(names)) == len(names)
