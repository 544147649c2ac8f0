"""The certificate as JUnit XML: each requirement is a test. What could not be measured fails, as it does everywhere."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from tfgpu_doctor.accept.certificate import Certificate
from tfgpu_doctor.accept.requirement import Requirement
from tfgpu_doctor.accept.words import headline, measured, proofs, subject
from tfgpu_doctor.render.text import clean

_NOT_XML = re.compile("[\ud800-\udfff]")  # of what `clean` leaves: https://www.w3.org/TR/xml/#charsets
_VERDICT = "the machine is accepted"


def render_junit(certificate: Certificate) -> str:
    """One suite, and at its end the verdict as a test of its own: an interrupted run may have no failure but that."""
    failed = [row for row in certificate.requirements if row.outcome in ("missed", "not measured")]
    explained = sum(row.outcome == "explained" for row in certificate.requirements)
    accepted = certificate.verdict == "accepted"
    tally = {
        "tests": str(len(certificate.requirements) + 1), "failures": str(len(failed) + (not accepted)), "errors": "0",
        "skipped": str(explained),
    }  # fmt: skip
    name = _text(f"tfgpu-doctor accept {certificate.profile.name}")
    suite = ET.Element("testsuite", {"name": name, "time": f"{certificate.seconds:.1f}", **tally})
    properties = ET.SubElement(suite, "properties")
    for number, value in enumerate((certificate.verdict, subject(certificate), *proofs(certificate))):
        ET.SubElement(properties, "property", name="verdict" if number == 0 else "about", value=_text(value))
    for row in certificate.requirements:
        suite.append(_case(row))
    verdict = ET.SubElement(suite, "testcase", classname="tfgpu_doctor.accept", name=_VERDICT, time="0.000")
    if not accepted:
        ET.SubElement(verdict, "failure", type=_text(certificate.verdict), message=_text(headline(certificate)))
    suites = ET.Element("testsuites", {"name": "tfgpu-doctor", **tally})
    suites.append(suite)
    ET.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suites, encoding="unicode") + "\n"


def _case(row: Requirement) -> ET.Element:
    case = ET.Element("testcase", classname="tfgpu_doctor.accept", name=_text(f"{row.title} ({row.key})"), time="0.000")
    remedy = f"; to measure it: {row.remedy}" if row.outcome == "not measured" else ""
    told = _text(f"required: {row.required}; {measured(row)}{remedy}; from {row.profile}")
    if row.outcome == "explained":
        ET.SubElement(case, "skipped", type="explained", message=told)
    elif row.holds:
        ET.SubElement(case, "system-out").text = told
    else:
        ET.SubElement(case, "failure", type=_text(row.outcome), message=told)
    return case


def _text(text: str) -> str:
    """Text that XML 1.0 can hold, and that steers no terminal."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", clean(text))
