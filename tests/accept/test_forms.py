"""Every form of a certificate: one verdict in all, valid, and nothing in them that a name could change."""

from __future__ import annotations

import html
import json
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
from document_shapes import SHAPES
from healthy import broken, gpu, runtime
from judged import judged, profile_of, recorded_machine, rows_of, shipped
from locations import RECORDS, ROOT
from replayed import each_machine

from tfgpu_doctor.accept.certificate import EXIT_CODES, Certificate
from tfgpu_doctor.accept.formats import FORMATS
from tfgpu_doctor.accept.page import render_certificate
from tfgpu_doctor.accept.reading import shipped_profiles
from tfgpu_doctor.accept.verifying import verify
from tfgpu_doctor.cli.main import cli
from tfgpu_doctor.model.facts import decode_facts

JUNIT = xmlschema.XMLSchema(str(ROOT / "tests/support/junit.xsd"))
SCHEMA = jsonschema.Draft202012Validator(
    json.loads((ROOT / "doctor/accept/certificate.schema.json").read_text("utf-8"))
)
HOSTILE = (
    "\x1b[31mred\x1b]0;title\x07 <script>alert(1)</script><b>&amp; ]]> --> </script><!-- `code` ``` | [link](http://x) "
    "![i](x) *a* _b_ ~~s~~ # @all ::set-output name=x::y %0A::error::no =HYPERLINK(1) +1 -1 \u202eturned\u2066 \u200f"
    "'\"><img src=x onerror=alert(1)> {{ x }} ${x} $(x) \x00 \ufffe \x85 \u2028"
    "\r\n::error title=forged::forged\n✓ Accepted\n# forged\n\n- forged\n</details>\n```\n"
)
OWN_WORDS = {
    "key", "kind", "verdict", "level", "outcome", "severity", "confidence", "label", "id", "explained_by", "explains",
}  # fmt: skip


def _in_words(document: str) -> str:
    found = re.search(r"(Accepted|Not accepted|Not judged) by the profile|Interrupted: not judged", document)
    assert found
    return (found.group(1) or "interrupted").lower()


def _of_junit(document: str) -> str:
    suite = next(iter(junitparser.JUnitXml.fromstring(document.encode())))
    verdict: str = next(each.value for each in suite.properties() if each.name == "verdict")
    return verdict


VERDICTS: dict[str, Callable[[str], str]] = {
    "text": _in_words,
    "markdown": _in_words,
    "html": _in_words,
    "json": lambda document: json.loads(document)["verdict"],
    "junit": _of_junit,
}


@each_machine
def test_every_form_says_the_same_of_every_machine(machine: str) -> None:
    """By every shipped profile; and each form is valid."""
    facts = recorded_machine(machine)
    for name in shipped_profiles():
        certificate = judged(facts, shipped(name))
        rows_of(certificate)
        documents = {format_: render_certificate(certificate, format_) for format_ in FORMATS}
        assert {VERDICTS[format_](document) for format_, document in documents.items()} == {certificate.verdict}
        SCHEMA.validate(json.loads(documents["json"]))
        JUNIT.validate(ET.fromstring(documents["junit"]))
        _junit_tells_every_row(documents["junit"], certificate)
        for format_ in ("json", "html"):
            found = verify(documents[format_].encode())
            assert (found.status, found.exit_code) == ("intact", 0 if certificate.verdict == "accepted" else 1)


def _junit_tells_every_row(document: str, certificate: Certificate) -> None:
    suite = next(iter(junitparser.JUnitXml.fromstring(document.encode())))
    *cases, verdict = list(suite)
    assert [case.name.rpartition("(")[2][:-1] for case in cases] == [row.key for row in certificate.requirements]
    for case, row in zip(cases, certificate.requirements, strict=True):
        kinds = {junitparser.Failure: "fails", junitparser.Skipped: "points"}
        found = {kinds[type(each)] for each in case.result if type(each) in kinds}
        expected = set() if row.holds else {"points"} if row.outcome == "explained" else {"fails"}
        assert found == expected
    assert bool(verdict.result) == (certificate.verdict != "accepted")


@pytest.mark.parametrize("profile", ["ci", "workstation", "server", "cluster-node"])
@pytest.mark.parametrize("machine", ["workstation-healthy", "ubuntu-without-driver", "workstation-healthy-quick"])
def test_the_command_ends_alike_in_every_form(profile: str, machine: str, tmp_path: pathlib.Path) -> None:
    codes, verdicts = set(), set()
    for format_ in FORMATS:
        out = tmp_path / format_
        record = RECORDS[machine]
        words = ["accept", "--profile", profile, "--facts", str(record), "--format", format_, "-o", str(out)]
        codes.add(cli.main(words, standalone_mode=False))
        verdicts.add(VERDICTS[format_](out.read_text("utf-8")))
    (verdict,) = verdicts
    assert codes == {EXIT_CODES[verdict]}  # type: ignore[index]


def test_the_page_lists_what_the_profile_sets_and_where(tmp_path: pathlib.Path) -> None:
    profile_of('extends = "ci"\nsuites = ["training"]\n', tmp_path, "base.toml")
    toml = 'extends = "base.toml"\ngpus = 1\n[speed-ups]\n"training/step[cnn]" = 4\n[checks]\nselect = ["GPU"]\n'
    page = render_certificate(judged(recorded_machine("workstation-healthy"), profile_of(toml, tmp_path)), "html")
    table = html.unescape(page[page.index('aria-label="Requirements of the profile"') :])
    found = re.findall(r'<tr><th scope="row">(.*?)</th><td[^>]*>(.*?)</td><td[^>]*>(.*?)</td></tr>', table)
    assert sorted(row for row in found if row[2] != "ci") == [
        ("checks.select", '["GPU"]', "mine.toml"),
        ("gpus", "1", "mine.toml"),
        ("speed-ups.training/step[cnn]", "4.0", "mine.toml"),
        ("suites", '["training"]', "base.toml"),
    ]


def test_a_long_name_of_a_profile_keeps_the_table_narrow(tmp_path: pathlib.Path) -> None:
    """The columns share at most 100 characters; the last, where a requirement is from, has 14 of them."""
    name = "a-profile-whose-name-is-longer-than-its-column-of-the-table.toml"
    text = render_certificate(
        judged(recorded_machine("workstation-healthy"), profile_of("gpus = 1\n", tmp_path, name)), "text"
    )
    rules = next(line for line in text.splitlines() if line.startswith("--"))
    *_, last = rules.split()
    assert len(last) == 14
    assert len(rules) <= 110


# Hostile text


def filled(certificate: Certificate, text: str) -> Certificate:
    """The certificate with every text in it replaced that a machine or a profile may have told."""
    document = _fill(json.loads(render_certificate(certificate, "json")), text)
    document["profile"]["profile"] = json.loads(render_certificate(certificate, "json"))["profile"]["profile"]
    return msgspec.convert(document, Certificate).proved()


def _fill(value: Any, text: str, key: str = "") -> Any:
    if key in OWN_WORDS:
        return value
    if isinstance(value, dict):
        return {name: _fill(each, text, name) for name, each in value.items()}
    if isinstance(value, list):
        return [_fill(each, text, key) for each in value]
    return text if isinstance(value, str) and value else value


def rich_certificate() -> Certificate:
    """One with every outcome in it."""
    certificate = judged(recorded_machine("loaded-memory-flips"), shipped("server"))
    row = rows_of(certificate)["gpus"]
    allowed = msgspec.structs.replace(row, key="allowed.HLT005", outcome="allowed", reason="known")
    found = msgspec.structs.replace(
        certificate, requirements=(*certificate.requirements, allowed), notes=("an allowance",)
    )
    assert {row.outcome for row in found.requirements} == {"met", "missed", "not measured", "explained", "allowed"}
    return found


@pytest.mark.parametrize("format_", FORMATS)
def test_hostile_text_stays_in_its_cell(format_: str) -> None:
    harmless = render_certificate(filled(rich_certificate(), "\x01x"), format_)
    hostile = render_certificate(filled(rich_certificate(), HOSTILE), format_)
    if format_ == "text":
        assert _edges(hostile) == _edges(harmless)
    else:
        assert SHAPES[format_](hostile) == SHAPES[format_](harmless)
    hostile.encode()


def _edges(document: str) -> list[str]:
    """What stands at the edge between the names of the machine and those of the makers: all that a name fills is indented."""
    body = document[document.index("\n\n") : re.search(r"^\d+ met", document, re.MULTILINE).start()]  # type: ignore[union-attr]
    return [line[:2] for line in body.splitlines() if line.strip() and not line.startswith(" ")]


@pytest.mark.parametrize("format_", ["text", "markdown", "junit", "html"])
def test_hostile_text_steers_nothing(format_: str) -> None:
    document = render_certificate(filled(rich_certificate(), HOSTILE), format_)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", document)
    if format_ in ("html", "markdown"):
        assert "<script>alert(1)" not in document.replace("\\<script\\>", "")


@pytest.mark.parametrize("format_", ["json", "html"])
def test_what_is_hostile_is_verified_too(format_: str) -> None:
    hostile = filled(rich_certificate(), HOSTILE)
    assert verify(render_certificate(hostile, format_).encode()).status != "no certificate"


def test_a_hostile_profile_changes_nothing_outside_its_cell(tmp_path: pathlib.Path) -> None:
    words = json.dumps(HOSTILE.replace("\ufffe", ""))
    toml = (
        f'about = {words}\nmodels = [{words}]\n[[allowed]]\ncheck = "HLT005"\nreason = {words}\nexpires = 2027-01-01\n'
    )
    facts = decode_facts(RECORDS["power-limit-lowered"].read_bytes())
    certificate = judged(facts, profile_of(toml, tmp_path))
    harmless = judged(facts, profile_of(toml.replace(words, '"x"'), tmp_path))
    for format_ in ("json", "markdown", "junit", "html"):
        document = render_certificate(certificate, format_)
        assert SHAPES[format_](document) == SHAPES[format_](render_certificate(harmless, format_))
    assert verify(render_certificate(certificate, "html").encode()).status == "intact"


def test_half_a_character_in_a_name_is_a_question_mark(tmp_path: pathlib.Path) -> None:
    facts = broken(
        runtime=runtime(gpus=(gpu(description="RTX \ud800"),), version="2.20\udcff"), driver={"version": "\udc80"}
    )
    certificate = judged(facts, shipped("ci"), subject="node \udc80")
    for format_ in FORMATS:
        assert "RTX ?" in render_certificate(certificate, format_).encode().decode()
    assert verify(render_certificate(certificate, "json").encode()).status == "intact"
    assert certificate.subject == "node ?"


def test_ten_megabytes_of_text_stay_bounded() -> None:
    endless = "A" * (10 << 20)
    facts = broken(
        runtime=runtime(gpus=(gpu(description=endless),), version=endless), driver={"version": endless},
        nvml={"driver_version": endless}, system={"distribution": endless},
    )  # fmt: skip
    certificate = judged(msgspec.structs.replace(facts, doctor=endless), shipped("server"), subject=endless)
    for format_ in FORMATS:
        assert len(render_certificate(certificate, format_)) < 100_000
