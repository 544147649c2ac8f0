"""The report as JUnit XML, which GitLab, Jenkins and others show as a list of tests: each check is one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree as ET

from tfgpu_doctor.model import Finding
from tfgpu_doctor.model.report import Report, Result
from tfgpu_doctor.render.text import clean
from tfgpu_doctor.render.words import open_question, subject

_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
_QUESTION = "the question was answered"  # a test of its own: without it, nothing but skips would look like success


def render_junit(report: Report) -> str:
    """One suite. A warning passes, with its text as the test's output; what is blocked is skipped, with the reason."""
    suite = ET.Element("testsuite", {"name": "tfgpu-doctor", "time": f"{report.seconds:.3f}", **_tally(report)})
    if _MOMENT.match(report.recorded):
        suite.set("timestamp", report.recorded[:19])
    properties = ET.SubElement(suite, "properties")
    for name, value in _properties(report):
        ET.SubElement(properties, "property", name=name, value=clean(value))
    titles = {result.id: result.title for result in report.results}
    for result in report.results:
        suite.append(_case(result, titles))
    suite.append(_question(report))
    suites = ET.Element("testsuites", {"name": "tfgpu-doctor", **_tally(report)})
    suites.append(suite)
    ET.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suites, encoding="unicode") + "\n"


def _tally(report: Report) -> dict[str, str]:
    counts = report.counts
    return {
        "tests": str(len(report.results) + 1),
        "failures": str(counts["fail"]),
        "errors": str(counts["crash"] + bool(open_question(report))),
        "skipped": str(counts["skip"] + counts["blocked"]),
    }


def _properties(report: Report) -> Iterator[tuple[str, str]]:
    yield "healthy", str(report.healthy).lower()
    yield "judged", str(report.judged).lower()
    yield "subject", subject(report)
    yield "doctor", report.doctor
    for cause in report.causes:
        yield "cause", f"{cause.id} {cause.label}: {cause.title}"


def _question(report: Report) -> ET.Element:
    """Whether it is known that TensorFlow computes on a GPU, or why not."""
    case = ET.Element("testcase", classname="tfgpu_doctor", name=_QUESTION, time="0.000")
    if why := open_question(report):
        ET.SubElement(case, "error", type="not_judged", message=why)
    return case


def _case(result: Result, titles: dict[str, str]) -> ET.Element:
    group = result.id.rstrip("0123456789").partition(":")[0]
    case = ET.Element(
        "testcase",
        classname=clean(f"tfgpu_doctor.{group}"),
        name=clean(f"{result.id} {result.title}"),
        time=f"{result.seconds:.6f}",
    )
    if result.outcome == "fail":
        worst = next(each for each in result.findings if each.severity == "error")
        failure = ET.SubElement(case, "failure", type=clean(worst.cause), message=clean(worst.message))
        failure.text = clean("\n".join(_lines(result)))
    elif result.outcome == "crash":
        error = ET.SubElement(case, "error", type="crash", message=clean(result.reason))
        error.text = "the check itself broke; what it looks at was not judged"
    elif result.outcome == "blocked":
        why = ", ".join(f"{id} ({titles[id]})" if id in titles else id for id in result.blocked_by)
        ET.SubElement(case, "skipped", type="blocked", message=clean(f"blocked by {why}"))
    elif result.outcome == "skip":
        ET.SubElement(case, "skipped", type="skip", message=clean(result.reason))
    else:
        ET.SubElement(case, "system-out").text = clean("\n".join(_lines(result)))
    return case


def _lines(result: Result) -> Iterator[str]:
    """Everything that a check said."""
    yield from result.evidence
    for finding in result.findings:
        yield from _finding(finding)


def _finding(finding: Finding) -> Iterator[str]:
    yield f"{finding.severity}: {finding.message} ({finding.cause}, confidence {finding.confidence})"
    yield from (f"  {line}" for line in finding.evidence)
    if finding.fix:
        yield f"  fix: {finding.fix.text}"
        yield from (f"    {command}" for command in finding.fix.commands)
