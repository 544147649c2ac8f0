"""Names and messages that hold markup, commands, escapes or megabytes: they change nothing outside their own cell."""

from __future__ import annotations

import json
import re
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import msgspec
import pytest
import xmlschema
from document_shapes import GITHUB_LINE, SHAPES
from healthy import broken, cuda_gpu, distribution, healthy, nvml_gpu, runtime
from locations import RECORDS, TESTS
from sarif_subset import SARIF

from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.diagnose.truncate import bound
from tfgpu_doctor.model import Finding, Fix
from tfgpu_doctor.model.facts import Facts, decode_facts
from tfgpu_doctor.model.facts.nvidia import GpuProcess
from tfgpu_doctor.model.plain_text import clean
from tfgpu_doctor.model.report import OUTCOMES, Report
from tfgpu_doctor.render import FORMATS, render
from tfgpu_doctor.render.json_document import as_json, report_schema

JUNIT = xmlschema.XMLSchema(str(TESTS / "support/junit.xsd"))
HOSTILE = (
    "\n✗ forged\n\n# forged\r::error::forged\n\x1b[31mred\x1b]0;title\x07 <script>alert(1)</script><b>&amp; ]]> --> `code` ``` | [link](http://x) ![i](x) *a* _b_"
    " ~~s~~ # @all ::set-output name=x::y %0A::error::no ##[error]no ##vso[task.x]y a::set-output name=x::y =HYPERLINK(1) +1 -1 \u202eturned\u2066 \u200f"
    "'\"><img src=x onerror=alert(1)> {{ x }} ${x} $(x) \x00 \ufffe \ud800 \x85 \u2028"
    "\r\n::error title=forged::forged\n::set-output name=a::b\n✗ forged\n# forged\n\n- forged\n</details>\n```\n"
)
STRUCTURE = {  # what the doctor itself writes
    "id", "label", "outcome", "severity", "confidence", "cause", "blocked_by", "explains", "level", "schema", "counts", "check",
    "tags", "goal",
}  # fmt: skip


def filled(report: Report, text: str) -> Report:
    """The report with every piece of text that a machine may have told replaced."""
    return bound(msgspec.convert(_fill(json.loads(as_json(report)), text), Report))


def _fill(value: Any, text: str, key: str = "") -> Any:
    if key in STRUCTURE and not isinstance(value, dict):
        return value
    if isinstance(value, dict):
        return {name: _fill(each, text, name) for name, each in value.items()}
    if isinstance(value, list):
        return [_fill(each, text, key) for each in value]
    return text if isinstance(value, str) and value else value


def report_of(name: str) -> Report:
    return diagnose(decode_facts(RECORDS[name].read_bytes()))


def rich_report() -> Report:
    """A report with every outcome, several causes, GPUs that others use, and libraries."""
    report = report_of("tensorflow-2.21.0-misses-cusolver")
    busy = report_of("forgotten-notebook-holds-half")
    assert any(gpu.users for gpu in busy.gpus)
    assert report.libraries
    report = msgspec.structs.replace(report, gpus=busy.gpus, causes=(*report.causes, *busy.causes))
    passing = [place for place, result in enumerate(report.results) if result.outcome == "pass"]
    results = list(report.results)
    warning = Finding("x", cause="driver_too_old", severity="warning", evidence=("x",), fix=Fix("x", ("x",)))
    results[passing[0]] = msgspec.structs.replace(results[passing[0]], outcome="warn", findings=(warning,))
    results[passing[1]] = msgspec.structs.replace(results[passing[1]], outcome="crash", reason="x", evidence=())
    outcomes: list[str] = [result.outcome for result in results]
    assert set(outcomes) == set(OUTCOMES)
    counts = {outcome: outcomes.count(outcome) for outcome in report.counts}
    return msgspec.structs.replace(report, results=tuple(results), counts=counts, healthy=False)


@pytest.mark.parametrize("format_", FORMATS)
def test_hostile_text_stays_in_its_cell(format_: str) -> None:
    """The structure of the document is that of one with harmless text in all the same places."""
    report = rich_report()
    harmless = render(filled(report, "\x01x"), format_)
    hostile = render(filled(report, HOSTILE), format_)
    assert SHAPES[format_](hostile) == SHAPES[format_](harmless)
    hostile.encode("utf-8")


@pytest.mark.parametrize("format_", FORMATS)
def test_hostile_text_steers_nothing(format_: str) -> None:
    """Neither a terminal, nor a browser, nor the CI service that reads the log it is printed to."""
    document = render(filled(rich_report(), HOSTILE), format_, verbose=True)
    if format_ == "json":
        assert clean(HOSTILE.replace("\ud800", "?")) in json.loads(document)["causes"][0]["evidence"]
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufffe\ud800-\udfff]", document)
    if format_ in ("html", "markdown"):
        assert "<script>alert(1)" not in document
    for line in document.splitlines():
        assert "##[" not in line
        assert "##vso[" not in line
        assert not line.lstrip().startswith("::") or (
            format_ == "github" and line.startswith(("::error ", "::warning "))
        )


def hostile_machines() -> list[Facts]:
    """Names of GPUs, processes, packages and the host, in the places where users have met strange ones."""
    process = GpuProcess(pid=7, name=HOSTILE, memory_bytes=23 << 30, user=HOSTILE)
    return [
        broken(nvml={"gpus": (nvml_gpu(name=HOSTILE, processes=(process,), memory_free_bytes=1 << 20),)}),
        broken(cuda_driver={"gpus": (cuda_gpu(name=HOSTILE, compute_capability="5.2"),)}),
        broken(system={"distribution": HOSTILE, "release": HOSTILE, "cpu_model": HOSTILE, "glibc": HOSTILE}),
        broken(
            target={
                "distributions": (distribution(HOSTILE, HOSTILE), distribution("numpy", HOSTILE)),
                "prefix": HOSTILE,
            }
        ),
        broken(target={"working_folder": HOSTILE, "local_modules": (HOSTILE,), "tensorflow_file": HOSTILE}),
        broken(driver={"version": HOSTILE}, tensorflow={"version": HOSTILE, "cuda_version": HOSTILE}),
        broken(runtime=runtime(gpus=(), computations=(), log=(HOSTILE,), import_error=HOSTILE)),
        broken(container={"kind": HOSTILE}, environment={"variables": {"CUDA_VISIBLE_DEVICES": HOSTILE}}),
        msgspec.structs.replace(healthy(), doctor=HOSTILE, recorded=HOSTILE, unknown={"pci": HOSTILE}, pci=None),
    ]


@pytest.mark.parametrize("facts", hostile_machines())
def test_documents_on_hostile_machines_are_valid(facts: Facts) -> None:
    report = diagnose(facts)
    documents = {format_: render(report, format_) for format_ in FORMATS}
    for format_, document in documents.items():
        document.encode()
        SHAPES[format_](document)
    JUNIT.validate(ET.fromstring(documents["junit"]))
    jsonschema.Draft202012Validator(SARIF).validate(json.loads(documents["sarif"]))
    jsonschema.validate(json.loads(documents["json"]), json.loads(report_schema()))
    assert all(GITHUB_LINE.fullmatch(line) for line in documents["github"].split("\n")[:-1])


@pytest.mark.parametrize("letter", ["A", "1", "/", "1.", "lib"])
def test_ten_megabytes_of_text_are_read_and_shown_in_part(letter: str) -> None:
    """In every place at once; none of them is what a check's pattern or a number's reader takes for ever over."""
    endless = letter * ((10 << 20) // len(letter))
    process = GpuProcess(pid=7, name=endless, memory_bytes=23 << 30)
    facts = broken(
        nvml={"gpus": (nvml_gpu(name=endless, processes=(process,), memory_free_bytes=1 << 20),)},
        system={"distribution": endless, "glibc": endless, "release": endless},
        runtime=runtime(gpus=(), import_error=endless, log=(endless,)), driver={"version": endless},
        target={"working_folder": endless, "prefix": endless, "distributions": (distribution(endless, endless),)},
        tensorflow={"version": endless, "cuda_version": endless}, container={"kind": endless},
    )  # fmt: skip
    report = diagnose(facts)
    assert not report.counts["crash"]
    for format_ in FORMATS:
        document = render(report, format_)
        assert len(document) < 2 << 20
        assert format_ == "prometheus" or "(truncated)" in document  # metrics have no messages


@pytest.mark.parametrize(
    "command",
    ["rm x\nrm y", "echo \x1b[2J", "echo \u202e", "echo " + "x" * 5000],
    ids=["lines", "escape", "turned", "long"],
)
def test_a_command_that_cannot_be_pasted_is_left_out(command: str) -> None:
    report = diagnose(healthy())
    finding = Finding("x", fix=Fix("Do this.", ("echo fine", command)))
    found = msgspec.structs.replace(report.results[0], outcome="fail", findings=(finding,))
    shown = bound(msgspec.structs.replace(report, results=(found,))).results[0].findings[0]
    assert shown.fix == Fix(
        "Do this. A command is omitted here: a name in it is too long or has unprintable characters.", ("echo fine",)
    )


def test_the_gravest_findings_are_kept() -> None:
    report = diagnose(healthy())
    notes = [Finding(f"note {number}", severity="info") for number in range(100)]
    found = msgspec.structs.replace(report.results[0], outcome="fail", findings=(*notes, Finding("the error")))
    report = bound(msgspec.structs.replace(report, results=(found,)))
    assert len(report.results[0].findings) == 60
    assert report.exit_code() == 1
