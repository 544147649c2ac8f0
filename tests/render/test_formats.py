"""Every format over every recorded machine: one verdict, one exit code, valid documents."""

from __future__ import annotations

import functools
import json
import os
import pathlib
import re
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import junitparser
import msgspec
import pytest
import xmlschema
from document_shapes import GITHUB_LINE
from every import every
from healthy import healthy
from locations import RECORDS, TESTS
from replayed import NAMES, each_machine, report_on
from sarif_subset import SARIF

from tfgpu_doctor.cli.main import cli
from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.model import SEVERITIES, Finding, Severity
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.report import Report
from tfgpu_doctor.render import FORMATS, render
from tfgpu_doctor.render.json_document import report_schema
from tfgpu_doctor.render.words import headline


def with_findings(*findings: Finding) -> Report:
    """A report in which the first check, and it alone, found something."""
    report = diagnose(healthy())
    found = msgspec.structs.replace(report.results[0], outcome="fail", findings=findings)
    rest = [msgspec.structs.replace(each, findings=()) for each in report.results[1:]]
    return msgspec.structs.replace(report, results=(found, *rest), causes=())


# What each format says of the verdict


def _word(healthy: object) -> str:
    return "healthy" if healthy in (True, "true") else "not healthy"


def _of_junit(document: str) -> str:
    suite = next(iter(junitparser.JUnitXml.fromstring(document.encode())))
    return _word({each.name: each.value for each in suite.properties()}["healthy"])


def _of_sentence(document: str) -> str:
    return _word(bool(re.search(r"Healthy: |Works, with \d+ issues? to fix: ", document)))


VERDICTS: dict[str, Callable[[str], str]] = {
    "text": _of_sentence,
    "markdown": _of_sentence,
    "github": _of_sentence,
    "html": _of_sentence,
    "json": lambda document: _word(json.loads(document)["healthy"]),
    "junit": _of_junit,
    "sarif": lambda document: _word(json.loads(document)["runs"][0]["properties"]["healthy"]),
    "prometheus": lambda document: _word('\ntfgpu_node_healthy{node=""} 1.0\n' in document),
}


# Whether each format is what its readers take


@functools.cache
def _junit_schema() -> xmlschema.XMLSchema:
    return xmlschema.XMLSchema(str(TESTS / "support/junit.xsd"))


@functools.cache
def _json_schema() -> Any:
    return jsonschema.Draft202012Validator(json.loads(report_schema()))


@functools.cache
def _sarif_schema() -> Any:
    return jsonschema.Draft202012Validator(SARIF)


def look_at_json(document: str, report: Report) -> None:
    found = json.loads(document)
    _json_schema().validate(found)
    assert [each["label"] for each in found["causes"]] == [cause.label for cause in report.causes]


def look_at_junit(document: str, report: Report) -> None:
    """By the schema, and by a reader of such files: each check is a test with the outcome that it had."""
    _junit_schema().validate(ET.fromstring(document))
    suite = next(iter(junitparser.JUnitXml.fromstring(document.encode())))
    *cases, question = list(suite)
    assert [case.name.split()[0] for case in cases] == [result.id for result in report.results]
    words = {junitparser.Failure: "fail", junitparser.Error: "crash", junitparser.Skipped: "skip"}
    for case, result in zip(cases, report.results, strict=True):
        found = [each for each in case.result if type(each) in words]
        kind = words[type(found[0])] if found else "pass"
        assert kind == {"warn": "pass", "blocked": "skip"}.get(result.outcome, result.outcome)
        assert [each.type for each in found if kind == "skip"] == ([result.outcome] if kind == "skip" else [])
        assert all(id in found[0].message for id in result.blocked_by)
    assert bool(question.result) == (report.exit_code() in (3, 130))
    assert (suite.tests, suite.failures) == (len(report.results) + 1, report.counts["fail"])
    assert suite.skipped == report.counts["skip"] + report.counts["blocked"]


def look_at_sarif(document: str, report: Report) -> None:
    found = json.loads(document)
    _sarif_schema().validate(found)
    (run,) = found["runs"]
    rules = run["tool"]["driver"]["rules"]
    findings = [(result.id, finding) for result in report.results for finding in result.findings]
    assert [(each["ruleId"], each["level"]) for each in run["results"]] == [
        (id, {"info": "note"}.get(finding.severity, finding.severity)) for id, finding in findings
    ]
    assert all(rules[each["ruleIndex"]]["id"] == each["ruleId"] for each in run["results"])
    prints = [each["partialFingerprints"]["tfgpuDoctor/v1"] for each in run["results"]]
    assert len(set(prints)) == len(prints)
    roots = [each for each in run["results"] if each["properties"]["rootCause"]]
    assert {each["properties"]["cause"] for each in roots} == {cause.label for cause in report.causes}
    assert run["invocations"][0]["executionSuccessful"] is (report.exit_code() in (0, 1))
    assert run["invocations"][0]["exitCode"] == report.exit_code()


def look_at_github(document: str, report: Report) -> None:
    """One annotation for each cause, and one for the verdict where no cause says it."""
    lines = document.splitlines()
    assert lines
    assert all(GITHUB_LINE.fullmatch(line) for line in lines)
    about_causes = [line for line in lines if not line.split("::")[1].endswith("title=tfgpu-doctor")]
    assert len(about_causes) == len(report.causes)
    for cause, line in zip(report.causes, about_causes, strict=True):
        assert line.startswith(f"::{cause.severity} title={cause.id}%3A ")


LOOKS = {"json": look_at_json, "junit": look_at_junit, "sarif": look_at_sarif, "github": look_at_github}


@each_machine
def test_every_format_tells_the_same_and_is_valid(machine: str, tmp_path: pathlib.Path) -> None:
    """Through the command itself, so that the exit code is the one that a user gets."""
    report = report_on(machine)
    for format_ in FORMATS:
        arguments = ["check", "--facts", str(RECORDS[machine]), "--format", format_, "-o", str(tmp_path / format_)]
        assert cli.main(arguments, standalone_mode=False) == report.exit_code(), format_
        document = (tmp_path / format_).read_text("utf-8")
        assert VERDICTS[format_](document) == _word(report.healthy), format_
        assert "(truncated)" not in document
        assert "A command is left out" not in document
        if look := LOOKS.get(format_):
            look(document, report)


@every("level", SEVERITIES)
def test_junit_and_sarif_fail_where_the_run_fails(level: Severity) -> None:
    """CI services show the report, and not the exit code: one test fails for each check with a finding that counts."""
    counted = SEVERITIES[SEVERITIES.index(level) :]
    for machine in NAMES:
        report = report_on(machine)
        suite = next(iter(junitparser.JUnitXml.fromstring(render(report, "junit", fail_level=level).encode())))
        failing = {
            each.id: each.findings for each in report.results if any(f.severity in counted for f in each.findings)
        }
        failed = [case for case in suite if any(isinstance(each, junitparser.Failure) for each in case.result)]
        assert [case.name.split()[0] for case in failed] == list(failing), machine
        worst = [max(found, key=lambda each: SEVERITIES.index(each.severity)) for found in failing.values()]
        assert [case.result[0].message for case in failed] == [each.message for each in worst], machine
        (run,) = json.loads(render(report, "sarif", fail_level=level))["runs"]
        assert run["invocations"][0]["exitCode"] == report.exit_code(level), machine
        assert ("exitCodeDescription" in run["invocations"][0]) == (report.exit_code(level) == 1)


def test_sarif_is_valid_by_the_official_schema() -> None:
    place = os.environ.get("TFGPU_SARIF_SCHEMA")
    if not place:
        pytest.skip("TFGPU_SARIF_SCHEMA names no file; OASIS publishes sarif-schema-2.1.0.json")
    schema = json.loads(pathlib.Path(place).read_bytes())
    validator = jsonschema.validators.validator_for(schema)(schema)
    for machine in NAMES:
        validator.validate(json.loads(render(report_on(machine), "sarif")))


def test_a_fingerprint_does_not_hang_on_figures() -> None:
    reports = [with_findings(Finding(f"{number} errors", cause="gpu_ecc_errors")) for number in (3, 4)]
    prints = [json.loads(render(report, "sarif"))["runs"][0]["results"][0]["partialFingerprints"] for report in reports]
    assert prints[0] == prints[1]


def test_more_annotations_than_github_shows_are_counted() -> None:
    report = report_on("plain-pip-tensorflow")
    (cause,) = report.causes
    many = tuple(msgspec.structs.replace(cause, title=f"cause {number}") for number in range(25))
    lines = render(msgspec.structs.replace(report, causes=many), "github").splitlines()
    assert len(lines) == 10
    assert lines[-1].startswith("::error title=16 more::")
    assert "cause 24" in lines[-1]


def test_a_crash_is_an_error_in_every_format() -> None:
    report = diagnose(healthy())
    crash = msgspec.structs.replace(report.results[0], outcome="crash", reason="ZeroDivisionError: of my making")
    counts = {**report.counts, "crash": 1, "pass": report.counts["pass"] - 1}
    report = msgspec.structs.replace(report, results=(crash, *report.results[1:]), counts=counts, healthy=False)
    assert report.exit_code() == 3
    for format_ in FORMATS:
        told = 'outcome="crash"} 1.0' if format_ == "prometheus" else "ZeroDivisionError"
        assert told in render(report, format_), format_
    assert "<error" in render(report, "junit")
    assert render(report, "github").startswith("::error ")
    assert json.loads(render(report, "sarif"))["runs"][0]["invocations"][0]["executionSuccessful"] is False


@pytest.mark.parametrize("interrupted", [True, False])
def test_what_is_not_known_is_red(interrupted: bool) -> None:
    report = diagnose(Facts(unknown={"pci": "/sys cannot be read"}), interrupted=interrupted)
    assert report.exit_code() == (130 if interrupted else 3)
    suite = next(iter(junitparser.JUnitXml.fromstring(render(report, "junit").encode())))
    assert suite.errors == 1
    assert render(report, "github").startswith("::error ")
    assert headline(report).split(":")[0] in render(report, "sarif")
