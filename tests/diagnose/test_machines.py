"""Each machine under tests/machines is diagnosed as its expected.json says."""

from __future__ import annotations

import json
import re

import pytest
from every import every
from locations import RECORDS
from replayed import NAMES, facts_of, report_on

from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model.facts import decode_facts, encode_facts
from tfgpu_doctor.render import render

_PLURAL_OF_ONE = re.compile(
    r"(?<![\w.,:/=+-])1 (?:other |more )?(?:[GC]PUs|NVSwitches|NVLinks|devices|processes|rows|banks|times|minutes|samples"
    r"|libraries|packages|tests|instances)\b.*"
)
every_machine = every("machine", NAMES, least=160)


@every_machine
def test_machine_gets_its_causes(machine: str) -> None:
    expected = json.loads(RECORDS[machine].with_name("expected.json").read_text())
    if "may" in expected:
        pytest.skip("judged by test_recorded_machines.py: what a capture does not show may be found, or not")
    report = report_on(machine)
    assert [cause.label for cause in report.causes] == expected["causes"]
    assert (report.healthy, report.computes, report.fit) == (expected["healthy"], expected["computes"], expected["fit"])


@every_machine
def test_no_check_crashes(machine: str) -> None:
    assert [result.reason for result in report_on(machine).results if result.outcome == "crash"] == []


@every_machine
def test_no_two_red_lines_for_one_cause(machine: str) -> None:
    labels = [cause.label for cause in report_on(machine).causes]
    assert len(labels) == len(set(labels))


@every_machine
def test_every_pass_has_evidence(machine: str) -> None:
    bare = [result.id for result in report_on(machine).results if result.outcome == "pass" and not result.evidence]
    assert bare == []


@pytest.mark.slow
@every_machine
def test_one_of_a_thing_is_no_plural(machine: str) -> None:
    assert _PLURAL_OF_ONE.findall(render(report_on(machine), "text", verbose=True)) == []


@every_machine
def test_every_finding_says_what_to_do(machine: str) -> None:
    findings = [finding for result in report_on(machine).results for finding in result.findings]
    assert [finding.message for finding in findings if not (finding.fix and finding.fix.text)] == []


@every_machine
def test_every_cause_has_evidence(machine: str) -> None:
    assert [cause.label for cause in report_on(machine).causes if not cause.evidence] == []


@every_machine
def test_causes_are_of_the_vocabulary_and_declared(machine: str) -> None:
    from tfgpu_doctor.checks import ALL_CHECKS

    declared = {check.id: {*check.causes, "undetermined"} for check in ALL_CHECKS}
    for result in report_on(machine).results:
        for finding in result.findings:
            assert finding.cause in read_knowledge().causes
            assert finding.cause in declared[result.id], f"{result.id} names {finding.cause}, and does not declare it"


@every_machine
def test_commands_are_safe_to_paste(machine: str) -> None:
    for cause in report_on(machine).causes:
        for command in cause.fix.commands:
            assert not command.startswith(("sudo", "rm ", "mv ")), command
            assert "\n" not in command


@every_machine
def test_facts_survive_json(machine: str) -> None:
    assert decode_facts(encode_facts(facts_of(machine))) == facts_of(machine)


@every_machine
def test_replay_says_the_same_twice(machine: str) -> None:
    assert diagnose(facts_of(machine)).causes == report_on(machine).causes
