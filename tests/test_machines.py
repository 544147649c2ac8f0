"""Each machine under tests/machines is diagnosed as its expected.json says."""

from __future__ import annotations

import json
import pathlib

import pytest

from tfgpu_doctor.diagnosis import diagnose
from tfgpu_doctor.facts import decode_facts, encode_facts
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.report import Report

MACHINES = sorted(path.parent for path in pathlib.Path(__file__).parent.glob("machines/*/facts.json"))


@pytest.fixture(params=MACHINES, ids=lambda folder: folder.name)
def machine(request: pytest.FixtureRequest) -> pathlib.Path:
    folder: pathlib.Path = request.param
    return folder


def report_on(machine: pathlib.Path) -> Report:
    return diagnose(decode_facts((machine / "facts.json").read_bytes()))


def test_there_are_machines() -> None:
    assert len(MACHINES) >= 12


def test_machine_gets_its_causes(machine: pathlib.Path) -> None:
    expected = json.loads((machine / "expected.json").read_text())
    report = report_on(machine)
    assert [cause.label for cause in report.causes] == expected["causes"]
    assert report.healthy == expected["healthy"]


def test_no_check_crashes(machine: pathlib.Path) -> None:
    assert [result.reason for result in report_on(machine).results if result.outcome == "crash"] == []


def test_no_two_red_lines_for_one_cause(machine: pathlib.Path) -> None:
    labels = [cause.label for cause in report_on(machine).causes]
    assert len(labels) == len(set(labels))


def test_every_pass_has_evidence(machine: pathlib.Path) -> None:
    bare = [result.id for result in report_on(machine).results if result.outcome == "pass" and not result.evidence]
    assert bare == []


def test_every_finding_says_what_to_do(machine: pathlib.Path) -> None:
    findings = [finding for result in report_on(machine).results for finding in result.findings]
    assert [finding.message for finding in findings if not (finding.fix and finding.fix.text)] == []


def test_every_cause_has_evidence(machine: pathlib.Path) -> None:
    assert [cause.label for cause in report_on(machine).causes if not cause.evidence] == []


def test_causes_are_of_the_vocabulary_and_declared(machine: pathlib.Path) -> None:
    from tfgpu_doctor.checks import ALL_CHECKS

    declared = {check.id: {*check.causes, "undetermined"} for check in ALL_CHECKS}
    for result in report_on(machine).results:
        for finding in result.findings:
            assert finding.cause in read_knowledge().causes
            assert finding.cause in declared[result.id], f"{result.id} names {finding.cause}, and does not declare it"


def test_commands_are_safe_to_paste(machine: pathlib.Path) -> None:
    for cause in report_on(machine).causes:
        for command in cause.fix.commands:
            assert not command.startswith(("sudo", "rm ", "mv ")), command
            assert "\n" not in command


def test_facts_survive_json(machine: pathlib.Path) -> None:
    facts = decode_facts((machine / "facts.json").read_bytes())
    assert decode_facts(encode_facts(facts)) == facts


def test_replay_says_the_same_twice(machine: pathlib.Path) -> None:
    assert report_on(machine).causes == report_on(machine).causes
