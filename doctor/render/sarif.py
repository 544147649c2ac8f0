"""The report as SARIF 2.1.0: each check is a rule, each finding a result.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from tfgpu_doctor._project import ADDRESS
from tfgpu_doctor.model import Check, Finding, Severity
from tfgpu_doctor.model.report import Report, Result
from tfgpu_doctor.render.json_document import as_json
from tfgpu_doctor.render.words import open_question, subject, unjudged

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
# A machine has no source file, but GitHub rejects a document with a result that has none:
# https://docs.github.com/en/code-security/code-scanning/integrating-with-code-scanning/sarif-support-for-code-scanning
_PLACE = {"artifactLocation": {"uri": "this-machine"}, "region": {"startLine": 1}}
_FINGERPRINT = "tfgpuDoctor/v1"
_LEVELS: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "note"}
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_Object = dict[str, Any]


def render_sarif(report: Report, checks: Sequence[Check] = (), fail_level: Severity = "error") -> str:
    """Return one run, with a result for each finding; rules have an explanation if `checks` contains their checks.

    A result keeps the severity of its finding; whether the run fails at the level is the exit code of the invocation.
    """
    rules = {result.id: place for place, result in enumerate(report.results)}
    run: _Object = {
        "tool": {"driver": _driver(report, checks)},
        "automationDetails": {"id": f"tfgpu-doctor/{report.level}/"},
        "invocations": [_invocation(report, fail_level)],
        "results": list(_results(report, rules)),
        "columnKind": "unicodeCodePoints",
        "properties": {
            "healthy": report.healthy,
            "computes": report.computes,
            "fit": report.fit,
            "judged": report.judged,
            "counts": report.counts,
            "subject": subject(report),
            "gpus": list(report.machine.gpus),
        },
    }
    document = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return as_json(document)


def _driver(report: Report, checks: Sequence[Check]) -> _Object:
    explained = {check.id: (check.explanation, check.sources) for check in checks}
    rules = [_rule(result, *explained.get(result.id, ("", ()))) for result in report.results]
    driver: _Object = {"name": "tfgpu-doctor", **({"informationUri": ADDRESS} if ADDRESS else {}), "rules": rules}
    return {**driver, "version": report.doctor} if report.doctor else driver


def _rule(result: Result, explanation: str, sources: tuple[str, ...]) -> _Object:
    """Return the rule of a check; its first source is the link for more information."""
    title = result.title
    rule: _Object = {
        "id": result.id,
        "shortDescription": {"text": title},
        "fullDescription": {"text": " ".join(explanation.partition("\n\n")[0].split()) or title},
        "help": {"text": explanation or f"{title}. For details, run `tfgpu-doctor explain {result.id}`."},
    }
    return {**rule, "helpUri": sources[0]} if sources else rule


def _results(report: Report, rules: dict[str, int]) -> Iterator[_Object]:
    roots = {(cause.id, cause.title): cause.explains for cause in report.causes}
    seen: Counter[str] = Counter()
    for result in report.results:
        for finding in result.findings:
            key = f"{result.id} {finding.cause}"
            explains = roots.get((result.id, finding.message))
            yield {
                "ruleId": result.id,
                "ruleIndex": rules[result.id],
                "level": _LEVELS[finding.severity],
                "message": {"text": _message(finding)},
                "locations": [{"physicalLocation": _PLACE, "logicalLocations": [_location(report)]}],
                "partialFingerprints": {_FINGERPRINT: _fingerprint(key, seen[key])},
                "properties": {
                    "cause": finding.cause,
                    "confidence": finding.confidence,
                    "rootCause": explains is not None,
                    "explains": list(explains or ()),
                    "evidence": list(finding.evidence),
                },
            }
            seen[key] += 1


def _message(finding: Finding) -> str:
    lines = [finding.message]
    if finding.fix:
        lines += [f"Fix: {finding.fix.text}", *(f"    {command}" for command in finding.fix.commands)]
    return "\n".join(lines)


def _location(report: Report) -> _Object:
    """Return the logical location of a finding: the target."""
    name = report.target.python or "this machine"
    return {"name": name, "fullyQualifiedName": name, "kind": "resource"}


def _fingerprint(key: str, place: int) -> str:
    """Return the same value for the same fault, whatever numbers its message contains; findings that share it are numbered."""
    return hashlib.sha256(f"{key} {place}".encode()).hexdigest()


def _invocation(report: Report, fail_level: Severity) -> _Object:
    """Return the status of the run itself: its exit code, checks that crashed, and why nothing could be judged."""
    crashed = [each for each in report.results if each.outcome == "crash"]
    troubles = [
        {
            "level": "error",
            "message": {"text": f"{each.id}: {each.reason}"},
            "descriptor": {"id": each.id},
        }
        for each in crashed
    ]
    if why := open_question(report):
        troubles.append({"level": "error", "message": {"text": "\n".join([why, *unjudged(report)])}})
    code = report.exit_code(fail_level)
    invocation: _Object = {
        "executionSuccessful": not troubles,
        "exitCode": code,
        **({"exitCodeDescription": f"findings at or above the level {fail_level}"} if code == 1 else {}),
        "toolExecutionNotifications": troubles,
    }
    return {**invocation, "endTimeUtc": report.recorded} if _MOMENT.fullmatch(report.recorded) else invocation
