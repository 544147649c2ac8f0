"""What the documents name is there: ids of checks, fields of JSON documents; and what is there is named: options, verdicts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import click
import msgspec
import pytest
from doctor_command import run_doctor
from locations import ROOT

from tfgpu_doctor.accept.certificate import Certificate
from tfgpu_doctor.bench.result import BenchReport
from tfgpu_doctor.checks import ALL_CHECKS
from tfgpu_doctor.cli.main import cli
from tfgpu_doctor.fleet.fleet import Fleet
from tfgpu_doctor.fleet.history import History
from tfgpu_doctor.knowledge import read_knowledge
from tfgpu_doctor.model.facts.resolution import ResolvedLibrary
from tfgpu_doctor.tracing import TraceReport
from tfgpu_doctor.watching import WatchReport

PAGES = {
    str(path.relative_to(ROOT)): path.read_text("utf-8")
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "action.yml", *sorted(ROOT.glob("docs/**/*.md")))
}
MADE_UP = {"ABC001", "SYS900"}  # in the pages that show how to add a check
DOCUMENTS = PAGES["docs/documents.md"]
STRUCTS: dict[str, type[msgspec.Struct]] = {
    "bench": BenchReport, "trace": TraceReport, "watch": WatchReport, "accept": Certificate, "fleet report": Fleet,
    "fleet history": History,
}  # fmt: skip


def fields(heading: str, table: int = 0) -> list[str]:
    """The names in the first column of a table below a heading of docs/documents.md."""
    section = re.split(r"^## ", DOCUMENTS.partition(f"\n## {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    rows = re.findall(r"(?:^\|.*\n)+", section, re.MULTILINE)[table].splitlines()[2:]
    return [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])]


def options(command: click.Command) -> Iterator[str]:
    """Every option of the command and of those below it."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found, name
            yield from options(found)
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            yield from parameter.opts


@pytest.mark.parametrize("page", PAGES)
def test_checks_that_are_named_exist(page: str) -> None:
    named = set(re.findall(r"\b(?!XID|ACME)[A-Z]{3}\d{3}\b", PAGES[page]))
    named |= {each for each in re.findall(r"\bXID\d{3}\b", PAGES[page]) if f"explain {each}" not in PAGES[page]}
    assert named - MADE_UP <= {check.id for check in ALL_CHECKS}


def test_every_option_is_in_a_document() -> None:
    text = "\n".join(PAGES.values())
    # The opposite of --no-retest, which is what happens without it.
    missing = {each for each in options(cli) if not re.search(rf"(?<![\w-]){re.escape(each)}(?![\w-])", text)}
    assert missing - {"--retest"} == set()


def test_every_verdict_is_in_a_document() -> None:
    knowledge = read_knowledge()
    text = PAGES["docs/trace.md"] + PAGES["docs/watch.md"]
    words = {*knowledge.trace_verdicts, *knowledge.watch_words, "hang"}
    assert {word for word in words if f"`{word}`" not in text} == set()


@pytest.mark.parametrize("heading", STRUCTS)
def test_every_field_of_a_document_is_explained(heading: str) -> None:
    assert sorted(fields(heading)) == sorted(STRUCTS[heading].__struct_fields__)


def test_every_field_of_the_libraries_is_explained() -> None:
    document: dict[str, Any] = json.loads(run_doctor("libraries", "--format", "json").stdout)
    assert sorted(fields("libraries")) == sorted(document)
    assert sorted(fields("libraries", 1)) == sorted(ResolvedLibrary.__struct_fields__)


@pytest.mark.parametrize(("heading", "arguments"), [("advise", ("--gpu", "H100")), ("matrix", ())])
def test_every_field_of_the_advice_is_explained(heading: str, arguments: tuple[str, ...]) -> None:
    document: dict[str, Any] = json.loads(run_doctor(heading, *arguments, "--format", "json").stdout)
    assert sorted(fields(heading)) == sorted(document)
    if heading == "matrix":
        assert sorted(fields(heading, 1)) == sorted(document["releases"][0])


def test_numbers_of_the_schemas_are_those_of_the_documents() -> None:
    for heading, struct in STRUCTS.items():
        section = DOCUMENTS.partition(f"\n## {heading}\n")[2]
        (number,) = re.findall(r"\| `schema` \| (\d+) \|", section.partition("\n## ")[0])
        defaults = dict(zip(reversed(struct.__struct_fields__), reversed(struct.__struct_defaults__), strict=False))
        assert int(number) == defaults["schema"], heading
