"""The report as JUnit XML, which GitLab, Jenkins and others show as a list of tests: each check is a test."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree as ET

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from tfgpu_doctor.model import SEVERITIES, Finding, Severity
from tfgpu_doctor.model.report import Report, Result
from tfgpu_doctor.render.words import NOTES_FAIL, failing_notes, open_question, subject

_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
_QUESTION = "the question was answered"  # a separate test: without it, a report of skips alone would look like success


def render_junit(report: Report, fail_level: Severity = "error") -> str:
    """Return one suite. A check with a finding at or above the level fails; below it, the finding is the test's output.

    A blocked check is skipped, with the reason.
    """
    suite = TestSuite("tfgpu-doctor")
    if _MOMENT.match(report.recorded):
        suite.timestamp = report.recorded[:19]
    for name, value in _properties(report, fail_level):
        suite.add_property(name, value)
    titles = {result.id: result.title for result in report.results}
    suite.add_testcases([*(_case(result, titles, fail_level) for result in report.results), _question(report)])
    return as_document(suite, report.seconds)


def as_document(suite: TestSuite, seconds: float) -> str:
    """Return the XML document of a suite, with its duration and counts."""
    document = JUnitXml("tfgpu-doctor")
    document.add_testsuite(suite)
    document.update_statistics()
    for each in (document, *document):
        each.time = round(seconds, 3)
    element = ET.fromstring(document.tostring())  # noqa: S314 - our own document
    ET.indent(element)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(element, encoding="unicode") + "\n"


def _properties(report: Report, fail_level: Severity) -> Iterator[tuple[str, str]]:
    yield "healthy", str(report.healthy).lower()
    yield "computes", _word(report.computes)
    yield "fit", _word(report.fit)
    yield "judged", str(report.judged).lower()
    yield "subject", subject(report)
    yield "doctor", report.doctor
    for cause in report.causes:
        yield "cause", f"{cause.id} {cause.label}: {cause.title}"
    for note in failing_notes(report, fail_level):
        yield "note", f"{NOTES_FAIL} {note.id} {note.label}: {note.title}. Fix: {note.fix.text}"


def _word(answer: bool | None) -> str:
    return "unknown" if answer is None else str(answer).lower()


def _question(report: Report) -> TestCase:
    """Return a test that is an error if it is unknown whether TensorFlow computes on a GPU."""
    why = open_question(report)
    return made_case("tfgpu_doctor", _QUESTION, Error(why, "not_judged") if why else None)


def made_case(
    classname: str, name: str, result: Error | Failure | Skipped | None, *, text: str = "", seconds: float = 0.0
) -> TestCase:
    """Return a test case; `text` explains its result, or is its output if it passes."""
    case = TestCase(name, classname, round(seconds, 4))
    if result is not None:
        if text:
            result.text = text
        case.result = [result]
    elif text:
        case.system_out = text
    return case


def _case(result: Result, titles: dict[str, str], fail_level: Severity) -> TestCase:
    group = result.id.rstrip("0123456789").partition(":")[0]
    outcome, text = _outcome(result, titles, fail_level)
    return made_case(f"tfgpu_doctor.{group}", f"{result.id} {result.title}", outcome, text=text, seconds=result.seconds)


def _outcome(
    result: Result, titles: dict[str, str], fail_level: Severity
) -> tuple[Error | Failure | Skipped | None, str]:
    worst = max(result.findings, key=lambda each: SEVERITIES.index(each.severity), default=None)
    if worst and SEVERITIES.index(worst.severity) >= SEVERITIES.index(fail_level):
        return Failure(worst.message, worst.cause), "\n".join(_lines(result))
    if result.outcome == "crash":
        return Error(result.reason, "crash"), "the check itself crashed; what it examines was not judged"
    if result.outcome == "blocked":
        why = ", ".join(f"{id} ({titles[id]})" if id in titles else id for id in result.blocked_by)
        return Skipped(f"blocked by {why}", "blocked"), ""
    if result.outcome == "skip":
        return Skipped(result.reason, "skip"), ""
    return None, "\n".join(_lines(result))


def _lines(result: Result) -> Iterator[str]:
    """Yield all evidence and findings of a check."""
    yield from result.evidence
    for finding in result.findings:
        yield from _finding(finding)


def _finding(finding: Finding) -> Iterator[str]:
    yield f"{finding.severity}: {finding.message} ({finding.cause}, confidence {finding.confidence})"
    yield from (f"  {line}" for line in finding.evidence)
    if finding.fix:
        yield f"  fix: {finding.fix.text}"
        yield from (f"    {command}" for command in finding.fix.commands)
