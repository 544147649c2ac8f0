"""The formats: each a rendering of the one report, whatever strange text the machine holds."""

from __future__ import annotations

import json
import re

import jsonschema
import msgspec
import pytest
from built_health import hung, without
from every import every
from healthy import broken, cuda_gpu, healthy, nvml_gpu, without_gpus
from hypothesis import given
from hypothesis import strategies as st
from replayed import NAMES, each_machine, report_on
from rich.cells import cell_len

from tfgpu_doctor.diagnose.engine import diagnose
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model.facts import Facts
from tfgpu_doctor.model.plain_text import clean
from tfgpu_doctor.render import FORMATS, render
from tfgpu_doctor.render.json_document import as_json, report_schema
from tfgpu_doctor.render.markdown_page import render_markdown
from tfgpu_doctor.render.text import render_text
from tfgpu_doctor.render.words import answers, counts_line

VALIDATOR = jsonschema.Draft202012Validator(json.loads(report_schema()))
HOSTILE = "\x1b[31mred\x1b[0m <b>bold</b> `code` | [link](x) ::set-output name=x::y \u202eturned\u2066 \x07 @everyone"


every_machine = every("machine", NAMES, least=160)


@every_machine
def test_json_follows_its_schema(machine: str) -> None:
    VALIDATOR.validate(json.loads(as_json(report_on(machine))))


@every_machine
def test_json_keeps_the_contract(machine: str) -> None:
    document = json.loads(as_json(report_on(machine)))
    assert {"schema", "healthy", "target", "causes", "results", "counts"} <= set(document)
    assert document["schema"] == 1
    assert set(document["counts"]) == {"pass", "warn", "fail", "blocked", "skip", "crash"}
    for cause in document["causes"]:
        assert {"label", "id", "title", "confidence", "evidence", "fix", "explains"} <= set(cause)
        assert set(cause["fix"]) == {"text", "commands"}
    for result in document["results"]:
        assert {"id", "title", "outcome", "seconds", "findings"} <= set(result)


@pytest.mark.parametrize("width", [40, 80, 110])
@each_machine
def test_text_keeps_its_width(machine: str, width: int) -> None:
    """And tells every check, where it is asked for all."""
    report = report_on(machine)
    commands = {command for cause in report.causes for command in cause.fix.commands}
    words = re.compile(r"\S{%d,}" % (width - 8))  # a path without a space cannot be broken well
    text = render_text(report, width=width, colour=False, verbose=True)
    for line in text.splitlines():
        assert cell_len(line) <= width or line.strip() in commands or words.search(line), line
        assert line == line.rstrip()
    assert [result.id for result in report.results if result.id not in text] == []


@every_machine
def test_text_names_cause_evidence_fix_and_counts(machine: str) -> None:
    report = report_on(machine)
    text = " ".join(render_text(report, width=110, colour=False, verbose=False).split())
    for cause in report.causes:
        assert " ".join(cause.title.split()) in text
        assert cause.id in text
        for command in cause.fix.commands:
            assert " ".join(command.split()) in text
    assert counts_line(report) in text


@every_machine
def test_every_format_names_the_same_causes(machine: str) -> None:
    report = report_on(machine)
    for format_ in FORMATS:
        document = render(report, format_)
        for cause in report.causes:
            assert cause.id in document
        assert document.endswith("\n")


def test_colour_is_there_when_asked_for_alone() -> None:
    report = diagnose(broken(driver={"version": "470.1"}))
    assert "\x1b[" in render_text(report, width=80, colour=True, verbose=False)
    assert "\x1b[" not in render_text(report, width=80, colour=False, verbose=False)


def test_healthy_and_quick_and_interrupted_say_so() -> None:
    assert "TensorFlow computes on the GPU" in render(diagnose(healthy()), "text")
    assert "--quick" in render(diagnose(healthy(quick=True)), "text")
    assert "Interrupted" in render(diagnose(healthy(), interrupted=True), "text")


def test_nothing_judged_is_not_called_healthy() -> None:
    text = render(diagnose(Facts(unknown={"pci": "/sys cannot be read"})), "text")
    assert "Not judged" in text
    assert "Healthy" not in text


def strange(name: str) -> Facts:
    return broken(
        cuda_driver={"gpus": (cuda_gpu(name=name, compute_capability="5.2"),)}, nvml={"gpus": (nvml_gpu(name=name),)}
    )


def test_hostile_names_steer_no_terminal() -> None:
    text = render(diagnose(strange(HOSTILE)), "text", verbose=True)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    assert "<b>bold</b>" in text


def test_hostile_names_are_no_markdown() -> None:
    text = render_markdown(diagnose(strange(HOSTILE + "\n# heading")))
    assert "<b>" not in text
    assert "\n# heading" not in text
    assert not re.search(r"(?<!\\)\[link\]", text)


@given(st.text(max_size=40))
def test_any_name_can_be_shown(name: str) -> None:
    report = diagnose(strange(name))
    for format_ in FORMATS:
        assert render(report, format_, verbose=True)
    VALIDATOR.validate(json.loads(as_json(report)))


def test_clean_keeps_ordinary_text() -> None:
    assert clean("äöü → 你好 🙂\n\tindented") == "äöü → 你好 🙂\n indented"


def test_a_crash_is_shown() -> None:
    report = diagnose(healthy())
    result = msgspec.structs.replace(report.results[0], outcome="crash", reason="ZeroDivisionError")
    report = msgspec.structs.replace(report, results=(result,), counts={**report.counts, "crash": 1}, healthy=False)
    assert "ZeroDivisionError" in render(report, "text")


# The two questions, in every format

ONE_HANGS = without(3, hung())
QUESTIONS = ("TensorFlow computes on a GPU here", "every GPU of this machine is fit for work")
OF_MARKUP = re.compile(r"\*\*|</?b>|\s+")


@pytest.mark.parametrize(
    ("facts", "computes", "fit"),
    [
        (healthy(), "yes", "yes"),
        (healthy(quick=True), "not tried (--quick)", "not known"),
        (broken(runtime=None), "not judged", "not known"),
        (broken(runtime=without_gpus()), "no", "not known"),
        (ONE_HANGS, "yes", "no (HLT001)"),
        (broken(ONE_HANGS, runtime=without_gpus()), "no", "no (HLT001)"),
    ],
    ids=["healthy", "quick", "not run", "no GPU", "one of eight hangs", "and no GPU"],
)
def test_the_two_questions_are_answered_in_words(facts: Facts, computes: str, fit: str) -> None:
    report = diagnose(facts)
    said = [f"{question}: {answer}" for question, answer in zip(QUESTIONS, (computes, fit), strict=True)]
    assert [": ".join(pair) for pair in answers(report)] == said
    formats = ["text", "markdown", "html", *(["github"] if report.healthy else [])]
    for name in formats:
        document = OF_MARKUP.sub(" ", render(report, name)).replace(" :", ":")
        assert all(" ".join(line.split()) in re.sub(r": +", ": ", document) for line in said), name


@pytest.mark.parametrize(
    "facts", [healthy(), healthy(quick=True), ONE_HANGS], ids=["healthy", "quick", "one of eight hangs"]
)
def test_the_two_questions_are_answered_for_programs(facts: Facts) -> None:
    report = diagnose(facts)
    wanted = {"computes": report.computes, "fit": report.fit}
    document = json.loads(render(report, "json"))
    assert {name: document[name] for name in wanted} == wanted
    of_sarif = json.loads(render(report, "sarif"))["runs"][0]["properties"]
    assert {name: of_sarif[name] for name in wanted} == wanted
    told = dict(re.findall(r'<property name="(\w+)" value="(\w+)"', render(report, "junit")))
    words = {None: "unknown", True: "true", False: "false"}
    assert {name: told[name] for name in wanted} == {name: words[value] for name, value in wanted.items()}


@pytest.mark.parametrize("name", ["text", "markdown", "html", "json"])
def test_what_a_warning_costs_is_told(name: str) -> None:
    report = report_on("geforce-in-slot-of-4-lanes")
    (cause,) = report.causes
    assert (cause.label, cause.severity) == ("pcie_link_degraded", "warning")
    assert cause.costs == read_knowledge().causes["pcie_link_degraded"].costs
    document = " ".join(OF_MARKUP.sub(" ", render(report, name)).split())
    assert cause.costs in document
    assert name == "json" or "Costs" in document
    assert "Costs" not in render(diagnose(ONE_HANGS), name)
