"""The certificate as JUnit XML: each requirement is a test. What could not be measured fails, as in all formats."""

from __future__ import annotations

import re

from junitparser import Failure, Skipped, TestCase, TestSuite

from tfgpu_doctor.accept.certificate import Certificate
from tfgpu_doctor.accept.requirement import Requirement
from tfgpu_doctor.accept.words import headline, measured, proofs, subject
from tfgpu_doctor.model.plain_text import clean
from tfgpu_doctor.render.junit import as_document, made_case

_NOT_XML = re.compile("[\ud800-\udfff]")  # characters that `clean` keeps: https://www.w3.org/TR/xml/#charsets
_CLASS = "tfgpu_doctor.accept"
_VERDICT = "the machine is accepted"


def render_junit(certificate: Certificate) -> str:
    """Return one suite, with the verdict as its last test: an interrupted run may have no other failure."""
    suite = TestSuite(_text(f"tfgpu-doctor accept {certificate.profile.name}"))
    for number, value in enumerate((certificate.verdict, subject(certificate), *proofs(certificate))):
        suite.add_property("verdict" if number == 0 else "about", _text(value))
    accepted = certificate.verdict == "accepted"
    failure = None if accepted else Failure(_text(headline(certificate)), _text(certificate.verdict))
    suite.add_testcases([*map(_case, certificate.requirements), made_case(_CLASS, _VERDICT, failure)])
    return as_document(suite, certificate.seconds)


def _case(row: Requirement) -> TestCase:
    remedy = f"; to measure it: {row.remedy}" if row.outcome == "not measured" else ""
    text = _text(f"required: {row.required}; {measured(row)}{remedy}; from {row.profile}")
    name = _text(f"{row.title} ({row.key})")
    if row.outcome in ("explained", "not judged"):
        return made_case(_CLASS, name, Skipped(text, row.outcome))
    if row.holds:
        return made_case(_CLASS, name, None, text=text)
    return made_case(_CLASS, name, Failure(text, _text(row.outcome)))


def _text(text: str) -> str:
    """Return text that XML 1.0 can contain, and that does not control a terminal."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", clean(text))
